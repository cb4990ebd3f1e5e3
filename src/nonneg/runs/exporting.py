"""Runs in the formats of other programs: sentence-transformers, ONNX, and points of engines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nonneg.data.dataset import Data
from nonneg.data.vectors import VectorData, read_vectors
from nonneg.encoder import CONFIG_FILE, Encoder
from nonneg.interchange.engines import ENGINES, EXPORT_FILE, Payload, write_points
from nonneg.interchange.onnx_model import write_onnx
from nonneg.interchange.sparse_encoder import (
    folded_head,
    title_and_licence,
    write_sparse_encoder,
)
from nonneg.io import check_output, read_json
from nonneg.runs.embedding import Watch, run_features
from nonneg.runs.record import is_fitted, model_digest, read_run, run_encoder
from nonneg.runs.run_model import RunModel
from nonneg.runs.text_fits import run_text_encoder
from nonneg.texts import TextEncoder
from nonneg.training.run_folder import RUN_FILE

if TYPE_CHECKING:
    from nonneg.runs.vector_fits import TextFile

SENTENCE_TRANSFORMERS, ONNX = "sentence-transformers", "onnx"
TARGETS = (SENTENCE_TRANSFORMERS, ONNX, *ENGINES)
# The card says how many features are on, of so many samples.
_MEASURED = 2000


@dataclass(frozen=True)
class Exported:
    """What ``export_run`` has written."""

    out: Path
    summary: str
    """One line that says what it is."""
    notes: tuple[str, ...] = ()
    """What a user of it should know."""


def export_run(
    run: str | Path,
    target: str,
    *,
    out: str | Path,
    source: str | None = None,
    encoder: Any = None,  # noqa: ANN401
    watch: Watch = lambda n_done, n_samples: None,
    **chosen: Any,  # noqa: ANN401
) -> Exported:
    """Write a run, or the features of a data set by it, for another program.

    Args:
        run: A run folder, or any folder with an encoder.
        target: One of ``TARGETS``: the first two write the model, the others points of ``source``.
        out: A folder, or a file that ends in ``.onnx``. An earlier export for the same target is
            replaced, and nothing else.
        source: The data whose features become points, see
            :func:`nonneg.runs.embedding.run_features`.
        encoder: For sentence-transformers and for points of texts: where the encoder of texts lies
            now; None for where it lay.
        watch: Called with the number of points that are done, and with that of all.
        chosen: The other arguments of ``run_features``, for points.

    Raises:
        ValueError: An unknown target, or the run cannot be exported exactly; the sentence says why.
        FileExistsError: ``out`` holds something else.
        OSError: It cannot be written; what was there still is.
    """
    run, out = Path(run), Path(out)
    if target not in TARGETS:
        raise ValueError(f"unknown target {target!r}; known: {', '.join(TARGETS)}")
    chosen = {key: value for key, value in chosen.items() if value is not None}
    if target in ENGINES:
        if source is None:
            raise ValueError(f"an export to {target} is of samples: name them, as RUN DATA")
        _check_place(out, target)
        return _points(run, target, out, source, {**chosen, "encoder": encoder, "watch": watch})
    useless = [*(["DATA"] if source is not None else []), *(f"--{key}" for key in chosen)]
    if useless:
        raise ValueError(
            f"an export to {target} is of the model alone; leave out {' and '.join(useless)}"
        )
    if target == ONNX:
        if encoder is not None:
            raise ValueError("an export to onnx has no encoder of texts; leave out --encoder")
        return _onnx(run, out)
    _check_place(out, target)
    return _sentence_transformers(run, out, encoder)


def _check_place(out: Path, target: str) -> None:
    """Raise a sentence where an export would replace something else than one for its target."""
    if out.is_file():
        raise FileExistsError(f"{out} is a file; name a folder to export to")
    if not out.is_dir() or not any(out.iterdir()):
        return
    mark = out / EXPORT_FILE
    known = read_json(mark, remedy="choose another folder") if mark.is_file() else None
    if not isinstance(known, dict) or known.get("nonneg") != "export":
        raise FileExistsError(f"{out} holds something else than an export; choose another folder")
    if known.get("target") != target:
        raise FileExistsError(
            f"{out} holds an export for {known.get('target')}; choose another folder"
        )


def _mark(run: Path, target: str) -> dict[str, Any]:
    return {"nonneg": "export", "target": target, "model_digest": model_digest(run)}


def _onnx(run: Path, out: Path) -> Exported:
    check_output(out, ".onnx", read=[])
    encoder, names = _model(run)
    write_onnx(encoder, out, names=names)
    shape = " × ".join(map(str, encoder.sample_shape))
    summary = f"samples (n × {shape}) to features (n × {encoder.n_features}), float32: {out}"
    return Exported(out, summary)


def _sentence_transformers(run: Path, out: Path, given: Any) -> Exported:  # noqa: ANN401
    encoder, names = _model(run)
    folded_head(encoder)  # what cannot be folded is said before a model is loaded
    model, note = _text_encoder(run, given)
    difference = write_sparse_encoder(
        encoder,
        model.model,
        out,
        names=names,
        facts=_facts(run, model),
        mark=_mark(run, SENTENCE_TRANSFORMERS),
    )
    summary = (
        f"a SparseEncoder of {encoder.n_features:,} features, within {difference:.0e} of the run's "
        f"own: {out}"
    )
    return Exported(out, summary, () if note is None else (note,))


def _model(run: Path) -> tuple[Encoder, Sequence[str]]:
    """The encoder of a run and the names of its features."""
    if is_fitted(run):
        _check_sides(run)
        model = RunModel(run)
        encoder: Encoder = model.ncl.encoder_
        return encoder, model.names
    encoder = run_encoder(run)
    return encoder, _numbered(encoder.n_features)


def _numbered(n_features: int) -> list[str]:
    return [f"feature {number}" for number in range(n_features)]


def _check_sides(run: Path) -> None:
    if read_json(run / CONFIG_FILE)["estimator"].get("name") == "CrossNCL":
        raise ValueError(
            f"{run} is a CrossNCL with an encoder for each side; export one of them, {run / 'x'} "
            f"or {run / 'y'}"
        )


def _known_texts(run: Path) -> "TextFile | None":
    known = read_run(run).fit if (run / RUN_FILE).exists() else None
    return None if known is None else known.data.texts


def _text_encoder(run: Path, given: Any) -> tuple[TextEncoder, str | None]:  # noqa: ANN401
    """What embeds texts for a run, and a note where the run does not know it."""
    known = _known_texts(run)
    if known is not None and known.encoder is not None:
        return run_text_encoder(known, run=run, encoder=given), None
    if given is None:
        raise ValueError(
            f"{run} does not know what made its vectors; name the folder of the sentence encoder "
            "with --encoder"
        )
    model = TextEncoder(given)
    return model, f"{run} does not know what made its vectors; {model.name} is taken to have"


def _facts(run: Path, model: TextEncoder) -> Mapping[str, str]:
    """What the card says of a run besides its shape, in words."""
    title, licence = title_and_licence(model.name)
    facts = {
        "sentence encoder": f"{title or Path(model.name).name}, SHA-256 {str(model.digest)[:12]}…",
        "its licence": licence or "not known; see where it comes from",
    }
    known = _known_texts(run)
    if known is not None:
        facts["fitted to"] = f"{Path(known.table).name}, SHA-256 {known.digest[:12]}…"
    if is_fitted(run):
        fitted = RunModel(run)
        facts["alive features"] = f"{fitted.ncl.n_alive_:,}"
        if active := _active(run, fitted):
            facts["active per text"] = active
    return facts


def _active(run: Path, model: RunModel) -> str | None:
    """How many features a sample of the run has on; None where the vectors are gone."""
    from nonneg.data.dataset import permutation
    from nonneg.metrics.activity import active_per_sample

    known = read_run(run).fit if (run / RUN_FILE).exists() else None
    if known is None:
        return None
    try:
        data = read_vectors(known.data.vectors, column=known.data.column)
    except (OSError, ValueError):
        return None
    rows = permutation(len(data), seed=0)[:_MEASURED].sort().values
    vectors = data.fetch(rows)
    vectors = vectors[(vectors != 0).any(dim=1)]  # empty texts have none
    mean = float(active_per_sample(model.of_vectors(vectors.numpy())))
    return f"{mean:.1f} on average, of {len(vectors):,} of the run's samples"


def _points(run: Path, target: str, out: Path, source: str, chosen: Mapping[str, Any]) -> Exported:
    if is_fitted(run):
        _check_sides(run)
    found = run_features(run, source, **chosen)
    parts = iter(found.parts)
    first = next(parts)
    names = RunModel(run).names if is_fitted(run) else _numbered(first.shape[1])
    written = write_points(
        target,
        _again(first, parts),
        out,
        names=names,
        payload=_payload(found.samples),
        mark=_mark(run, target),
    )
    files = "1 file" if written.n_files == 1 else f"{written.n_files:,} files"
    summary = f"{written.n_points:,} points of {len(names):,} features in {files}: {out}"
    return Exported(out, summary, () if found.note is None else (found.note,))


def _again(first: Any, others: Iterable[Any]) -> Iterable[Any]:  # noqa: ANN401
    yield first
    yield from others


def _payload(samples: Data) -> Payload:
    """What is known of samples besides their features: texts, labels and dates."""
    texts = samples.texts if isinstance(samples, VectorData) else None
    dates = samples.dates if isinstance(samples, VectorData) else None
    names = samples.class_names

    def known(start: int, stop: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [{} for _ in range(stop - start)]
        columns: dict[str, Sequence[Any]] = {}
        if texts is not None:
            columns["text"] = texts[start:stop]
        if samples.labels is not None:
            numbers = samples.labels[start:stop].tolist()
            columns["label"] = [names[number] for number in numbers] if names else numbers
        if dates is not None:
            columns["date"] = dates[start:stop].astype(str).tolist()
        for key, values in columns.items():
            for one, value in zip(found, values, strict=True):
                one[key] = value
        return found

    return known
