"""Clusters beside classes: closed forms, loops, and what must not matter."""

import math
from collections import Counter

import numpy as np
import pytest

from nonneg import metrics


def entropy(values):
    return -sum(n / len(values) * math.log(n / len(values)) for n in Counter(values).values())


def information(first, second):
    return entropy(first) + entropy(second) - entropy(list(zip(first, second, strict=True)))


def expected_information(first, second):
    """Over all tables with these margins, by the hypergeometric distribution of each cell."""
    n, total = len(first), 0.0
    for a in Counter(first).values():
        for b in Counter(second).values():
            for both in range(max(1, a + b - n), min(a, b) + 1):
                share = math.comb(b, both) * math.comb(n - b, a - both) / math.comb(n, a)
                total += share * both / n * math.log(n * both / (a * b))
    return total


def test_figures_are_those_of_loops():
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=60)
    clusters = np.where(rng.random(60) < 0.6, labels, rng.integers(6, size=60)) - 1
    found = metrics.cluster_agreement(labels, clusters)
    y, c = labels.tolist(), clusters.tolist()
    shared, chance = information(y, c), expected_information(y, c)
    assert found.value == found.ami
    assert found.ami == pytest.approx(
        (shared - chance) / ((entropy(y) + entropy(c)) / 2 - chance), abs=1e-9
    )
    assert found.homogeneity == pytest.approx(shared / entropy(y))
    assert found.completeness == pytest.approx(shared / entropy(c))
    assert found.v_measure == pytest.approx(2 * shared / (entropy(y) + entropy(c)))
    assert found.n_unassigned == (clusters == -1).sum() > 0
    assert found.n_clusters == len(set(c)) - 1


def test_the_same_partition_has_one_and_one_cluster_has_none():
    labels = np.arange(30) % 3
    assert metrics.cluster_agreement(labels, (labels + 1) * 7).value == pytest.approx(1)
    found = metrics.cluster_agreement(labels, np.zeros(30, int))
    assert (found.ami, found.v_measure, found.n_clusters) == (pytest.approx(0), 0, 1)


def test_random_clusters_have_no_ami_though_their_v_measure_rises_with_their_number():
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 4
    few, many = (metrics.cluster_agreement(labels, rng.integers(k, size=200)) for k in (4, 60))
    assert abs(few.ami) < 0.05
    assert abs(many.ami) < 0.05
    assert many.v_measure > few.v_measure + 0.15


def test_order_and_numbers_do_not_matter():
    rng = np.random.default_rng(0)
    labels, clusters, order = (
        rng.integers(3, size=40),
        rng.integers(5, size=40),
        rng.permutation(40),
    )
    expected = metrics.cluster_agreement(labels, clusters)
    found = metrics.cluster_agreement(labels[order], np.array([3, 9, 0, 4, 1])[clusters[order]])
    assert found.ami == pytest.approx(expected.ami)
    assert found.v_measure == pytest.approx(expected.v_measure)
