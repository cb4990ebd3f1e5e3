import json
import re
from pathlib import Path

import pytest

from nonneg.evaluation import Figure
from nonneg.metrics.figures import figure_kind

OLD_RUNS = Path(__file__).parents[1] / "goldens" / "runs-0.1"


def test_what_is_not_a_number_becomes_null():
    figure = Figure(float("inf"), beside={"null": float("nan"), "n": 3, "to": "mnist"})
    assert figure.value is None
    assert figure.beside == {"null": None, "n": 3, "to": "mnist"}
    assert figure.text() == "–"


def test_json_and_back():
    figure = Figure(0.5, higher_is_better=False, is_rate=True, beside={"null": 0.1})
    assert Figure.from_json(figure.as_json()) == figure
    assert figure.text() == "50.0 %"


@pytest.mark.parametrize(
    ("key", "beside", "words"),
    [
        (
            "class_consistency",
            {"null": 0.1, "low": 0.25, "high": 0.5, "n_features": 1},
            "0.1 by chance, 95 % interval from 0.25 to 0.5, 1 feature",
        ),
        (
            "class_consistency",
            {"null": None, "low": None, "high": None, "n_features": 2048},
            "2,048 features",
        ),
        ("sparsity", {"n_zero_rows": 0}, ""),
        ("sparsity", {"n_zero_rows": 3}, "3 all-zero samples"),
        ("alive_rate", {"n_alive": 30, "n_dead": 2}, "30 alive, 2 dead"),
        (
            "precision_features",
            {"k": 10, "n_zero_rows": 1, "most": 0.95},
            "10 neighbours, 1 all-zero sample, at most 95.0 % possible",
        ),
        (
            "probe_hidden",
            {"penalty": 1e-4, "n_train": 1437, "solved": "to convergence"},
            "L2 penalty 0.0001, 1,437 training samples, solved to convergence",
        ),
        (
            "robust_fog",
            {"clean": 1.0, "n_samples": 50, "severity 1": 0.5},
            "100.0 % on clean images, 50 samples",
        ),
        ("top20_purity", {"because": "mine has no labels"}, "mine has no labels"),
        (
            "sepin_10",
            {"n_pairs": 50, "temperature": 0.2, "unit": "nats"},
            "50 pairs of views, temperature 0.2, in nats",
        ),
        ("sparsity", {"of_another_version": 3}, "of another version 3"),
    ],
)
def test_what_stands_beside_a_figure_is_in_words(key, beside, words):
    assert Figure.of(key, 0.5, **beside).beside_text() == words


def test_no_key_of_a_stored_figure_is_shown_raw():
    n_seen = 0
    for path in OLD_RUNS.rglob("evaluation.json"):
        for section in json.loads(path.read_text())["sections"].values():
            for figure in section["figures"].values():
                words = Figure.from_json(figure).beside_text()
                assert not re.search(r"\bn_|_|\bnull\b|\bstd\b|\blow\b|\bk \d", words), words
                n_seen += bool(words)
    assert n_seen > 50


def test_the_log_of_training_and_the_table_name_two_kinds_of_consistency():
    log, table = (figure_kind(f"class_consistency{end}").title for end in ("", "_min20"))
    assert log == "class consistency (all alive)"
    assert table == "consistency of frequent features (≥ 20 active)"
