"""The vocabulary of figures: every key that is measured has a title, a direction and a unit."""

import json
from pathlib import Path

import pytest

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
