"""What must not matter does not: order, row length, tiles. What must matter does: rotation."""

import numpy as np
import pytest

from nonneg import metrics
from nonneg.metrics import consistency, factors, inputs

N, D = 40, 9
Y = np.arange(N) % 4
OTHER = np.random.default_rng(5).normal(size=(N, 6))


def sparse_features(seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.random((N, D)) * (rng.random((N, D)) < 0.5)
    Z[:, 2] = 0
    Z[11] = 0
    return Z


def sepin(Z, y, other):
    return metrics.sepin(Z, Z + np.abs(other[:, :1]) * Z.mean(axis=0), temperature=0.3)


METRICS = {
    "sparsity": lambda Z, y, other: metrics.sparsity(Z),
    "class_consistency": lambda Z, y, other: metrics.class_consistency(Z, y),
    "class_entropy": lambda Z, y, other: metrics.class_entropy(Z, y),
    "top_purity": lambda Z, y, other: metrics.top_purity(Z, y, 5),
    "feature_correlation": lambda Z, y, other: metrics.feature_correlation(Z),
    "effective_rank": lambda Z, y, other: metrics.effective_rank(Z),
    "precision_at_k": lambda Z, y, other: metrics.precision_at_k(Z, y, 4),
    "mean_average_precision": lambda Z, y, other: metrics.mean_average_precision_at_k(Z, y, 4),
    "expected_activation": lambda Z, y, other: metrics.expected_activation(Z),
    "monosemanticity": lambda Z, y, other: metrics.monosemanticity(Z, other),
    "sepin": sepin,
    "mig": lambda Z, y, other: metrics.mig(Z, np.stack([y, y // 2], axis=1)),
    "sap": lambda Z, y, other: metrics.sap(Z, np.stack([y, y // 2], axis=1)),
}
everywhere = pytest.mark.parametrize("name", METRICS)


def assert_agree(found, expected):
    assert found.value == pytest.approx(expected.value, abs=1e-9)
    assert found.averaged_over == expected.averaged_over


@everywhere
def test_sample_order_does_not_matter(name):
    Z, order = sparse_features(), np.random.default_rng(1).permutation(N)
    metric = METRICS[name]
    assert_agree(metric(Z[order], Y[order], OTHER[order]), metric(Z, Y, OTHER))


@everywhere
def test_feature_order_does_not_matter(name):
    Z, order = sparse_features(), np.random.default_rng(1).permutation(D)
    metric = METRICS[name]
    found, expected = metric(Z[:, order], Y, OTHER), metric(Z, Y, OTHER)
    assert_agree(found, expected)
    if hasattr(found, "per_feature"):
        np.testing.assert_allclose(found.per_feature, expected.per_feature[order], atol=1e-9)


@pytest.mark.parametrize(
    "name",
    sorted(METRICS.keys() - {"effective_rank", "feature_correlation", "mig", "sap", "sepin"}),
)
def test_row_length_does_not_matter(name):
    Z, length = sparse_features(), 10.0 ** np.random.default_rng(1).integers(-9, 9, (N, 1))
    assert_agree(METRICS[name](Z * length, Y, OTHER), METRICS[name](Z, Y, OTHER))


def test_row_length_does_not_matter_to_sepin():
    Z, length = sparse_features(), 10.0 ** np.random.default_rng(1).integers(-9, 9, (N, 1))
    found = metrics.sepin(Z * length, Z + 0.1, temperature=0.3)
    assert_agree(found, metrics.sepin(Z, Z + 0.1, temperature=0.3))


@everywhere
def test_tiles_do_not_matter(name, monkeypatch):
    Z = sparse_features()
    expected = METRICS[name](Z, Y, OTHER)
    monkeypatch.setattr(inputs, "_TILE_ENTRIES", 4 * D)
    monkeypatch.setattr(factors, "_BLOCK_ENTRIES", 2 * N)
    for module, constant, size in (
        ("activity", "_TILE_ROWS", 7),
        ("purity", "_BLOCK_ENTRIES", 2 * N),
        ("correlation", "_BLOCK_COLUMNS", 4),
        ("correlation", "_BLOCK_ROWS", 7),
        ("retrieval", "_QUERY_ROWS", 7),
        ("retrieval", "_GALLERY_ROWS", 6),
        ("retrieval", "_EXACT_ROWS", 5),
        ("retrieval", "_EXACT_ENTRIES", 100),
        ("_dropping.plain", "_STRIP_ENTRIES", 7 * N),
        ("_dropping.plain", "_BLOCK_FEATURES", 4),
    ):
        monkeypatch.setattr(f"nonneg.metrics.{module}.{constant}", size)
    found = METRICS[name](Z, Y, OTHER)
    assert_agree(found, expected)
    if hasattr(found, "per_feature"):
        np.testing.assert_allclose(found.per_feature, expected.per_feature, atol=1e-9)


def test_a_rotation_changes_consistency_but_not_info_nce():
    rng = np.random.default_rng(0)
    a = np.eye(6)[np.arange(60) % 6]
    b = a + 0.01 * rng.random(a.shape)
    rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    y = np.arange(60) % 6
    before, after = (
        metrics.sepin(*views, temperature=0.2) for views in ((a, b), (a @ rotation, b @ rotation))
    )
    assert after.info_nce == pytest.approx(before.info_nce, abs=1e-9)
    assert metrics.effective_rank(a @ rotation).value == pytest.approx(6)
    assert metrics.class_consistency(a, y).value == 1
    assert metrics.class_consistency(a @ rotation, y).value == pytest.approx(1 / 6)
    assert after.at["all"] < before.at["all"] / 2


def test_bootstrap_blocks_do_not_matter(monkeypatch):
    Z = sparse_features()
    settings = {"n_bootstrap": 7, "random_state": 3}
    expected = metrics.class_consistency(Z, Y, **settings).interval
    monkeypatch.setattr(consistency, "_BLOCK_ENTRIES", 2 * N)
    assert metrics.class_consistency(Z, Y, **settings).interval == pytest.approx(expected)
