"""Monosemanticity: closed forms and edges."""

import math

import numpy as np
import pytest

from nonneg import metrics

REFERENCE = np.eye(3)[np.arange(30) % 3]


def test_a_feature_of_one_kind_scores_one_and_one_of_all_kinds_the_null():
    Z = np.hstack([REFERENCE, np.ones((30, 1))])
    found = metrics.monosemanticity(Z, REFERENCE)
    assert found.per_feature[:3].tolist() == pytest.approx([1, 1, 1])
    assert found.null == pytest.approx(9 / 29)  # 9 alike among the 29 others
    # The always-on feature has the same value for every sample once rows have length 1.
    assert found.per_feature[3] == pytest.approx(found.null)


def test_strong_samples_count_more():
    other = np.sqrt(1 - np.array([0.9, 0.9, 0.1]) ** 2)
    Z = np.stack([[0.9, 0.9, 0.1], other], axis=1)
    found = metrics.monosemanticity(Z, [[1.0, 0], [1, 0], [0, 1]])
    assert found.per_feature[0] == pytest.approx(0.81 / (0.81 + 0.09 + 0.09))


def test_opposite_samples_count_against():
    found = metrics.monosemanticity(np.ones((2, 1)), [[1.0, 0.0], [-2.0, 0.0]])
    assert found.value == pytest.approx(-1)


def test_a_feature_of_one_sample_is_not_measured():
    found = metrics.monosemanticity(np.eye(3), REFERENCE[:3])
    assert math.isnan(found.value)
    assert (found.averaged_over, found.n_alive) == (0, 3)


def test_a_faint_second_sample_loses_no_digits():
    Z = np.array([[1.0, 0.0], [2e-5, 1.0]])
    found = metrics.monosemanticity(Z.astype(np.float32), [[1.0, 0.0], [0.6, 0.8]])
    assert found.per_feature[0] == pytest.approx(0.6, abs=1e-6)


def test_length_of_the_reference_does_not_matter():
    Z = np.random.default_rng(0).random((30, 5))
    scaled = REFERENCE * np.arange(1, 31)[:, None]
    found, expected = (metrics.monosemanticity(Z, part).value for part in (scaled, REFERENCE))
    assert found == pytest.approx(expected)
