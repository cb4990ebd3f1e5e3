"""The vocabulary of figures: every key that is measured has a title, a direction and a unit."""

import json
from pathlib import Path

import numpy as np
import pytest

from nonneg import metrics
from nonneg.metrics.figures import FIGURES, OLD_KEYS, current_key, figure_kind, shown_kind

RESULTS = Path(__file__).parents[2] / "results"
OLD_RUNS = Path(__file__).parents[1] / "goldens" / "runs-0.1"


def test_titles_tell_figures_apart():
    titles = [kind.title for key, kind in FIGURES.items() if key != "alive_features"]
    assert len(set(titles)) == len(titles)
    assert FIGURES["alive_features"].title == FIGURES["alive_rate"].title  # a count and its share


@pytest.mark.parametrize(
    ("key", "heading", "higher_is_better"),
    [
        ("top5_purity", "top-5 purity", True),
        ("sepin_all", "SEPIN@all, nats", True),
        ("probe_hidden_0.5_percent", "linear probe (hidden), 0.5 % of the labels, %", True),
        ("selection_probe_all", "probe, all features, %", True),
        ("selection_transfer_0.25_random", "transfer, 0.25 of the alive, at random, %", True),
        ("selection_retrieval_512_ea_signed", None, True),
        ("robust_gaussian_noise", "probe, gaussian noise, %", True),
        ("features_fine", "features of fine classes", None),
        ("class_entropy", "class entropy, nats", False),
        ("sparsity", "sparsity, %", None),
    ],
)
def test_keys_with_a_number_or_name_in_them(key, heading, higher_is_better):
    kind = figure_kind(key)
    assert kind.higher_is_better is higher_is_better
    if heading is not None:
        assert kind.heading == heading


Z = np.eye(6)[[0, 0, 1, 1, 2, 3]]
Y = np.array([0, 0, 1, 1, 2, 2])
FACTORS = np.array([[i, j] for i in range(2) for j in range(3)])
MEASURED = {
    "sparsity": lambda: metrics.sparsity(Z),
    "active_per_sample": lambda: metrics.active_per_sample(Z),
    "class_consistency": lambda: metrics.class_consistency(Z, Y),
    "class_consistency_min2": lambda: metrics.class_consistency(Z, Y, min_active=2),
    "top2_purity": lambda: metrics.top_purity(Z, Y, 2),
    "class_entropy": lambda: metrics.class_entropy(Z, Y),
    "correlation": lambda: metrics.feature_correlation(Z),
    "effective_rank": lambda: metrics.effective_rank(Z),
    "monosemanticity": lambda: metrics.monosemanticity(Z, Z),
    "precision_features": lambda: metrics.precision_at_k(Z, Y, 1),
    "map_features": lambda: metrics.mean_average_precision_at_k(Z, Y, 1),
    "sepin_all": lambda: metrics.sepin(Z, Z, temperature=1),
    "mig": lambda: metrics.mig(Z, FACTORS),
    "sap": lambda: metrics.sap(Z, FACTORS),
}


@pytest.mark.parametrize("key", MEASURED)
def test_a_metric_has_the_direction_of_its_figure(key):
    assert MEASURED[key]().higher_is_better is figure_kind(key).higher_is_better


def test_the_page_about_metrics_has_the_directions_of_figures():
    page = (RESULTS.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
    for name in ("sparsity", "active_per_sample"):
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}(Z)`"))
        assert row.endswith("| neither |")
        assert figure_kind(name).higher_is_better is None


def test_an_unknown_key_is_refused_where_it_is_measured_and_shown_as_it_is():
    with pytest.raises(KeyError, match="no figure has the key 'top_purity'"):
        figure_kind("top_purity")
    assert shown_kind("top_purity").title == "top purity"


def measured():
    """Figures that evaluations of version 0.1 and the tables of the results hold, as JSON."""
    for path in OLD_RUNS.rglob("evaluation.json"):
        for section in json.loads(path.read_text())["sections"].values():
            yield from section["figures"].items()
    for path in RESULTS.glob("*.json"):
        for arm in json.loads(path.read_text()).get("arms", {}).values():
            for figures in arm["figures"].values():
                yield from figures.items()


def test_figures_that_are_stored_mean_what_they_meant():
    n_seen = 0
    for key, figure in measured():
        kind = figure_kind(current_key(key))
        assert kind.is_rate == figure["is_rate"], key
        assert kind.higher_is_better == figure["higher_is_better"], key
        n_seen += 1
    assert n_seen > 100


def test_old_keys_lead_to_keys_of_today():
    for key, now in OLD_KEYS.items():
        assert figure_kind(now)
        with pytest.raises(KeyError):
            figure_kind(key)
