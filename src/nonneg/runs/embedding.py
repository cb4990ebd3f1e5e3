"""The features of any data by the encoder of a run, written to a file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg import data
from nonneg.data.dataset import Data
from nonneg.data.feature_file import write_feature_parts
from nonneg.data.vectors import KINDS, VectorData, read_vectors
from nonneg.encoder import Encoded
from nonneg.evaluation.sections import other_size
from nonneg.evaluation.subject import encoded_together
from nonneg.inference import chosen_device
from nonneg.runs.record import is_fitted, read_run, run_encoder
from nonneg.runs.text_fits import are_texts, embedded_table
from nonneg.runs.vector_fits import VectorFiles
from nonneg.training.run_folder import RUN_FILE

# Of a part of the vectors or of their features: 4 million numbers, 16 MB.
_PART_ENTRIES = 1 << 22

Watch = Callable[[int, int], None]


@dataclass(frozen=True)
class Embedded:
    """What ``embed_run`` has written."""

    out: Path
    n_samples: int
    n_features: int
    is_sparse: bool
    note: str | None
    """What a reader of the features should know; None for nothing."""


@dataclass(frozen=True)
class RunFeatures:
    """The features of a data set by a run, part by part."""

    parts: Iterator[NDArray[np.float32]]
    """Some rows each, dense ``(rows, n_features)``; to be gone through once."""
    n_samples: int
    samples: Data
    """What the features are of, with labels and texts where there are any."""
    hidden: NDArray[np.float32] | None = None
    """The backbone's output of a trained run ``(n, h)``."""
    note: str | None = None
    """What a reader of the features should know; None for nothing."""

    @property
    def texts(self) -> Sequence[str] | None:
        """What the samples are, where they are texts."""
        return self.samples.texts if isinstance(self.samples, VectorData) else None


def embed_run(
    run: str | Path,
    source: str,
    *,
    out: str | Path,
    hidden: bool = False,
    writes: bool = True,
    **chosen: Any,  # noqa: ANN401
) -> Embedded:
    """Write the features of a data set as an npz file, with labels where they exist.

    Args:
        run: A run folder, or any folder with an encoder.
        source: See :func:`run_features`.
        out: The npz file.
        hidden: Whether to write the backbone's output too; trained runs only.
        writes: False in all but the first of several processes, which all have to call this.
        chosen: The other arguments of :func:`run_features`.
    """
    run, out = Path(run), Path(out)
    if hidden and is_fitted(run):
        raise ValueError(f"{run} was fitted to vectors: leave out --hidden")
    if not writes and is_fitted(run):  # one process embeds
        return Embedded(out, 0, 0, is_sparse=False, note=None)
    found = run_features(run, source, **chosen)
    if not writes:
        return Embedded(out, found.n_samples, 0, is_sparse=False, note=found.note)
    others = _beside(found.samples) | ({"hidden": found.hidden} if hidden else {})
    first = next(found.parts)
    is_sparse = write_feature_parts(out, chain([first], found.parts), found.n_samples, **others)
    return Embedded(out, found.n_samples, first.shape[1], is_sparse=is_sparse, note=found.note)


def run_features(
    run: str | Path,
    source: str,
    *,
    split: str | None = None,
    column: str | None = None,
    text: str | None = None,
    encoder: str | Path | None = None,
    batch_size: int = 512,
    data_dir: str | Path | None = None,
    watch: Watch = lambda n_done, n_samples: None,
) -> RunFeatures:
    """The features of a data set by the encoder of a run.

    Vectors of a fitted run are read and encoded part by part, whatever their number. Texts are
    embedded first, by the encoder that the run was fitted with.

    Args:
        run: A run folder, or any folder with an encoder.
        source: The name of a data set, an npy, npz or parquet file, a table of texts, or a folder
            of images.
        split: ``"train"`` or ``"test"`` (``"val"`` is the same). By default test for named sets,
            train for a folder that has both, else all there is.
        column: For fitted runs: the array of an npz file, the column of a parquet file.
        text: For runs fitted to texts: the column of the texts; None for that of the run.
        encoder: For runs fitted to texts: where their encoder lies now; None for where it lay.
        batch_size: Samples at once.
        data_dir: Where named data sets lie.
        watch: Called with the number of samples that are done, and with that of all.
    """
    run = Path(run)
    if not is_fitted(run):
        useless = {"--column": column, "--text": text, "--encoder": encoder}
        _check_unused(f"{run} was trained on samples of a data set", useless)
        samples, encoded, note = _encoded(run, source, split, data_dir, batch_size, watch)
        parts = iter([encoded.features.numpy()])
        return RunFeatures(parts, len(samples), samples, encoded.hidden.numpy(), note)
    if split:
        raise ValueError(f"{run} was fitted to vectors: leave out --split")
    if not Path(source).is_file() and (source in data.names() or Path(source).is_dir()):
        what = "a data set" if source in data.names() else "a folder"
        raise ValueError(
            f"{run} was fitted to vectors and reads files of vectors only; {source} is {what}, "
            f"give a {KINDS} file"
        )
    if are_texts(source, text):
        _check_unused(f"{source} holds texts", {"--column": column})
        vectors = _embedded(run, source, text, encoder, watch)
    else:
        _check_unused(f"{source} holds vectors", {"--encoder": encoder})
        vectors = read_vectors(source, column=column)
    return RunFeatures(_fitted_features(run, vectors, watch), len(vectors), vectors)


def _check_unused(why: str, options: Mapping[str, object]) -> None:
    """Raise a sentence for options that would not change anything."""
    for option, value in options.items():
        if value is not None:
            raise ValueError(f"{why}: leave out {option}")


def _embedded(
    run: Path, table: str, text: str | None, encoder: str | Path | None, watch: Watch
) -> VectorData:
    """The vectors of texts, by the encoder of the run."""
    known = read_run(run).fit if (run / RUN_FILE).exists() else None
    files = VectorFiles(vectors="") if known is None else known.data
    return embedded_table(files, table, run=run, text=text, encoder=encoder, watch=watch)


def _encoded(
    run: Path,
    source: str,
    split: str | None,
    data_dir: str | Path | None,
    batch_size: int,
    watch: Watch,
) -> tuple[Data, Encoded, str | None]:
    """The samples, their encoding, and a note; all processes have to call it."""
    encoder = run_encoder(run)
    split = split or ("test" if source in data.names() else "train")
    split = "test" if split == "val" else split  # as folders of images may call it
    samples = data.load(source, split=split, data_dir=data_dir, image_size=encoder.sample_shape[-1])
    data.check(samples)
    encoder.to(chosen_device())
    n_done = 0

    def count(n: int) -> None:
        nonlocal n_done
        n_done += n
        watch(n_done, len(samples))

    encoded = encoded_together(encoder, samples, batch_size, after=count)
    return samples, encoded, other_size(samples, encoder.sample_shape)


def _fitted_features(run: Path, vectors: VectorData, watch: Watch) -> Iterator[NDArray[np.float32]]:
    """What ``NCL.transform`` gives, part by part."""
    # Imported on use: scikit-learn takes a third of the time of all imports.
    from nonneg.estimators.inputs import check_finite
    from nonneg.estimators.ncl import NCL

    # The device of the fit may not exist here.
    ncl = NCL.load(run).set_params(sparse_output=False, device="auto")
    check_finite(vectors.vectors)
    step = max(1, _PART_ENTRIES // max(*vectors.sample_shape, ncl.encoder_.n_features))
    for start in range(0, len(vectors), step):
        part: Any = ncl.transform(vectors.vectors[start : start + step])
        yield part
        watch(start + len(part), len(vectors))


def _beside(samples: Data) -> dict[str, Any]:
    """Labels and the names of classes, where there are any."""
    others: dict[str, Any] = {}
    if samples.labels is not None:
        others["labels"] = samples.labels.numpy()
    if samples.class_names:
        others["class_names"] = np.array(samples.class_names)
    return others
