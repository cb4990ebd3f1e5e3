"""Many parquet files embedded: shares, engines, kills and second calls give the same bytes."""

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from parquet_parts import N_ROWS, fitted, table, vectors, write_parts

import nonneg
from nonneg.interchange.arrow import features_of_arrow
from nonneg.runs import Shard, embed_fragments
from nonneg.runs import fragment_embedding as module

pytest.importorskip("pyarrow", reason="pyarrow is absent")
import pyarrow as pa
import pyarrow.parquet as pq

X = vectors()
CUTS = [100, 350, 350, 520]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    fitted(folder)
    return folder


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(module, "_BATCH_ROWS", 64)
    monkeypatch.setattr(module, "_GROUP_ROWS", 128)


@pytest.fixture
def parts(tmp_path):
    return write_parts(tmp_path / "in", X, CUTS)


def contents(folder):
    """All files, also hidden ones, by their paths."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_each_file_has_the_features_of_its_rows(run, parts, tmp_path):
    seen = []
    done = embed_fragments(run, parts, out=tmp_path / "out", watch=lambda *n: seen.append(n))
    assert (done.n_files, done.n_rows, done.n_there_already) == (5, N_ROWS, 0)
    assert seen[0] == (0, N_ROWS)
    assert seen[-1] == (N_ROWS, N_ROWS)
    assert len(seen) > 10
    assert sorted(contents(tmp_path / "out")) == [f"part-{n}.parquet" for n in range(5)]
    found = pq.read_table(tmp_path / "out")
    ncl = nonneg.NCL.load(run)
    ids, Z = features_of_arrow(found, ncl.encoder_.n_features)
    assert ids.tolist() == list(range(N_ROWS))
    np.testing.assert_allclose(Z.toarray(), ncl.transform(X), rtol=1e-5, atol=1e-6)
    second = pq.ParquetFile(tmp_path / "out" / "part-1.parquet")
    assert [second.metadata.row_group(n).num_rows for n in range(2)] == [128, 122]


def test_shares_have_the_bytes_of_one_process(run, parts, tmp_path):
    embed_fragments(run, parts, out=tmp_path / "whole")
    sizes = []
    for number in (3, 1, 2):
        shard = Shard(number, 3)
        sizes.append(embed_fragments(run, parts, out=tmp_path / "shares", shard=shard).n_files)
    assert sorted(sizes) == [1, 2, 2]
    assert contents(tmp_path / "shares") == contents(tmp_path / "whole")


def test_torchrun_gives_each_process_its_share(run, parts, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert embed_fragments(run, parts, out=tmp_path / "out").n_files == 2
    assert sorted(contents(tmp_path / "out")) == ["part-1.parquet", "part-3.parquet"]


def test_rows_are_the_same_however_they_are_split(run, parts, tmp_path):
    write_parts(tmp_path / "one", X, [])
    for source in ("in", "one"):
        embed_fragments(run, tmp_path / source, out=tmp_path / f"{source}-out")
    first, second = (pq.read_table(tmp_path / f"{source}-out") for source in ("in", "one"))
    for name in ("id", "indices"):
        assert first.column(name).to_pylist() == second.column(name).to_pylist()


def test_ids_of_a_column_are_kept(run, parts, tmp_path):
    embed_fragments(run, parts, out=tmp_path / "out", id_column="key")
    found = pq.read_table(tmp_path / "out").column("id").to_pylist()
    assert found == [f"k{n}" for n in range(N_ROWS)]


def test_what_is_there_is_not_written_again(run, parts, tmp_path):
    out = tmp_path / "out"
    embed_fragments(run, parts, out=out)
    before = contents(out)
    (out / "part-3.parquet").unlink()
    times = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    seen = []
    done = embed_fragments(run, parts, out=out, watch=lambda *n: seen.append(n))
    assert (done.n_files, done.n_there_already) == (5, 4)
    assert seen[0] == (430, N_ROWS)
    assert contents(out) == before
    assert all(path.stat().st_mtime_ns == then for path, then in times.items())


def refused(*args, **options):
    with pytest.raises((ValueError, OSError, ImportError)) as caught:
        embed_fragments(*args, **options)
    return str(caught.value)


def test_what_is_of_something_else_is_refused_and_left(run, parts, tmp_path):
    out = tmp_path / "out"
    embed_fragments(run, parts, out=out)
    before = contents(out)
    other = tmp_path / "other"
    shutil.copytree(run, other)
    ncl = nonneg.NCL.load(other)
    ncl.hide([0])
    ncl.save(other)
    message = refused(other, parts, out=out)
    assert message == (
        f"{out}/part-0.parquet holds features of another run; choose another folder to write to, "
        "or remove it"
    )
    assert "another --column" in refused(run, parts, out=out, column="vector")
    assert "another --id" in refused(run, parts, out=out, id_column="key")
    grown = table(np.concatenate([X[:100], X[:1]]))
    pq.write_table(grown, parts / "part-0.parquet", row_group_size=64)
    assert f"the features of {parts}/part-0.parquet before it changed" in refused(
        run, parts, out=out, shard=Shard(1, 5)
    )
    assert "holds other row numbers" in refused(run, parts, out=out, shard=Shard(2, 5))
    assert contents(out) == before


def test_a_file_of_another_program_is_not_written_over(run, parts, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    pq.write_table(pa.table({"x": [1]}), out / "part-4.parquet")
    before = contents(out)
    assert "holds something else than features" in refused(run, parts, out=out)
    (out / "part-4.parquet").write_bytes(b"PAR1")
    assert "is not a readable parquet file" in refused(run, parts, out=out)
    (out / "part-4.parquet").write_bytes(before["part-4.parquet"])
    assert contents(out) == before


def test_arguments_that_are_wrong_write_nothing(run, parts, tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert refused(run, parts, out=out, engine="spark") == (
        "unknown engine 'spark'; choose local or ray"
    )
    for text, said in {
        "0/2": "there is no shard 0/2: shards of 2 are numbered from 1 to 2",
        "3/2": "there is no shard 3/2",
        "1/0": "there is no shard 1/0",
        "2": "'2' is no shard; write it as 2/8",
        "-1/2": "'-1/2' is no shard",
    }.items():
        with pytest.raises(ValueError, match=f"^{said}"):
            Shard.read(text)
    assert "would be among the files of" in refused(run, parts, out=parts)
    assert "would be among the files of" in refused(run, parts, out=parts / "out")
    assert "has no column 'name' for the ids" in refused(run, parts, out=out, id_column="name")
    assert "was not fitted to texts" in refused(run, parts, out=out, text="key")
    monkeypatch.setitem(sys.modules, "ray", None)
    assert refused(run, parts, out=out, engine="ray").endswith("pip install 'nonneg[ray]'")
    pq.write_table(pa.table({"key": ["a"], "vector": [[1.0]]}), parts / "part-4.parquet")
    assert "write all files with one schema" in refused(run, parts, out=out)
    assert not out.exists()


def test_a_row_that_cannot_be_read_leaves_no_file(run, parts, tmp_path):
    out = tmp_path / "out"
    broken = X[350:520].copy()
    broken[150, 2] = np.nan
    path = parts / "part-3.parquet"
    pq.write_table(table(broken), path)
    message = refused(run, parts, out=out)
    assert message.startswith(f"rows 128 to 169 of {path}: X holds NaN or infinity")
    assert sorted(contents(out)) == [f"part-{n}.parquet" for n in range(3)]


def test_a_file_that_changes_while_it_is_read_leaves_no_file(run, parts, tmp_path):
    def touch(n_done, _):
        if 100 < n_done < 350:
            os.utime(parts / "part-1.parquet", ns=(1, 1))

    message = refused(run, parts, out=tmp_path / "out", watch=touch)
    assert message.startswith(f"{parts}/part-1.parquet has changed while it was read")
    assert sorted(contents(tmp_path / "out")) == ["part-0.parquet"]


def test_another_file_system(run, parts, tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is absent")
    embed_fragments(run, parts, out=tmp_path / "out")
    memory = fsspec.filesystem("memory")
    try:
        left = f"/fragments/out/.part-1.parquet.{'0' * 32}"
        others = "/fragments/out/.part-1.parquet.mine"
        memory.pipe({left: b"half", others: b"mine"})
        embed_fragments(run, parts, out="fsspec+memory:///fragments/out", shard=Shard(2, 2))
        done = embed_fragments(run, parts, out="fsspec+memory:///fragments/out")
        assert done.n_there_already == 2
        found = {path.rpartition("/")[2]: memory.cat(path) for path in memory.find("/fragments")}
        assert found == {**contents(tmp_path / "out"), ".part-1.parquet.mine": b"mine"}
        broken = "fsspec+memory:///fragments/in/*.parquet"
        memory.pipe("/fragments/in/a.parquet", (parts / "part-0.parquet").read_bytes())
        bad = pa.table(
            {"key": ["a"], "vector": pa.array([[np.nan] * 12], pa.list_(pa.float32(), 12))}
        )
        with memory.open("/fragments/in/b.parquet", "wb") as file:
            pq.write_table(bad, file)
        refused(run, broken, out="fsspec+memory:///fragments/new")
        assert memory.find("/fragments/new") == ["/fragments/new/a.parquet"]
    finally:
        memory.rm("/fragments", recursive=True)


SLOWLY = """
import sys, time
from nonneg.runs import embed_fragments, fragment_embedding
fragment_embedding._BATCH_ROWS, fragment_embedding._GROUP_ROWS = 64, 128
def watch(n_done, n_rows):
    print(n_done, flush=True)
    time.sleep(0.05)
embed_fragments(*sys.argv[1:3], out=sys.argv[3], watch=watch)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_whole_files_and_a_second_call_the_rest(run, parts, tmp_path):
    embed_fragments(run, parts, out=tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    out = tmp_path / "out"
    for least in (1, 100, 400):
        command = [sys.executable, "-c", SLOWLY, str(run), str(parts), str(out)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            while int(process.stdout.readline()) < least:
                pass
            time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        there = {name: data for name, data in contents(out).items() if not name.startswith(".")}
        assert len(there) < 5
        assert there.items() <= whole.items()
    assert there
    done = embed_fragments(run, parts, out=out)
    assert 0 < done.n_there_already < 5
    found = contents(out)
    assert {name: data for name, data in found.items() if not name.startswith(".")} == whole


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_workers_of_ray_write_the_same_bytes(run, parts, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    ray = pytest.importorskip("ray", reason="ray is absent")
    monkeypatch.undo()  # workers have batches of the usual size, so this process has too
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    embed_fragments(run, parts, out=tmp_path / "whole")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        seen = []
        done = embed_fragments(
            run, parts, out=tmp_path / "out", engine="ray", watch=lambda *n: seen.append(n)
        )
        assert (done.n_files, done.n_there_already) == (5, 0)
        assert seen[-1] == (N_ROWS, N_ROWS)
        assert contents(tmp_path / "out") == contents(tmp_path / "whole")
        again = embed_fragments(run, parts, out=tmp_path / "out", engine="ray")
        assert again.n_there_already == 5
        broken = X[:5].copy()
        broken[2] = np.inf
        pq.write_table(table(broken), parts / "part-3.parquet")
        message = refused(run, parts, out=tmp_path / "new", engine="ray")
        assert message.startswith(f"rows 0 to 4 of {parts}/part-3.parquet: X holds NaN")
        assert "part-3.parquet" not in contents(tmp_path / "new")
        maps_batches(ray, run)
    finally:
        ray.shutdown()


def maps_batches(ray, run):
    """The transformer itself, in Ray Data."""
    from ray.data import DataContext, from_arrow

    from nonneg.runs import arrow_features

    DataContext.get_current().enable_progress_bars = False
    features = arrow_features(run, id_column="key")
    dataset = from_arrow([table(X[:70]), table(X[70:150], 70)])
    rows = dataset.map_batches(features, batch_format="pyarrow", batch_size=50).take_all()
    rows.sort(key=lambda row: int(row["id"][1:]))
    Z = nonneg.NCL.load(run).transform(X[:150])
    for row, expected in zip(rows, Z, strict=True):
        assert list(row["indices"]) == expected.nonzero()[0].tolist()
        np.testing.assert_allclose(row["values"], expected[expected > 0], rtol=1e-5)
