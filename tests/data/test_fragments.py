"""Many parquet files as one data set: which are meant, their rows, and those that are drawn."""

import numpy as np
import pytest
from parquet_parts import vectors, write_parts

from nonneg.data.fragments import are_fragments, drawn_rows, find_fragments, is_meant
from nonneg.data.vectors import batch_vectors, vector_columns

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent")
import pyarrow.parquet as pq  # noqa: E402

X = vectors(n_rows=300)


@pytest.fixture
def parts(tmp_path):
    return write_parts(tmp_path / "in", X, [100, 100, 210])


def names(source, choice=vector_columns):
    return [file.name for file in find_fragments(source, choice).files]


def test_a_folder_a_pattern_or_a_uri_means_many_files(tmp_path, parts, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for many in ("in", "in/", "in/*.parquet", "*/part-?.parquet", "s3://bucket/x.parquet", parts):
        assert are_fragments(many), many
    (tmp_path / "x[1].npy").touch()
    for one in ("in/part-0.parquet", "x.npy", "x[1].npy", "digits"):
        assert not are_fragments(one), one


def test_rows_are_numbered_through_in_the_order_of_the_names(parts):
    data = find_fragments(parts, vector_columns)
    assert [(f.name, f.first, f.n_rows) for f in data.files] == [
        ("part-0.parquet", 0, 100),
        ("part-1.parquet", 100, 0),
        ("part-2.parquet", 100, 110),
        ("part-3.parquet", 210, 90),
    ]
    assert (data.n_rows, data.columns) == (300, ("vector",))
    found = [batch_vectors("x", b) for f in data.files for b in data.batches(f, 32)]
    np.testing.assert_array_equal(np.concatenate(found), X)
    assert max(map(len, found)) == 32


def test_what_is_no_file_is_not_left_out_in_silence(parts):
    for name, target in (("gone.parquet", "nowhere"), ("zero.parquet", "/dev/zero")):
        (parts / name).symlink_to(target)
        for source in (parts, parts / "*.parquet"):
            with pytest.raises(ValueError, match=f"{name} is a pipe, a device or a broken link"):
                find_fragments(source, vector_columns)
        assert len(names(parts / "part-*.parquet")) == 4
        (parts / name).unlink()
    (parts / ".gone.parquet").symlink_to("nowhere")
    assert len(names(parts)) == 4


def test_patterns_choose_files(tmp_path, parts, monkeypatch):
    monkeypatch.chdir(tmp_path)
    deep = tmp_path / "in" / "deep" / "part-0.parquet"
    deep.parent.mkdir()
    deep.write_bytes((parts / "part-0.parquet").read_bytes())
    for hidden in ("_part-0.parquet", ".part-0.parquet", "_tmp/part-0.parquet", "notes.txt"):
        path = parts / hidden
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"nothing")
    plain = [f"part-{number}.parquet" for number in range(4)]
    assert names("in") == ["deep/part-0.parquet", *plain]
    assert names("in/*.parquet") == plain
    assert names("in/part-[12].parquet") == plain[1:3]
    assert names("in/*/*.parquet") == ["deep/part-0.parquet"]
    assert names("in/**/*.parquet") == ["deep/part-0.parquet", *plain]
    assert names("*/part-3.parquet") == ["in/part-3.parquet"]
    assert names(parts.as_uri() + "/*3.parquet") == [plain[3]]
    assert names((parts / plain[0]).as_uri()) == [plain[0]]


def test_a_folder_whose_name_looks_like_a_pattern(tmp_path):
    parts = write_parts(tmp_path / "[in]", X, [])
    assert names(parts) == ["part-0.parquet"]


def test_what_would_be_among_the_files(tmp_path, parts):
    inside, other = str(parts / "new.parquet"), str(tmp_path / "out" / "new.parquet")
    deep = str(parts / "out" / "new.parquet")
    assert [is_meant(parts, path) for path in (inside, deep, other)] == [True, True, False]
    flat = f"{parts}/*.parquet"
    assert [is_meant(flat, path) for path in (inside, deep, other)] == [True, False, False]
    assert is_meant(inside, inside)
    assert not is_meant(inside, other)


def test_any_rows_are_read_and_no_other_row_groups(parts, monkeypatch):
    data = find_fragments(parts, vector_columns)
    asked = []
    read = pq.ParquetFile.iter_batches

    def counted(file, *args, row_groups=None, **options):
        asked.append((file.metadata.num_rows, row_groups))
        return read(file, *args, row_groups=row_groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    rows = np.array([3, 5, 99, 170, 209])
    found = [batch_vectors("x", batch) for batch in drawn_rows(data, rows)]
    np.testing.assert_array_equal(np.concatenate(found), X[rows])
    assert asked == [(100, [0]), (100, [1]), (110, [1])]
    assert list(drawn_rows(data, np.array([], dtype=np.int64))) == []


def test_another_file_system(parts):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is absent")
    memory = fsspec.filesystem("memory")
    memory.pipe("/elsewhere/a.parquet", (parts / "part-0.parquet").read_bytes())
    try:
        data = find_fragments("fsspec+memory:///elsewhere/*.parquet", vector_columns)
        assert [file.name for file in data.files] == ["a.parquet"]
        assert data.n_rows == 100
    finally:
        memory.rm("/elsewhere", recursive=True)


def refused(source, choice=vector_columns):
    with pytest.raises((ValueError, OSError)) as caught:
        find_fragments(source, choice)
    return str(caught.value)


def test_nothing_to_read(tmp_path, parts):
    (tmp_path / "empty").mkdir()
    for none in (tmp_path / "empty", f"{parts}/*.csv"):
        assert refused(none).startswith(f"there is no parquet file at {none}; give")
    assert "there is no file or folder" in refused(tmp_path / "nowhere" / "*.parquet")
    below_a_file = f"{parts}/part-0.parquet/*.parquet"
    assert "is a file, and" in refused(below_a_file)
    assert "cannot be reached" in refused("s4://bucket/in")


def test_a_file_with_another_schema_is_named(parts):
    path = parts / "part-2.parquet"
    whole = path.read_bytes()
    others = {
        "has no column of lists of numbers": pa.table({"key": ["a"]}),
        "write all files with one schema": pa.table({"vector": [[1.0]]}),
        "has several columns of lists": pa.table({"a": [[1.0]], "vector": [[1.0]]}),
    }
    for said, table in others.items():
        pq.write_table(table, path)
        message = refused(parts)
        assert message.startswith(f"{path} ")
        assert said in message
    path.write_bytes(whole[: len(whole) // 2])
    assert refused(parts).startswith(f"{path} is not a readable parquet file")


def test_a_column_per_number_in_one_file_only_is_refused(tmp_path):
    for name, width in (("a", 3), ("b", 4)):
        table = pa.table({f"x{n}": np.zeros(2, dtype=np.float32) for n in range(width)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    assert "b.parquet has the columns x0, x1, x2, x3 to read" in refused(tmp_path)
