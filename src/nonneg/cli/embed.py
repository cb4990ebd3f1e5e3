"""``nonneg embed``: the features of any data, from a trained encoder."""

import io
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.console import Console
from rich.progress import track

from nonneg import data
from nonneg.encoder import Encoded, Encoder
from nonneg.files import write_bytes


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
    """Write the features of a data set as an npz file: features, and labels where they exist.

    Example: nonneg embed runs/digits-ncl digits --split test --out digits.npz
    """
    encoder = Encoder.load(run)
    split = split or ("test" if source in data.names() else "train")
    samples = data.load(source, split=split, data_dir=data_dir, image_size=encoder.sample_shape[-1])
    data.check(samples)
    encoder.to("cuda" if torch.cuda.is_available() else "cpu")
    parts = [
        encoder.encode(samples.fetch(indices), batch_size)
        for indices in track(
            torch.arange(len(samples)).split(batch_size), description="embedding", transient=True
        )
    ]
    encoded = Encoded(*(torch.cat(column) for column in zip(*parts, strict=True)))
    arrays: dict[str, Any] = {"features": encoded.features.numpy()}
    if hidden:
        arrays["hidden"] = encoded.hidden.numpy()
    if samples.labels is not None:
        arrays["labels"] = samples.labels.numpy()
    if samples.class_names:
        arrays["class_names"] = np.array(samples.class_names)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_bytes(out, buffer.getvalue())
    n, d = encoded.features.shape
    Console().print(f"{n:,} samples × {d:,} features: {out}", highlight=False, soft_wrap=True)
