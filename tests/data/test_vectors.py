"""Vectors from files: mapped, sparse or in parquet, and one sentence for what cannot be read."""

import numpy as np
import pytest
import torch
from scipy import sparse

from nonneg.data import (
    Data,
    VectorData,
    load,
    numbered,
    read_array,
    read_labels,
    read_vectors,
)

X = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ">f4", "int8"])
@pytest.mark.parametrize("mapped", [False, True])
def test_npy(tmp_path, monkeypatch, dtype, mapped):
    monkeypatch.setattr("nonneg.data.arrays._MAPPED_FROM", 0 if mapped else 1 << 20)
    values = (10 * X).astype(dtype)
    np.save(tmp_path / "x.npy", values)
    found = read_vectors(tmp_path / "x.npy")
    assert isinstance(found.vectors, np.memmap) is mapped
    assert (len(found), found.sample_shape, found.name) == (30, (4,), "x.npy")
    fetched = found.fetch(torch.tensor([7, 3]))
    assert fetched.dtype == torch.float32
    np.testing.assert_array_equal(fetched.numpy(), values[[7, 3]].astype(np.float32))


@pytest.mark.parametrize(
    ("arrays", "column", "chosen"),
    [
        ({"inputs": X, "other": X + 1}, None, X),
        ({"features": X, "other": X + 1}, None, X),
        ({"mine": X}, None, X),
        ({"mine": X, "labels": np.arange(30) % 3}, None, X),
        ({"inputs": X, "other": X + 1}, "other", X + 1),
    ],
)
def test_npz(tmp_path, arrays, column, chosen):
    found = read_vectors(saved(tmp_path / "x.npz", **arrays), column=column)
    np.testing.assert_array_equal(found.vectors, chosen)
    assert (found.labels is not None) == ("labels" in arrays)


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_sparse_npz(tmp_path, kind):
    values = np.where(X > 0.5, X, 0)
    sparse.save_npz(tmp_path / "x.npz", getattr(sparse, f"{kind}_array")(values))
    found = read_vectors(tmp_path / "x.npz")
    assert found.vectors.format == "csr"
    np.testing.assert_array_equal(found.fetch(torch.arange(30)).numpy(), values)


def test_words_as_labels_are_numbered(tmp_path):
    path = saved(tmp_path / "x.npz", inputs=X[:3], labels=np.array(["b", "a", "b"]))
    found = read_vectors(path)
    assert found.labels.tolist() == [1, 0, 1]
    assert found.class_names == ("a", "b")


@pytest.mark.parametrize("read", [read_vectors, read_array])
def test_words_have_the_numbers_of_the_class_names_beside(tmp_path, read):
    words = np.array(["b", "a", "b"])
    path = saved(tmp_path / "x.npz", inputs=X[:3], labels=words, class_names=["c", "b", "a"])
    assert read(path).labels.tolist() == [1, 2, 1]
    assert read(path).class_names == ("c", "b", "a")
    path = saved(tmp_path / "x.npz", inputs=X[:3], labels=words, class_names=["c", "b"])
    with pytest.raises(ValueError, match="the label 'a', which is none of its class_names; add"):
        read(path)
    path = saved(tmp_path / "x.npz", inputs=X[:3], labels=words[:, None])
    with pytest.raises(ValueError, match=r"labels of shape \(3, 1\) for 3 samples"):
        read(path)


def test_labels_are_no_nan(tmp_path):
    path = saved(tmp_path / "x.npz", inputs=X[:2], labels=np.array([0, np.nan]))
    assert failure(path) == f"{path} has labels that are NaN; give each sample a number or a word"


def test_names_belong_to_numbers_from_0_on(tmp_path):
    names = ["cat", "dog", "eel", "fox"]
    path = saved(tmp_path / "x.npz", inputs=X[:4], labels=[0.0, 1, 3, 3], class_names=names)
    assert read_vectors(path).labels.tolist() == [0, 1, 3, 3]
    path = saved(tmp_path / "x.npz", inputs=X[:4], labels=[-1, 0, 1, 1], class_names=names)
    assert "but the label -1; number the labels so, or leave out class_names" in failure(path)
    path = saved(tmp_path / "x.npz", inputs=X[:2], labels=np.array([b"dog", b"cat"]))
    assert read_vectors(path).class_names == ("cat", "dog")


def test_it_is_a_data_set():
    data: Data = VectorData(X)
    assert data.labels is None
    assert data.class_names == ()


def parquet(path, **columns):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table(columns), path, row_group_size=7)
    return path


@pytest.mark.parametrize("kind", ["list", "large_list", "fixed", "half"])
def test_parquet(tmp_path, monkeypatch, kind):
    arrow = pytest.importorskip("pyarrow")
    monkeypatch.setattr("nonneg.data.vectors._BATCH_ROWS", 11)
    number = arrow.float16() if kind == "half" else arrow.float32()
    types = {
        "list": arrow.list_(number),
        "half": arrow.list_(number),
        "large_list": arrow.large_list(number),
        "fixed": arrow.list_(number, 4),
    }
    values = X.astype(np.float16) if kind == "half" else X
    column = arrow.array(list(values), type=types[kind])
    path = parquet(tmp_path / "x.parquet", text=["a"] * 30, embedding=column)
    for found in (read_vectors(path), read_vectors(path, column="embedding"), load(path)):
        assert found.vectors.dtype == np.float32
        np.testing.assert_array_equal(found.vectors, values.astype(np.float32))


def test_parquet_that_cannot_be_vectors(tmp_path):
    path = parquet(tmp_path / "a.parquet", one=[[1.0]], two=[[2.0]], name=["x"])
    assert failure(path) == f"{path} has several columns of lists: one, two; choose with --column"
    assert failure(path, column="name") == (
        f"{path} has no column 'name' of lists of numbers; choose of: one, two"
    )
    path = parquet(tmp_path / "b.parquet", name=["x"])
    assert failure(path).startswith(f"{path} has no column of lists of numbers")
    path = parquet(tmp_path / "c.parquet", v=[[1.0, 2.0], [3.0, 4.0], [5.0]])
    assert failure(path) == (
        f"{path}: row 2 of column 'v' has 1 numbers, the rows before it 2; vectors have one length"
    )
    path = parquet(tmp_path / "d.parquet", v=[[1.0, 2.0], None])
    assert failure(path) == f"{path}: row 1 of column 'v' is missing; remove or repair it"
    path.write_bytes(b"PAR1 and no more")
    assert failure(path).startswith(f"{path} is not a readable parquet file: ")


def with_other_counts(path, *, footer, groups):
    """A file of 40 rows in one group whose footer says otherwise, a byte changed for each count."""
    from pyarrow import parquet

    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    # Thrift writes small numbers doubled, so 40 is the byte 80; some such bytes mean other things.
    places = [place for place in range(start, len(content) - 8) if content[place] == 80]
    changes = [(one, two) for one in places for two in (None, *places)]
    for one, two in changes:
        changed = bytearray(content)
        changed[one] = 2 * (footer if footer != 40 else groups)
        if two is not None:
            changed[two] = 2 * groups
        path.write_bytes(changed)
        try:
            found = parquet.read_metadata(path)
        except (OSError, ValueError):
            continue
        if (found.num_rows, found.row_group(0).num_rows) == (footer, groups):
            return path
    raise AssertionError("no byte of the footer holds these counts")


@pytest.mark.parametrize("kind", ["lists", "columns"])
@pytest.mark.parametrize(
    ("footer", "groups", "found"),
    [(48, 40, "40"), (32, 40, "40"), (40, 48, "48"), (48, 48, "40")],
)
def test_parquet_with_other_than_the_promised_rows(tmp_path, kind, footer, groups, found):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = np.arange(120.0).reshape(40, 3)
    table = {"v": list(rows)} if kind == "lists" else dict(zip("abc", rows.T, strict=True))
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table(table), path)
    np.testing.assert_array_equal(read_vectors(path).vectors, rows)
    assert failure(with_other_counts(path, footer=footer, groups=groups)) == (
        f"{path} is damaged: its footer promises {footer} rows, but it holds {found}; "
        "write or copy it again"
    )


def test_parquet_with_more_rows_than_it_promises_anywhere(tmp_path, monkeypatch):
    path = parquet(tmp_path / "x.parquet", v=list(X))
    monkeypatch.setattr("nonneg.data.vectors.stated_rows", lambda *_: 29)
    assert "promises 29 rows, but it holds more; write or copy it again" in failure(path)


def test_parquet_with_damaged_pages_is_named(tmp_path):
    path = parquet(tmp_path / "x.parquet", v=list(X))
    content = bytearray(path.read_bytes())
    content[4:80] = bytes(76)
    path.write_bytes(content)
    assert failure(path).startswith(f"{path} is not a readable parquet file: ")
    assert "\n" not in failure(path)


def test_parquet_with_one_column_a_dimension(tmp_path, monkeypatch):
    monkeypatch.setattr("nonneg.data.vectors._BATCH_ROWS", 2)
    path = parquet(tmp_path / "x.parquet", a=[1.0, 2.0, 3.0], b=[4.0, 5.0, None])
    found = read_vectors(path).vectors
    np.testing.assert_array_equal(found, np.float32([[1, 4], [2, 5], [3, np.nan]]))
    assert "no column of lists of numbers" in failure(path, column="a")
    path = parquet(tmp_path / "y.parquet", a=[1.0, 2.0], label=[0, 1])
    assert "keep only columns of floats, one per dimension" in failure(path)


def test_the_index_of_a_data_frame_is_no_dimension(tmp_path):
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})
    frame[frame.a > 1].to_parquet(tmp_path / "x.parquet")
    found = read_vectors(tmp_path / "x.parquet").vectors
    np.testing.assert_array_equal(found, np.float32([[2, 5], [3, 6]]))


def test_a_part_of_other_length_in_a_later_batch(tmp_path, monkeypatch):
    monkeypatch.setattr("nonneg.data.vectors._BATCH_ROWS", 2)
    path = parquet(tmp_path / "x.parquet", v=[[1.0, 2.0], [3.0, 4.0], [5.0], [6.0]])
    assert "row 2 of column 'v' has 1 numbers, the rows before it 2" in failure(path)


def test_without_pyarrow_one_is_told_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "x.parquet").write_bytes(b"")
    with pytest.raises(ImportError, match=r"needs pyarrow; .*: pip install 'nonneg\[parquet\]'"):
        read_vectors(tmp_path / "x.parquet")


def failure(path, **settings):
    with pytest.raises(ValueError, match=str(path)) as caught:
        read_vectors(path, **settings)
    return str(caught.value)


def test_one_sentence_for_what_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file none\.npy"):
        read_vectors("none.npy")
    (tmp_path / "x.csv").write_text("1")
    assert "give a .npy, .npz or .parquet file" in failure(tmp_path / "x.csv")
    with pytest.raises(IsADirectoryError, match=r"is a folder; give a \.npy, \.npz or \.parquet"):
        read_vectors(tmp_path)
    with pytest.raises(IsADirectoryError, match=r"is a folder; give a \.npy or text file"):
        read_labels(tmp_path)
    np.save(tmp_path / "x.npy", X[0])
    assert failure(tmp_path / "x.npy").endswith("holds an array of shape (4,); give vectors (n, d)")
    assert failure(tmp_path / "x.npy", column="a").endswith("leave out --column a")
    np.save(tmp_path / "x.npy", np.array([["a"]]))
    assert "give vectors of real numbers" in failure(tmp_path / "x.npy")
    path = saved(tmp_path / "x.npz", one=X, two=X)
    assert failure(path) == (
        f"{path} has no array called inputs or features; it holds one, two: choose with --column"
    )
    assert f"{path} has no array 'three'; it holds one, two" in failure(path, column="three")
    path = saved(tmp_path / "y.npz", inputs=X, labels=np.arange(3))
    assert "has labels of shape (3,) for 30 samples" in failure(path)


def test_label_files_as_other_programs_write_them(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_bytes(b"\xef\xbb\xbf1\r\n0\r\na\x0cb\r\n")
    assert read_labels(path).tolist() == ["1", "0", "a\x0cb"]
    path.write_bytes("café".encode("latin-1"))
    with pytest.raises(ValueError, match=r"labels\.txt is no text in UTF-8"):
        read_labels(path)


def test_labels_of_files(tmp_path):
    np.save(tmp_path / "y.npy", np.array([3, 1]))
    assert read_labels(tmp_path / "y.npy").tolist() == [3, 1]
    (tmp_path / "y.txt").write_text("two words\none\n")
    assert read_labels(tmp_path / "y.txt").tolist() == ["two words", "one"]
    np.save(tmp_path / "y.npy", X)
    with pytest.raises(ValueError, match=r"holds float32 of shape \(30, 4\); give one whole"):
        read_labels(tmp_path / "y.npy")
    with pytest.raises(FileNotFoundError, match=r"there is no file none\.txt"):
        read_labels("none.txt")
    words = np.array(["a", "b"], dtype=object)
    np.save(tmp_path / "y.npy", words)
    with pytest.raises(
        ValueError, match=r"objects; save them as text: np\.save\(path, labels\.asty"
    ):
        read_labels(tmp_path / "y.npy")
    np.save(tmp_path / "y.npy", words.astype(str))
    assert read_labels(tmp_path / "y.npy").tolist() == ["a", "b"]


def test_whole_numbers_from_0_stay_and_others_are_numbered_together():
    numbers, names = numbered(np.array([5, 0]), np.array([2], dtype=np.uint8))
    assert [part.tolist() for part in numbers] == [[5, 0], [2]]
    assert names == ()
    numbers, names = numbered(np.array([-1, 7]), np.array([7]))
    assert [part.tolist() for part in numbers] == [[0, 1], [1]]
    assert names == ("-1", "7")
