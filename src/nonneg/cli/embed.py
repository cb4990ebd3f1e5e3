"""``nonneg embed``: the features of any data, from a trained encoder."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.console import Console
from rich.progress import Progress

from nonneg import data
from nonneg.encoder import Encoder
from nonneg.evaluation.sharding import encoded_together
from nonneg.feature_file import write_features
from nonneg.training import join_processes


def embed(
    run: Annotated[Path, typer.Argument(help="A run folder, or any folder with an encoder.")],
    source: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A data set's name, an npy or npz file, or a folder."),
    ],
    out: Annotated[Path, typer.Option(help="The npz file to write.")] = Path("features.npz"),
    split: Annotated[
        str | None,
        typer.Option(help="train or test. [dim]default: test for named sets, else all there is[/]"),
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
    dense, under the key "features"; nonneg.feature_file.read_features reads both.

    Example: nonneg embed runs/digits-ncl digits --split test --out digits.npz
    """
    is_first = join_processes()
    encoder = Encoder.load(run)
    split = split or ("test" if source in data.names() else "train")
    samples = data.load(source, split=split, data_dir=data_dir, image_size=encoder.sample_shape[-1])
    data.check(samples)
    encoder.to("cuda" if torch.cuda.is_available() else "cpu")
    console = Console(quiet=not is_first)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("embedding", total=len(samples))
        encoded = encoded_together(
            encoder, samples, batch_size, after=lambda n: bar.advance(task, n)
        )
    arrays: dict[str, Any] = {}
    if hidden:
        arrays["hidden"] = encoded.hidden.numpy()
    if samples.labels is not None:
        arrays["labels"] = samples.labels.numpy()
    if samples.class_names:
        arrays["class_names"] = np.array(samples.class_names)
    if not is_first:
        return
    is_sparse = write_features(out, encoded.features.numpy(), **arrays)
    n, d = encoded.features.shape
    kept = "sparse" if is_sparse else "dense"
    console.print(f"{n:,} samples × {d:,} features, {kept}: {out}", highlight=False, soft_wrap=True)
