"""Every kind of input gives the same figure, none is changed, and what is wrong is named."""

import numpy as np
import pytest
import torch
from scipy import sparse

from nonneg import metrics

Y = np.arange(30) % 3
FACTORS = np.stack([Y, np.arange(30) // 10], axis=1)

METRICS = {
    "sparsity": metrics.sparsity,
    "active_per_sample": metrics.active_per_sample,
    "class_consistency": lambda Z: metrics.class_consistency(
        Z, Y, n_permutations=3, n_bootstrap=3, random_state=0
    ),
    "class_entropy": lambda Z: metrics.class_entropy(Z, Y),
    "top_purity": lambda Z: metrics.top_purity(Z, Y, 2),
    "label_level": lambda Z: metrics.label_level(Z, {"fine": Y, "coarse": Y // 2}, random_state=0),
    "feature_correlation": metrics.feature_correlation,
    "effective_rank": metrics.effective_rank,
    "precision_at_k": lambda Z: metrics.precision_at_k(Z, Y, 4),
    "mean_average_precision_at_k": lambda Z: metrics.mean_average_precision_at_k(Z, Y, 4),
    "expected_activation": metrics.expected_activation,
    "sepin": lambda Z: metrics.sepin(Z, Z, temperature=0.2),
    "monosemanticity": lambda Z: metrics.monosemanticity(Z, FACTORS + 1),
    "intruder_accuracy": lambda Z: metrics.intruder_accuracy(Z, FACTORS + 1, n_trials=9),
    "match_features": lambda Z: metrics.match_features(Z, Z),
    "dci": lambda Z: metrics.dci(Z, FACTORS),
    "mig": lambda Z: metrics.mig(Z, FACTORS),
    "sap": lambda Z: metrics.sap(Z, FACTORS),
    "factor_vae_score": lambda Z: metrics.factor_vae_score(Z, FACTORS, n_votes=9, random_state=0),
    "beta_vae_score": lambda Z: metrics.beta_vae_score(Z, FACTORS, n_votes=9, random_state=0),
}
everywhere = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())


@pytest.fixture(name="Z")
def sparse_features():
    """Sparse, non-negative, with a dead column and a row of zeros; exact in bfloat16."""
    rng = np.random.default_rng(0)
    whole = rng.integers(1, 9, (30, 7)) * (rng.random((30, 7)) < 0.4)
    whole[:, 3] = 0
    whole[5] = 0
    return whole.astype(np.float32)


@everywhere
def test_every_kind_of_array_gives_the_same(metric, Z):
    expected = float(metric(Z))
    assert np.isfinite(expected)
    read_only = Z.copy()
    read_only.setflags(write=False)
    kinds = {
        "float64": Z.astype(np.float64),
        "float16": Z.astype(np.float16),
        "int64": Z.astype(np.int64),
        "uint16": Z.astype(np.uint16),
        "lists": Z.tolist(),
        "fortran": np.asfortranarray(Z),
        "reversed": Z[::-1][::-1],
        "big endian": Z.astype(">f4"),
        "long double": Z.astype(np.longdouble),
        "read only": read_only,
        "torch": torch.tensor(Z),
        "bfloat16": torch.tensor(Z).bfloat16(),
        "needs gradient": torch.tensor(Z, requires_grad=True),
        "strided": torch.tensor(Z.repeat(2, axis=1))[:, ::2],
        "csr array": sparse.csr_array(Z),
        "csr matrix": sparse.csr_matrix(Z.astype(np.float64)),
    }
    for kind, other in kinds.items():
        assert float(metric(other)) == pytest.approx(expected, abs=1e-6), kind


@everywhere
def test_input_is_not_changed(metric, Z):
    for given in (Z.copy(), -Z):
        before = given.copy()
        metric(given)
        assert np.array_equal(given, before)


@everywhere
def test_nan_is_refused_with_its_row(metric, Z):
    Z[7, 2] = np.nan
    with pytest.raises(ValueError, match=r"nan in row 7, column 2"):
        metric(Z)


@everywhere
def test_nan_is_refused_with_its_row_in_sparse_input(metric, Z):
    Z[7, 2] = np.nan
    with pytest.raises(ValueError, match=r"nan in row 7, column 2"):
        metric(sparse.csr_array(Z))


@everywhere
def test_infinity_is_refused_with_its_row_in_sparse_input(metric, Z):
    Z[8, 1] = -np.inf
    with pytest.raises(ValueError, match=r"-inf in row 8, column 1"):
        metric(sparse.csr_array(Z))


@everywhere
def test_result_is_frozen_and_reads_as_a_number(metric, Z):
    found = metric(Z)
    assert float(found) == found.value
    assert isinstance(found.averaged_over, int)
    assert found.higher_is_better in (True, False, None)
    assert not any(isinstance(entry, np.ndarray) for entry in found.scalars().values())
    with pytest.raises(AttributeError):
        found.value = 0.0
    if hasattr(found, "per_feature"):
        assert found.per_feature.shape == (7,)
        assert (found.n_alive, found.n_dead) == (6, 1)
        with pytest.raises(ValueError, match="read-only"):
            found.per_feature[0] = 0.0


@pytest.mark.parametrize(
    ("Z", "error", "message"),
    [
        (np.zeros(3), ValueError, r"1 dimensions, shape \(3,\)"),
        (np.zeros((0, 3)), ValueError, r"empty, shape \(0, 3\)"),
        (np.zeros((3, 0)), ValueError, r"empty, shape \(3, 0\)"),
        (np.array([["a"]]), TypeError, "real numbers"),
        (np.ones((2, 2), complex), TypeError, "real numbers"),
        (torch.ones(2, 2, dtype=torch.complex64), TypeError, "real numbers"),
        (sparse.coo_array(np.eye(2)), TypeError, r"coo.*tocsr"),
        (torch.eye(2).to_sparse(), TypeError, "layout"),
    ],
)
def test_what_is_not_a_matrix_is_named(Z, error, message):
    with pytest.raises(error, match=message):
        metrics.sparsity(Z)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (Y[:-1], ValueError, "29 labels for 30 samples"),
        (Y + 0.5, TypeError, r"float64, not integers"),
        (torch.tensor(Y).float(), TypeError, r"float32, not integers"),
        (np.array(["a", "b", "c"] * 10), TypeError, "not integers"),
        (Y[:, None], ValueError, r"shape \(30, 1\)"),
        (Y - 1, ValueError, r"negative label -1 in row 0"),
    ],
)
@pytest.mark.parametrize(
    "metric",
    [metrics.class_consistency, metrics.class_entropy, metrics.top_purity, metrics.precision_at_k],
)
def test_wrong_labels_are_named(metric, y, error, message):
    with pytest.raises(error, match=message):
        metric(np.ones((30, 4)), y)


def test_labels_may_have_gaps_and_any_integer_type():
    Z = np.random.default_rng(0).random((30, 5)) - 0.5
    expected = metrics.class_consistency(Z, Y, threshold=0.4).value
    for y in (Y * 10**9, Y.astype(np.uint8), torch.tensor(Y), Y.tolist()):
        assert metrics.class_consistency(Z, y, threshold=0.4).value == expected
        assert metrics.precision_at_k(Z, y).n_without_match == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda Z: metrics.select(Z, 8), "k is 8, more than 7, the number of features"),
        (lambda Z: metrics.select(Z, 0), "k is 0; it must be at least 1"),
        (lambda Z: metrics.sepin(Z, Z, temperature=1, k=(8,)), "k is 8, more than 7"),
        (lambda Z: metrics.sepin(Z, Z[1:], temperature=1), r"Z_a has shape \(30, 7\)"),
        (lambda Z: metrics.sepin(Z, Z, temperature=0), "temperature is 0"),
        (lambda Z: metrics.sepin(Z, Z, temperature=1, convention="x"), "known: plain, renorm"),
        (lambda Z: metrics.sepin(Z, Z, temperature=1, negatives="x"), "known: both, cross"),
        (lambda Z: metrics.precision_at_k(Z, Y, 30), "k is 30, more than 29"),
        (lambda Z: metrics.precision_at_k(Z, Y, 2, gallery=(Z[:, 1:], Y)), "gallery has 6"),
        (lambda Z: metrics.precision_at_k(Z, Y, 2, gallery=(Z, Y[1:])), "gallery labels has 29"),
        (lambda Z: metrics.top_purity(Z, Y, 31), "m is 31, more than 30, the number of samples"),
        (lambda Z: metrics.class_consistency(Z, Y, min_active=31), "min_active is 31"),
        (lambda Z: metrics.class_consistency(Z, Y, n_permutations=-1), "n_permutations is -1"),
        (lambda Z: metrics.class_consistency(Z, Y, n_bootstrap=-1), "n_bootstrap is -1"),
        (
            lambda Z: metrics.class_consistency(Z, Y, n_bootstrap=1, confidence=95),
            "confidence is 95",
        ),
        (lambda Z: metrics.sparsity(Z, threshold=1.5), "threshold is 1.5"),
        (lambda Z: metrics.select(Z, 1, by="size"), "known: ea_rectified, ea_signed, variance"),
        (lambda Z: metrics.expected_activation(Z, on="x"), "known: rectified, signed"),
        (lambda Z: metrics.match_features(Z, Z[1:]), "Z_1 has 30 samples, Z_2 has 29"),
        (lambda Z: metrics.monosemanticity(Z, Z[1:]), "reference has 29 rows for 30"),
        (lambda Z: metrics.intruder_accuracy(Z, Z[1:]), "reference has 29 rows for 30"),
        (lambda Z: metrics.intruder_accuracy(Z, Z, n_top=4), "n_top is 4; it must be at least 5"),
        (lambda Z: metrics.intruder_accuracy(Z, Z, n_trials=0), "n_trials is 0"),
        (lambda Z: metrics.intruder_accuracy(Z[:5], Z[:5]), "Z has 5 samples; the test shows 6"),
        (lambda Z: metrics.cluster_agreement(Y[1:], Y), "29 labels for 30"),
        (lambda Z: metrics.cluster_agreement(Y, Y - 2), "clusters has -2 in row 0"),
        (lambda Z: metrics.cluster_agreement(Y - 1, Y), "negative label -1"),
        (lambda Z: metrics.cluster_agreement(Y, Z.astype(int)), r"clusters has shape \(30, 7\)"),
        (lambda Z: metrics.label_level(Z, {}), "levels is empty"),
        (lambda Z: metrics.mig(Z, FACTORS[1:]), "factors has 29 rows for 30"),
        (lambda Z: metrics.mig(Z, FACTORS * 0), "factor 0 has the same value"),
        (lambda Z: metrics.sap(Z, Y), r"factors has shape \(30,\)"),
        (lambda Z: metrics.dci(Z, FACTORS[:, :1]), "needs at least two"),
        (lambda Z: metrics.dci(Z, FACTORS, model="x"), "known: forest, boosting"),
        (lambda Z: metrics.factor_vae_score(Z, FACTORS[:, :1]), "needs at least two"),
    ],
)
def test_wrong_settings_are_named(call, message, Z):
    with pytest.raises(ValueError, match=message):
        call(Z)


def test_a_count_must_be_whole(Z):
    for k in (2.0, "2", True):
        with pytest.raises(TypeError, match="pass a whole number"):
            metrics.select(Z, k)


def test_factors_must_be_whole(Z):
    with pytest.raises(TypeError, match="not integers"):
        metrics.mig(Z, FACTORS + 0.5)


@pytest.mark.parametrize("metric", [metrics.sparsity, METRICS["class_consistency"]])
def test_signed_features_are_measured_by_absolute_value_and_said_to_be(metric, Z):
    flipped = Z.copy()
    flipped[::2] *= -1
    assert metric(flipped).signed
    assert not metric(Z).signed
    assert metric(flipped).value == metric(Z).value


def test_sparse_entries_of_one_place_are_added_up_on_a_copy():
    given = sparse.csr_array(([2.0, -1, 3, 1, -1], [0, 0, 1, 1, 1], [0, 3, 5]), (2, 2))
    before = given.data.copy()
    found, expected = metrics.sparsity(given), metrics.sparsity([[1, 3], [0, 0]])
    assert (found.value, found.signed) == (expected.value, expected.signed) == (0.5, False)
    assert np.array_equal(given.data, before)
