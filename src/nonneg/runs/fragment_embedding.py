"""The features of many parquet files, one file each, shared among processes and machines.

What a file of features is of stands in its metadata, so that work goes on where it ended.
"""

import json
import os
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nonneg.data.fragments import Fragment, Fragments, Place, find_fragments, is_meant, place_of
from nonneg.data.text_records import MissingColumnError
from nonneg.data.vectors import parquet_file
from nonneg.interchange.arrow import INDICES, ArrowFeatures, arrow_schema
from nonneg.io import check_folder, replaced
from nonneg.runs.record import model_digest, read_run
from nonneg.runs.run_model import RunModel, arrow_features
from nonneg.training.run_folder import RUN_FILE

ENGINES = ("local", "ray")
# The key of the metadata of a file of features.
FACTS_KEY = b"nonneg"
# Fixed, and counted from the first row of a file: how rows are cut moves the last digits.
_BATCH_ROWS = 8192
_BATCH_TEXTS = 1024
# The part of a file whose entries are few different ones; of the others a dictionary is in the way.
_REPEATED = f"{INDICES}.list.element"
# Rows of a row group that is written; so many features are held at most.
_GROUP_ROWS = 131_072
_FOOTERS_AT_ONCE = 16
# Characters that end a temporary name on other file systems.
_MARK = 32

Watch = Callable[[int, int], None]


class Shard(NamedTuple):
    """The share of one process: every ``of``-th file, from the ``number``-th on."""

    number: int = 1
    of: int = 1

    @classmethod
    def read(cls, text: str) -> "Shard":
        """A share as written on a command line.

        Raises:
            ValueError: It is not like ``2/8``, or there is no such share.

        Example:
            >>> Shard.read("2/8")
            Shard(number=2, of=8)
        """
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal()):
            raise ValueError(f"{text!r} is no shard; write it as 2/8, the second of eight")
        shard = cls(int(number), int(of))
        if not 1 <= shard.number <= shard.of:
            raise ValueError(
                f"there is no shard {text}: shards of {shard.of} are numbered from 1 to {shard.of}"
            )
        return shard

    @classmethod
    def of_process(cls) -> "Shard":
        """That of this process among those that torchrun started; all without it."""
        if "TORCHELASTIC_RUN_ID" not in os.environ:
            return cls()
        return cls(int(os.environ["RANK"]) + 1, int(os.environ["WORLD_SIZE"]))


@dataclass(frozen=True)
class EmbeddedFragments:
    """What ``embed_fragments`` has done."""

    out: str
    n_files: int
    """Of this share."""
    n_rows: int
    """In them."""
    n_there_already: int
    """Files that an earlier call had written."""


@dataclass(frozen=True)
class _Job:
    """One file to embed, with all that a worker has to know."""

    data: Fragments
    fragment: Fragment
    out: Place
    features: ArrowFeatures
    facts: dict[str, Any]


def embed_fragments(
    run: str | Path,
    source: str | Path,
    *,
    out: str | Path,
    column: str | None = None,
    text: str | None = None,
    id_column: str | None = None,
    encoder: str | Path | None = None,
    shard: Shard | None = None,
    engine: str = "local",
    watch: Watch = lambda n_done, n_rows: None,
) -> EmbeddedFragments:
    """Write the features of parquet files, one file of the same name for each.

    A file appears when it is whole. Files that are there already, of the same run and of files that
    have not changed, are left as they are, so that a call that was killed is given again. Without
    ``id_column``, rows have the numbers that they have over all files in the order of their names,
    whatever the share. The bytes do not depend on shares or engine, on machines of one kind.

    Args:
        run: The folder of a fitted run.
        source: A folder, a pattern such as ``in/*.parquet``, or a URI of one, such as
            ``s3://bucket/in``.
        out: A folder or its URI.
        column: That of the vectors, lists of numbers; None for the only one.
        text: The column of texts, for runs fitted to texts; without ``column`` that of the run.
        id_column: What the rows are known by.
        encoder: Where the encoder of texts lies now; None for where it lay.
        shard: The share of this process; None for all, or under ``torchrun`` for its own.
        engine: ``"local"``, or ``"ray"``: the cluster that ``ray.init()`` finds, else this machine.
        watch: Called with the number of rows that are done, and with that of all of the share.

    Raises:
        ImportError: pyarrow, or the engine, is not installed.
        ValueError: A file has another schema or is damaged, ``out`` holds features of another run,
            or of other options, or an argument is wrong.
    """
    if engine not in ENGINES:
        raise ValueError(f"unknown engine {engine!r}; choose {' or '.join(ENGINES)}")
    if engine == "ray":
        _ = _ray()  # said before anything is read or made
    shard = Shard.of_process() if shard is None else shard
    own = _known_text(Path(run)) if text is None and column is None else None
    text = text or own
    features = arrow_features(run, column=column, text=text, id_column=id_column, encoder=encoder)
    if text is not None:
        _ = RunModel(run, encoder=encoder).text_encoder  # refused here, and not by each worker
    try:
        data = find_fragments(source, features.columns)
    except MissingColumnError as error:
        if own is None:
            raise
        raise ValueError(
            f"{error}; name it with --text, or that of vectors with --column"
        ) from None
    place = place_of(out)
    _check_apart(source, data, place)
    told = {"run": model_digest(run), "column": column, "text": text, "id": id_column}
    jobs = [
        _Job(data, fragment, _inside(place, fragment.name), features, _facts(told, fragment))
        for fragment in data.files[shard.number - 1 :: shard.of]
    ]
    if place.is_local:
        check_folder(Path(place.path))
    there = _there_already(jobs, place)
    n_rows = sum(job.fragment.n_rows for job in jobs)
    n_done = sum(job.fragment.n_rows for job in jobs if job.out.path in there)
    left = [job for job in jobs if job.out.path not in there]
    engines = {"local": _one_by_one, "ray": _by_ray}
    watch(n_done, n_rows)
    for done in accumulate(engines[engine](left), initial=n_done):
        watch(done, n_rows)
    return EmbeddedFragments(str(out), len(jobs), n_rows, len(there))


def _known_text(run: Path) -> str | None:
    """The column of the texts that a run was fitted to; None for a run of vectors."""
    known = read_run(run).fit if (run / RUN_FILE).exists() else None
    texts = None if known is None else known.data.texts
    return None if texts is None or texts.encoder is None else texts.text


def _facts(told: dict[str, Any], fragment: Fragment) -> dict[str, Any]:
    """What a file of features is of."""
    numbers = {} if told["id"] is not None else {"first": fragment.first}
    state = {"rows": fragment.n_rows, "size": fragment.size, "modified": fragment.modified}
    return {**told, "source": fragment.name, **state, **numbers}


def _inside(folder: Place, name: str) -> Place:
    return Place(folder.filesystem, f"{folder.path.rstrip('/')}/{name}")


def _check_apart(source: str | Path, data: Fragments, out: Place) -> None:
    """Raise a sentence if features would be read as vectors by the next call."""
    if out.filesystem != data.filesystem:
        return
    for fragment in data.files:
        if is_meant(source, _inside(out, fragment.name).path):
            raise ValueError(
                f"features in {out.path} would be among the files of {source}; choose a folder "
                "outside of it to write to"
            )


def _there_already(jobs: list[_Job], out: Place) -> set[str]:
    """The paths that are written already.

    Raises:
        ValueError: A file with such a path is of something else.
    """
    fs = import_module("pyarrow.fs")
    selector = fs.FileSelector(out.path, recursive=True, allow_not_found=True)
    known = {info.path for info in out.filesystem.get_file_info(selector) if info.is_file}
    found = [job for job in jobs if job.out.path in known]
    if not out.is_local:
        _clear_leftovers(jobs, out, known)
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        list(pool.map(_check_same, found))
    return {job.out.path for job in found}


# What differs, in words, where a file of features has other facts.
_OTHERS = {
    "run": "features of another run",
    "column": "features made with another --column",
    "text": "features made with another --text",
    "id": "features made with another --id",
    "source": "the features of another file",
    "first": "other row numbers, as files before it have come, gone or changed",
}


def _check_same(job: _Job) -> None:
    """Raise a sentence if what is there is not what the job would write."""
    path, facts = job.out.path, job.facts
    with parquet_file(path, filesystem=job.out.filesystem) as file:
        metadata = file.schema_arrow.metadata or {}
        written, n_rows = metadata.get(FACTS_KEY), file.metadata.num_rows
    if written is None:
        said = "something else than features"
    else:
        there = json.loads(written)
        if all(there.get(key) == value for key, value in facts.items()):
            if n_rows == facts["rows"]:
                return
            said = f"{n_rows:,} of {facts['rows']:,} rows"
        else:
            other = next(key for key, value in facts.items() if there.get(key) != value)
            said = _OTHERS.get(other, f"the features of {job.fragment.path} before it changed")
    raise ValueError(f"{path} holds {said}; choose another folder to write to, or remove it")


def _one_by_one(jobs: list[_Job]) -> Iterator[int]:
    """Do the jobs in this process; gives numbers of rows."""
    for job in jobs:
        yield from _embed(job)


def _by_ray(jobs: list[_Job]) -> Iterator[int]:
    """Do the jobs on a cluster, one task each; gives numbers of rows.

    A task whose worker or machine dies is done again elsewhere. The first error ends the others.
    """
    ray = _ray()
    is_mine = not ray.is_initialized()
    if is_mine:
        ray.init(log_to_driver=False, logging_level="warning")
    try:
        work = ray.remote(_embedded_rows)
        waiting = [work.remote(job) for job in jobs]
        while waiting:
            done, waiting = ray.wait(waiting)
            try:
                yield from ray.get(done)
            except ray.exceptions.RayTaskError as error:
                for task in waiting:
                    ray.cancel(task, force=True)
                raise error.cause from None
    finally:
        if is_mine:
            ray.shutdown()


def _ray() -> Any:  # noqa: ANN401
    try:
        return import_module("ray")
    except (ImportError, RuntimeError, OSError) as error:
        raise ImportError(
            f"the engine ray cannot be imported ({error}); install it with: pip install "
            "'nonneg[ray]'"
        ) from error


def _embedded_rows(job: _Job) -> int:
    """Do a job as a whole: what a worker is asked for."""
    return sum(_embed(job))


def _embed(job: _Job) -> Iterator[int]:
    """Write the features of one file; gives the number of rows of each batch."""
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    fragment, features = job.fragment, job.features
    facts = {**job.facts, "n_features": features.model.n_features}
    id_type = None if features.id_column is None else job.data.schema.field(features.id_column).type
    schema = arrow_schema(id_type).with_metadata({FACTS_KEY: json.dumps(facts)})
    n_batch = _BATCH_ROWS if features.text is None else _BATCH_TEXTS
    with (
        _appearing(job.out) as file,
        parquet.ParquetWriter(
            file, schema, compression="zstd", use_dictionary=[_REPEATED]
        ) as writer,
    ):
        held: list[Any] = []
        n_done = 0
        for batch in job.data.batches(fragment, n_batch):
            end = n_done + batch.num_rows
            numbers = np.arange(fragment.first + n_done, fragment.first + end)
            held.append(features(batch, numbers, where=fragment.path, start=n_done))
            if sum(part.num_rows for part in held) >= _GROUP_ROWS:
                writer.write_table(arrow.Table.from_batches(held, schema))
                held = []
            yield end - n_done
            n_done = end
        if held:
            writer.write_table(arrow.Table.from_batches(held, schema))
        _check_unchanged(job, n_done)


def _check_unchanged(job: _Job, n_done: int) -> None:
    """Raise a sentence if the file is another one than when its footer was read."""
    fragment = job.fragment
    (now,) = job.data.filesystem.get_file_info([fragment.path])
    if (n_done, now.size, now.mtime_ns or 0) != (fragment.n_rows, fragment.size, fragment.modified):
        raise ValueError(
            f"{fragment.path} has changed while it was read; give the command again when no "
            "program writes to it"
        )


def _clear_leftovers(jobs: list[_Job], out: Place, known: set[str]) -> None:
    """Remove what killed writers of the same files left; on this machine ``replaced`` does so."""
    named = {job.out.path for job in jobs}
    for path in known:
        folder, _, name = path.rpartition("/")
        written, _, mark = name.removeprefix(".").rpartition(".")
        if name.startswith(".") and len(mark) == _MARK and f"{folder}/{written}" in named:
            out.filesystem.delete_file(path)


@contextmanager
def _appearing(place: Place) -> Iterator[Any]:
    """A file to write to, which has its name only when the block ends without an error."""
    if place.is_local:
        with replaced(Path(place.path)) as file:
            yield file
        return
    folder, _, name = place.path.rpartition("/")
    temporary = f"{folder}/.{name}.{uuid.uuid4().hex}"
    place.filesystem.create_dir(folder, recursive=True)
    try:
        with place.filesystem.open_output_stream(temporary) as file:
            yield file
        place.filesystem.move(temporary, place.path)
    except BaseException:
        place.filesystem.delete_file(temporary)
        raise
