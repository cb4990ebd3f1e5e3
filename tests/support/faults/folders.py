"""Folders that other commands read: indexes, foreign checkpoints, exports, files of features."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import torch

import nonneg
from faults.commands import solo_weights
from nonneg.interchange.checkpoints import imported_encoder
from nonneg.runs import indexing
from nonneg.runs.drawn_rows import drawn_file
from nonneg.runs.exporting import _check_place
from nonneg.runs.fragment_embedding import embed_fragments
from nonneg.runs.record import model_digest
from nonneg.runs.searching import RunSearch
from nonneg.search import SparseIndex, idf_weights

_X = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
_TEXTS = [f"tëxt {number}" for number in range(len(_X))]
_LABELS = torch.arange(len(_X)) % 3


def _run(folder):
    ncl = nonneg.NCL(n_components=6, hidden=0, max_steps=2, batch_size=20, random_state=0)
    ncl.fit(_X).save(folder)
    return ncl


def _indexed(folder, file):
    """A run with an index as ``nonneg index`` writes it, but for names that are drawn."""
    Z = _run(folder).transform(_X)
    names, out = np.array([f"k{number}" for number in range(len(_X))]), folder / "index"
    index = SparseIndex.of(Z, names, weights=idf_weights(Z))
    samples = SimpleNamespace(labels=_LABELS, class_names=("tea", "ale", "gin"))
    index.about = {"run": model_digest(folder), "source": "x.csv", "ids": "key"}
    index.about |= indexing._write_beside(out, samples, _TEXTS, names)
    index.save(out)
    (out / "part-1").rename(out / "part-x")
    files = index.about["files"]
    for key, name in files.items():
        files[key] = f"beside-x-{key}.npy"
        (out / name).rename(out / files[key])
    facts = json.loads((out / "index.json").read_text())
    facts |= {"part": "part-x", "about": {**facts["about"], "files": files}}
    (out / "index.json").write_text(json.dumps(facts))


def _found(folder):
    known = RunSearch(folder, folder / "index")
    by_vector = known.search(known.features(_X[0]), 5)
    by_sample = known.search(known.features(like="k3"), 40, label="ale")
    assert by_vector.samples or by_sample.samples, "a query that finds nothing checks nothing"
    return by_vector, by_sample, known.text("k39")


def _checkpoint(folder, file):
    torch.save({"state_dict": solo_weights(), "epoch": 3}, folder / "a.ckpt")
    told = {"method": "simclr", "method_kwargs": {"temperature": 0.2}, "seed": 5}
    data = {"dataset": "cifar10", "augmentations": [{"crop_size": 32}]}
    (folder / "args.json").write_text(json.dumps({**told, "data": data}))


def _imported(path):
    return imported_encoder(path.parent / "a.ckpt", nonnegative="relu", pixels="none")


def _export(folder, file):
    known = {"nonneg": "export", "target": "qdrant", "model_digest": "a" * 64, "n_points": 3}
    (folder / file).write_text(json.dumps(known))


def _many(folder, file):
    """Two files of vectors, and the features of one of them."""
    import pyarrow as arrow
    from pyarrow import parquet

    _run(folder / "run")
    (folder / "in").mkdir()
    for number, rows in enumerate((_X[:25], _X[25:])):
        keys = [f"k{number}-{row}" for row in range(len(rows))]
        table = arrow.table({"key": keys, "vector": [row.tolist() for row in rows]})
        parquet.write_table(table, folder / "in" / f"{number}.parquet")
    embed_fragments(folder / "run", folder / "in", out=folder / "out", id_column="key")
    (folder / "out" / "1.parquet").unlink()


def _embedded(folder):
    shutil.rmtree(folder / "drawn-rows", ignore_errors=True)
    drawn_file(folder / "in", out=folder / "new")
    return embed_fragments(folder / "run", folder / "in", out=folder / "again", id_column="key")


def _gone_on(folder):
    return embed_fragments(folder / "run", folder / "in", out=folder / "out", id_column="key")


# What makes a folder, the file in it that is damaged, and what reads it; from the file's path.
FOLDERS = {
    "index of a run": (_indexed, "index/index.json", lambda path: _found(path.parents[1])),
    **{
        f"index {key}": (
            _indexed,
            f"index/beside-x-{key}.npy",
            lambda path: _found(path.parents[1]),
        )
        for key in ("ids", "labels", "text-ends", "text-bytes")
    },
    **{
        f"index part {name}": (
            _indexed,
            f"index/part-x/{name}.npy",
            lambda path: _found(path.parents[2]),
        )
        for name in ("places", "values", "ids", "weights")
    },
    "checkpoint of others": (_checkpoint, "a.ckpt", _imported),
    "settings of others": (_checkpoint, "args.json", _imported),
    "export.json": (_export, "export.json", lambda path: _check_place(path.parent, "qdrant")),
    "one of many parquet files": (_many, "in/0.parquet", lambda path: _embedded(path.parents[1])),
    "features of one of many": (_many, "out/0.parquet", lambda path: _gone_on(path.parents[1])),
}
