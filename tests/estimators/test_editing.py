import numpy as np
import pytest
from scipy import sparse

from nonneg.estimators.reading import edit_features, nearest_samples

Z = np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 4.0]], dtype=np.float32)


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array, sparse.csr_matrix])
def test_features_are_switched_off_and_multiplied(kind):
    before = kind(Z)
    after = edit_features(before, remove=[1], boost={2: 0.5})
    dense = after.toarray() if sparse.issparse(after) else after
    np.testing.assert_array_equal(dense, [[1, 0, 0], [0, 0, 2]])
    assert after.dtype == np.float32
    np.testing.assert_array_equal(before.toarray() if sparse.issparse(before) else before, Z)
    if sparse.issparse(after):
        assert after.nnz == 2


def test_no_edit_is_a_copy():
    after = edit_features(Z)
    np.testing.assert_array_equal(after, Z)
    assert not np.shares_memory(after, Z)


def test_whole_numbers_are_halved_too():
    assert edit_features(np.ones((1, 2), dtype=int), boost={0: 0.5}).tolist() == [[0.5, 1.0]]


def test_search_agrees_with_a_loop():
    rng = np.random.default_rng(0)
    queries, gallery = rng.random((8, 5)), rng.random((30, 5))
    queries[3] = 0
    gallery[7] = 0
    found = nearest_samples(queries, sparse.csr_array(gallery), k=6)
    for i, query in enumerate(queries):
        if i == 3:
            assert found.numbers[i].tolist() == [-1] * 6
            assert found.cosine[i].tolist() == [0.0] * 6
            continue
        cosine = {
            j: float(query @ row / np.linalg.norm(query) / np.linalg.norm(row))
            for j, row in enumerate(gallery)
            if j != 7
        }
        expected = sorted(cosine, key=lambda j: -cosine[j])[:6]
        assert found.numbers[i].tolist() == expected
        np.testing.assert_allclose(found.cosine[i], [cosine[j] for j in expected], rtol=1e-6)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="no feature 3; they are numbered 0 to 2"):
        edit_features(Z, remove=[3])
    for factor in (-2, np.nan, np.inf, "2", None):
        with pytest.raises(ValueError, match=f"feature 1 cannot be boosted by {factor!r}; use"):
            edit_features(Z, boost={1: factor})
    with pytest.raises(ValueError, match=r"^feature 1 is to be removed and boosted; leave it in"):
        edit_features(Z, remove=[0, 1], boost={1: 2.0})
    with pytest.raises(ValueError, match="between 1 and the 2 rows to search in, got 3"):
        nearest_samples(Z, Z, k=3)
    with pytest.raises(ValueError, match="queries have 3 features, the gallery has 2"):
        nearest_samples(Z, Z[:, :2], k=1)
