"""Batches of Arrow tables to sparse features, by hand and by the engines that map batches."""

import os
import pickle
import shutil
import sys

import numpy as np
import pytest
from parquet_parts import N_COLUMNS, fitted, table, vectors
from scipy import sparse

import nonneg
from nonneg.interchange.arrow import ArrowFeatures, arrow_rows, arrow_schema, features_of_arrow
from nonneg.runs import arrow_features

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent")

X = vectors(n_rows=50)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tmp_path_factory.mktemp("run") / "run"


@pytest.fixture(scope="module")
def Z(run):  # noqa: N802
    return fitted(run).transform(X)


def equal(found, Z):
    _, features = features_of_arrow(found, Z.shape[1])
    np.testing.assert_allclose(features.toarray(), Z.toarray(), rtol=1e-5, atol=1e-6)


def test_a_row_is_its_indices_and_values():
    rows = sparse.csr_array(np.array([[0, 2.5, 0, 1], [0, 0, 0, 0]], dtype=np.float32))
    batch = arrow_rows(pa.array(["a", "b"]), rows)
    assert batch.to_pylist() == [
        {"id": "a", "indices": [1, 3], "values": [2.5, 1.0]},
        {"id": "b", "indices": [], "values": []},
    ]
    kinds = {"id": "string", "indices": "list<item: int32>", "values": "list<item: float>"}
    assert {field.name: str(field.type) for field in batch.schema} == kinds
    with pytest.raises(ValueError, match="1 ids were given for 2 rows"):
        arrow_rows(pa.array([1]), rows)


def test_indices_are_in_order_whatever_the_order_of_the_matrix():
    rows = sparse.csr_array((np.float32([1, 2]), [3, 0], [0, 2]), shape=(1, 4))
    (row,) = arrow_rows(pa.array([0]), rows).to_pylist()
    assert row == {"id": 0, "indices": [0, 3], "values": [2.0, 1.0]}
    assert rows.indices.tolist() == [3, 0]


def test_rows_come_back_from_arrow_also_from_a_part_of_a_table():
    dense = np.random.default_rng(0).standard_normal((9, 7)).astype(np.float32).clip(0)
    batch = arrow_rows(pa.array(range(9)), sparse.csr_array(dense))
    ids, features = features_of_arrow(batch.slice(2, 5), 7)
    assert ids.tolist() == [2, 3, 4, 5, 6]
    np.testing.assert_array_equal(features.toarray(), dense[2:7])
    parts = pa.Table.from_batches([batch.slice(0, 4), batch.slice(4)])
    np.testing.assert_array_equal(features_of_arrow(parts, 7)[1].toarray(), dense)


@pytest.mark.parametrize(
    ("indices", "values", "said"),
    [
        ([[0, 7]], [[1.0, 2.0]], "indices go from 0 to 7, but there are 7 features"),
        ([[-1]], [[1.0]], "indices go from -1 to -1"),
        ([[0, 1], [2]], [[1.0], [2.0, 3.0]], "indices and values of some row differ in number"),
    ],
)
def test_damaged_features_are_refused(indices, values, said):
    columns = {"id": list(range(len(indices))), "indices": indices, "values": values}
    table = pa.table(columns, schema=arrow_schema())
    with pytest.raises(ValueError, match=said):
        features_of_arrow(table, 7)


def as_lists(kind):
    return pa.array(X.astype(np.float64).tolist(), kind)


COLUMNS = {
    "lists": lambda: {"vector": as_lists(pa.list_(pa.float32()))},
    "large lists of doubles": lambda: {"vector": as_lists(pa.large_list(pa.float64()))},
    "lists of one size": lambda: {"vector": as_lists(pa.list_(pa.float32(), N_COLUMNS))},
    "a column per number": lambda: {f"x{n}": X[:, n] for n in range(N_COLUMNS)},
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_vectors_of_any_column_have_the_features_of_transform(run, Z, kind):
    given = pa.table({**COLUMNS[kind](), "key": [f"k{n}" for n in range(len(X))]})
    features = arrow_features(run, id_column="key")
    found = features(given)
    assert isinstance(found, pa.Table)
    assert found.column("id").to_pylist() == given.column("key").to_pylist()
    equal(found, Z)
    (batch,) = given.to_batches()
    of_batch = features(batch)
    assert isinstance(of_batch, pa.RecordBatch)
    equal(of_batch, Z)
    # A part of a batch begins within its arrays, and a table may come in pieces.
    equal(features(batch.slice(7, 20)), Z[7:27])
    equal(features(pa.Table.from_batches([batch.slice(0, 9), batch.slice(9)])), Z)
    equal(features(batch.slice(0, 0)), Z[:0])


def test_batches_are_numbered_through_where_that_is_asked_for(run, Z):
    features = arrow_features(run, column="vector")
    parts = list(features.each(table(X).to_batches(max_chunksize=20), first=100))
    assert [part.num_rows for part in parts] == [20, 20, 10]
    whole = pa.Table.from_batches(parts)
    assert whole.column("id").to_pylist() == list(range(100, 150))
    equal(whole, Z)
    assert features(table(X), range(5, 55)).column("id").to_pylist() == list(range(5, 55))


def test_rows_without_ids_or_numbers_are_refused(run):
    features = arrow_features(run, column="vector")
    for call in (lambda: features(table(X)), lambda: next(features.each([table(X)]))):
        with pytest.raises(ValueError, match="have no numbers of their own; name a column"):
            call()


def test_it_is_pickled_without_the_model_and_loads_it_once(run, Z):
    loads = []
    features = arrow_features(run, id_column="key")
    load = features._load

    def counted():
        loads.append(1)
        return load()

    features._load = counted
    equal(features(table(X)), Z)
    equal(features(table(X)), Z)
    assert len(loads) == 1
    features._load = load
    content = pickle.dumps(features)
    assert len(content) < 2000
    equal(pickle.loads(content)(table(X)), Z)


def test_a_run_that_has_changed_is_refused_by_the_worker(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    features = arrow_features(tmp_path / "run", id_column="key")
    ncl = nonneg.NCL.load(run)
    ncl.hide([0])
    ncl.save(tmp_path / "run")
    with pytest.raises(ValueError, match="holds another run here than where the work began"):
        features(table(X))


def test_what_cannot_be_read_is_one_sentence(run):
    features = arrow_features(run, id_column="key")
    with pytest.raises(ValueError, match=r"the batch has no column 'key' for the ids; it has: x$"):
        features(pa.table({"x": as_lists(pa.list_(pa.float32()))}))
    with pytest.raises(ValueError, match="the batch has no column of lists of numbers"):
        features(pa.table({"key": ["a"], "x": ["b"]}))
    missing = table(X).set_column(1, "vector", pa.array([None, *X[1:].tolist()]))
    with pytest.raises(ValueError, match="the batch: row 0 of column 'vector' is missing"):
        features(missing)
    nameless = table(X).set_column(0, "key", pa.array([None] * 50, pa.string()))
    with pytest.raises(ValueError, match="the batch has rows without an id in column 'key'"):
        features(nameless)
    broken = X.copy()
    broken[3] = np.nan
    with pytest.raises(ValueError, match=r"^rows 0 to 49 of the batch: X holds NaN .*: 3;"):
        features(table(broken))
    with pytest.raises(ValueError, match="give one of them"):
        arrow_features(run, column="vector", text="body")
    with pytest.raises(ValueError, match="holds no fitted estimator"):
        arrow_features(run.parent)


class Lengths:
    """Features of texts: 0 for a short one, 1 for a long one."""

    n_features = 2

    def of_vectors(self, X):
        raise NotImplementedError

    def of_texts(self, texts):
        return sparse.csr_array(np.float32([[len(t) < 3, len(t) >= 3] for t in texts]))


def test_texts_are_read_as_texts_and_missing_ones_are_empty():
    features = ArrowFeatures(Lengths, text="body", id_column="n")
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        given = pa.table({"n": [4, 5, 6], "body": pa.array(["four", "ox", None], kind)})
        found = features(given).to_pylist()
        assert [row["indices"] for row in found] == [[1], [0], [0]]
    with pytest.raises(ValueError, match="column 'n' holds int64, not texts"):
        ArrowFeatures(Lengths, text="n", id_column="n")(given)
    with pytest.raises(ValueError, match="has no column 'words' for --text"):
        ArrowFeatures(Lengths, text="words", id_column="n")(given)


def test_a_pyarrow_dataset_is_mapped_batch_by_batch(run, Z, tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset")
    dataset.write_dataset(table(X), tmp_path / "in", format="parquet")
    batches = dataset.dataset(tmp_path / "in").to_batches(batch_size=16)
    found = pa.Table.from_batches(list(arrow_features(run, id_column="key").each(batches)))
    equal(found, Z)


def test_hugging_face_datasets_map_it(run, Z, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="datasets is absent")
    datasets.disable_progress_bars()
    given = datasets.Dataset(table(X)).with_format("arrow")
    for features, options in (
        (arrow_features(run, id_column="key"), {}),
        (arrow_features(run, column="vector"), {"with_indices": True}),
    ):
        mapped = given.map(
            features, batched=True, batch_size=16, remove_columns=given.column_names, **options
        )
        assert mapped.column_names == ["id", "indices", "values"]
        equal(mapped.data.table, Z)
    assert mapped.data.column("id").to_pylist() == list(range(50))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark_maps_it(run, Z, tmp_path, monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is absent")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is absent")
    import pyarrow.parquet as pq

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    pq.write_table(table(X), tmp_path / "x.parquet")
    builder = sql.SparkSession.builder.master("local[2]")
    for key in ("bindAddress", "host"):
        builder = builder.config(f"spark.driver.{key}", "127.0.0.1")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = spark.read.parquet(str(tmp_path / "x.parquet")).repartition(3)
        each = arrow_features(run, id_column="key").each
        mapped = frame.mapInArrow(each, "id string, indices array<int>, values array<float>")
        rows = {row["id"]: row.asDict() for row in mapped.collect()}
    finally:
        spark.stop()
    found = pa.Table.from_pylist([rows[f"k{n}"] for n in range(50)], arrow_rows_schema())
    equal(found, Z)


def arrow_rows_schema():
    return arrow_rows(pa.array([], pa.string()), sparse.csr_array((0, 2), dtype=np.float32)).schema
