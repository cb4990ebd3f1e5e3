"""Features on disk: sparse where that is smaller, and back again."""

import numpy as np
import pytest
from scipy import sparse

from nonneg.data.feature_file import read_features, write_feature_parts, write_features


def features(rate, shape=(40, 30), seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random(shape) * (rng.random(shape) < rate)).astype(np.float32)


@pytest.mark.parametrize(("rate", "is_sparse"), [(0.05, True), (0.9, False)])
def test_there_and_back(tmp_path, rate, is_sparse):
    z, labels = features(rate), np.arange(40)
    assert write_features(tmp_path / "Z.npz", z, labels=labels) is is_sparse
    found, others = read_features(tmp_path / "Z.npz")
    assert sparse.issparse(found) is is_sparse
    dense = found.toarray() if is_sparse else found
    assert dense.dtype == np.float32
    np.testing.assert_array_equal(dense, z)
    assert list(others) == ["labels"]
    np.testing.assert_array_equal(others["labels"], labels)


def test_scipy_reads_sparse_files(tmp_path):
    z = features(0.05)
    write_features(tmp_path / "Z.npz", z, labels=np.arange(40))
    found = sparse.load_npz(tmp_path / "Z.npz")
    assert isinstance(found, sparse.csr_array)
    np.testing.assert_array_equal(found.toarray(), z)


def test_features_of_zeros_only(tmp_path):
    assert write_features(tmp_path / "Z.npz", np.zeros((3, 4), np.float32))
    found, _ = read_features(tmp_path / "Z.npz")
    assert found.shape == (3, 4)
    assert found.nnz == 0


def test_a_file_without_features_says_what_it_holds(tmp_path):
    np.savez(tmp_path / "other.npz", inputs=np.zeros(3))
    with pytest.raises(ValueError, match=r"other\.npz holds no features but inputs; make it with"):
        read_features(tmp_path / "other.npz")


def test_a_file_that_is_no_npz_is_named(tmp_path):
    (tmp_path / "Z.npz").write_text("hello")
    with pytest.raises(ValueError, match=r"Z\.npz is not a readable .npz file"):
        read_features(tmp_path / "Z.npz")


def test_names_of_the_features_are_not_given_away(tmp_path):
    with pytest.raises(ValueError, match="the name 'data' is taken"):
        write_features(tmp_path / "Z.npz", features(0.5), data=np.zeros(3))
    assert not (tmp_path / "Z.npz").exists()


@pytest.mark.parametrize("rate", [0.05, 0.9])
@pytest.mark.parametrize("step", [1, 7, 40])
def test_parts_give_the_same_file_as_the_whole(tmp_path, rate, step):
    z, labels = features(rate), np.arange(40)
    parts = (z[start : start + step] for start in range(0, 40, step))
    is_sparse = write_feature_parts(tmp_path / "parts.npz", parts, 40, labels=labels)
    assert write_features(tmp_path / "whole.npz", z, labels=labels) is is_sparse
    whole, others = read_features(tmp_path / "whole.npz")
    found, others_found = read_features(tmp_path / "parts.npz")
    assert type(found) is type(whole)
    assert found.dtype == np.float32
    difference = found - whole
    assert abs(difference).max() == 0
    np.testing.assert_array_equal(others_found["labels"], others["labels"])


@pytest.mark.parametrize("rate", [0.05, 0.9])
def test_a_wrong_count_or_a_failure_leaves_the_old_file(tmp_path, rate):
    write_features(tmp_path / "Z.npz", features(0.5))
    before = (tmp_path / "Z.npz").read_bytes()
    with pytest.raises(ValueError, match="of 40 samples were given, 41 were announced"):
        write_feature_parts(tmp_path / "Z.npz", [features(rate)], 41)

    def broken():
        yield features(rate)
        raise RuntimeError("stopped half way")

    with pytest.raises(RuntimeError, match="stopped half way"):
        write_feature_parts(tmp_path / "Z.npz", broken(), 80)
    assert (tmp_path / "Z.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["Z.npz"]


def test_columns_first_is_read_as_it_is_meant(tmp_path):
    values = np.float32([[1, 2, 0], [0, 0, 3], [0, 0, 0]])
    sparse.save_npz(tmp_path / "csc.npz", sparse.csc_array(values))
    features, _ = read_features(tmp_path / "csc.npz")
    np.testing.assert_array_equal(features.toarray(), values)
    sparse.save_npz(tmp_path / "bsr.npz", sparse.bsr_array(values))
    with pytest.raises(ValueError, match=r"bsr\.npz is a sparse matrix in bsr format; save it"):
        read_features(tmp_path / "bsr.npz")
