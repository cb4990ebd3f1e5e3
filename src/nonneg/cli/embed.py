"""``nonneg embed``: the features of any data, from a trained or fitted run."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from nonneg import data
from nonneg.cli.outputs import check_output
from nonneg.data.dataset import Data
from nonneg.data.feature_file import write_feature_parts
from nonneg.data.vectors import VectorData, read_vectors
from nonneg.encoder import Encoded
from nonneg.evaluation.sections import other_size
from nonneg.evaluation.subject import encoded_together
from nonneg.inference import chosen_device
from nonneg.runs.fitting import is_fitted
from nonneg.runs.record import run_encoder
from nonneg.training.processes import join_processes

# Of a part of the vectors or of their features: 4 million numbers, 16 MB.
_PART_ENTRIES = 1 << 22


def embed(
    run: Annotated[Path, typer.Argument(help="A run folder, or any folder with an encoder.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A data set's name, an npy, npz or parquet file, or a folder."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The npz file to write.")] = Path("features.npz"),
    split: Annotated[
        str | None,
        typer.Option(
            help="train, or test (val is the same). [dim]default: test for named sets, train for a "
            "folder that has both, else all there is[/]"
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="Fitted runs: the array of an npz, the column of a parquet file."),
    ] = None,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Also write the backbone's output.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples at once.")] = 512,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where data sets lie. [dim]default: $NONNEG_DATA or ~/.cache/nonneg[/]"),
    ] = None,
) -> None:
    """Write the features of a data set as an npz file, and labels where they exist.

    Features that are mostly zero are written sparse, as scipy.sparse.load_npz reads them, others
    dense, under the key "features"; nonneg.data.read_features reads both. Vectors of a
    fitted run are read and written part by part, whatever their number.

    Example: nonneg embed runs/digits-ncl digits --split test --out digits.npz
    """
    check_output(out, ".npz", read=[source])
    is_first = join_processes()
    console = Console(quiet=not is_first)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        if is_fitted(run):
            if hidden or split:
                raise ValueError(
                    f"{run} was fitted to vectors: leave out {'--hidden' if hidden else '--split'}"
                )
            vectors = read_vectors(source, column=column)
            parts = _fitted_features(run, vectors, bar) if is_first else iter(())
            written = _Written(len(vectors), parts, _beside(vectors))
        else:
            samples, encoded, note = _encoded(run, source, split, data_dir, batch_size, bar)
            if note is not None:
                console.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
            others = _beside(samples) | ({"hidden": encoded.hidden.numpy()} if hidden else {})
            written = _Written(len(samples), iter([encoded.features.numpy()]), others)
        if is_first:
            _write(written, out, console)


class _Written(NamedTuple):
    """What goes into the file."""

    n_samples: int
    parts: Iterator[NDArray[np.float32]]
    others: dict[str, Any]


def _write(written: _Written, out: Path, console: Console) -> None:
    first = next(written.parts)
    parts = chain([first], written.parts)
    is_sparse = write_feature_parts(out, parts, written.n_samples, **written.others)
    kept = "sparse" if is_sparse else "dense"
    console.print(
        f"{written.n_samples:,} samples × {first.shape[1]:,} features, {kept}: {out}",
        highlight=False,
        soft_wrap=True,
    )


def _encoded(
    run: Path,
    source: str,
    split: str | None,
    data_dir: Path | None,
    batch_size: int,
    bar: Progress,
) -> tuple[Data, Encoded, str | None]:
    """The samples, what the encoder says of them, and a note; all processes have to call it."""
    encoder = run_encoder(run)
    split = split or ("test" if source in data.names() else "train")
    split = "test" if split == "val" else split  # as folders of images may call it
    samples = data.load(source, split=split, data_dir=data_dir, image_size=encoder.sample_shape[-1])
    data.check(samples)
    encoder.to(chosen_device())
    task = bar.add_task("embedding", total=len(samples))
    encoded = encoded_together(encoder, samples, batch_size, after=lambda n: bar.advance(task, n))
    return samples, encoded, other_size(samples, encoder.sample_shape)


def _fitted_features(
    run: Path, vectors: VectorData, bar: Progress
) -> Iterator[NDArray[np.float32]]:
    """What ``NCL.transform`` gives, some samples at a time."""
    # Imported on use: scikit-learn takes a third of the time of all imports.
    from nonneg.estimators.inputs import check_finite
    from nonneg.estimators.ncl import NCL

    # The device of the fit may not be here.
    ncl = NCL.load(run).set_params(sparse_output=False, device="auto")
    check_finite(vectors.vectors)
    task = bar.add_task("embedding", total=len(vectors))
    step = max(1, _PART_ENTRIES // max(*vectors.sample_shape, ncl.encoder_.n_features))
    for start in range(0, len(vectors), step):
        part: Any = ncl.transform(vectors.vectors[start : start + step])
        yield part
        bar.advance(task, len(part))


def _beside(samples: Data) -> dict[str, Any]:
    """Labels and the names of classes, where there are any."""
    others: dict[str, Any] = {}
    if samples.labels is not None:
        others["labels"] = samples.labels.numpy()
    if samples.class_names:
        others["class_names"] = np.array(samples.class_names)
    return others
