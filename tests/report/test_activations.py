import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nonneg.report.contents import SCALE, activations


def dense(packed, n, d):
    rows = np.zeros((n, d))
    for i in range(n):
        here = slice(packed.starts[i], packed.starts[i + 1])
        rows[i, packed.columns[here]] = packed.values[here] / SCALE
    return rows


@given(st.integers(0, 1000))
@settings(deadline=None, max_examples=25)
def test_rows_come_back_to_16_bits(seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(30, 11)) * (rng.random((30, 11)) < 0.4)
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    unit = Z / np.where(lengths > 0, lengths, 1)
    np.testing.assert_allclose(dense(activations(Z), 30, 11), unit, atol=1 / SCALE)


def test_cosines_survive():
    rng = np.random.default_rng(0)
    Z = rng.random((40, 200)) * (rng.random((40, 200)) < 0.1)
    unit = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    rows = dense(activations(sparse.csr_array(Z)), 40, 200)
    np.testing.assert_allclose(rows @ rows.T, unit @ unit.T, atol=1e-3)


def test_a_weak_entry_stays_on_with_its_sign_and_one_that_is_off_does_not():
    packed = activations([[1.0, 1.2e-5, -1.2e-5, 5e-6]])
    assert packed.columns.tolist() == [0, 1, 2]
    assert packed.values.tolist() == [SCALE, 1, -1]


def test_rows_are_chosen_in_order():
    packed = activations(np.eye(4), np.array([3, 1]))
    assert packed.columns.tolist() == [3, 1]
    assert packed.kept_a_row is None


def test_of_dense_features_each_row_keeps_its_strongest():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(10, 50))
    Z[4] = 0
    packed = activations(Z, max_entries=60)
    assert packed.kept_a_row == 6
    for i in range(10):
        found = set(packed.columns[packed.starts[i] : packed.starts[i + 1]].tolist())
        assert found == (set() if i == 4 else set(np.argsort(-np.abs(Z[i]))[:6].tolist()))


def test_too_many_features_are_refused():
    with pytest.raises(ValueError, match="at most 65,535 features, got 65,536"):
        activations(sparse.csr_array((1, 65536)))
