"""Readability: figures with chance beside them, and a reason where there are too few samples."""

import numpy as np
import pytest

from nonneg import metrics
from nonneg.evaluation import readability
from nonneg.evaluation.subject import EvaluationSettings
from nonneg.metrics.figures import figure_kind


def two_kinds(n):
    """One feature per class, and two dead ones."""
    labels = np.arange(n) % 2
    return np.eye(4)[labels], labels


def test_planted_kinds_are_read_off():
    Z, labels = two_kinds(60)
    found = readability(Z, labels, reference=Z, reference_name="itself")
    values = {key: figure.value for key, figure in found.items()}
    assert values["sparsity"] == 0.75
    assert values["alive_rate"] == 0.5
    for key in ("class_consistency", "class_consistency_min20", "top20_purity"):
        assert values[key] == 1
        assert 0.5 < found[key].beside["null"] < 0.8
        assert found[key].beside["n_features"] == 2
    assert values["class_entropy"] == 0
    assert values["correlation"] == 0
    assert values["effective_rank"] == pytest.approx(2)
    assert found["monosemanticity"].beside["reference"] == "itself"
    assert found["class_consistency_min20"].beside["low"] == 1


def test_the_smallest_number_of_active_samples_is_part_of_the_key():
    Z, labels = two_kinds(60)
    found = readability(Z, labels, settings=EvaluationSettings(top=5))
    assert {"class_consistency_min5", "top5_purity"} <= set(found)
    assert found["top5_purity"].value == metrics.top_purity(Z, labels, m=5).value


@pytest.mark.parametrize(
    ("n", "reason"),
    [
        (15, "there are only 15 samples; it takes more than 20"),
        (20, "there are only 20 samples; it takes more than 20"),
        (30, "no feature is on for 20 of the 30 samples"),
    ],
)
def test_too_few_samples_are_said(n, reason):
    found = readability(*two_kinds(n))
    assert found["class_consistency"].value == 1
    for key in ("class_consistency_min20", "top20_purity"):
        assert found[key].value is None
        assert found[key].beside == {"because": reason}


def test_without_labels_nothing_is_said_of_classes_or_only_why():
    Z, _ = two_kinds(30)
    assert not any("class" in key or "purity" in key for key in readability(Z))
    found = readability(Z, because="these have none")
    assert found["top20_purity"].value is None
    assert found["class_entropy"].beside == {"because": "these have none"}


def test_directions_are_those_of_the_vocabulary():
    for key, figure in readability(*two_kinds(60)).items():
        kind = figure_kind(key)
        assert (figure.higher_is_better, figure.is_rate) == (kind.higher_is_better, kind.is_rate)
