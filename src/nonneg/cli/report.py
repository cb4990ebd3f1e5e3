"""``nonneg report``: the atlas of a run or of any features, one HTML file that opens offline."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

_FILES = "Files that say more about the samples"


def report(
    source: Annotated[
        Path, typer.Argument(metavar="RUN|Z.npz", help="A run folder, or a file of features.")
    ],
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN|Z.npz", help="Another method on the same samples, side by side."),
    ] = None,
    other_seed: Annotated[
        Path | None,
        typer.Option(metavar="RUN|Z.npz", help="The same with another seed: do features return?"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The HTML file. [dim]default: atlas.html in the run, Z.html beside Z.npz[/]"
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Of a run's data: test, train, held-out or, if fitted, all. "
            "[dim]default: all of a run on texts, else test[/]"
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Other data of a run: a file of samples, or a set."),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=1, help="Show so many, drawn at random; figures are of all.")
    ] = 10_000,
    title: Annotated[str | None, typer.Option(help="Of the page.")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Also write figures for a paper into this folder.")
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            help='One text per sample: one per line, jsonl with "text", or a json list.',
            rich_help_panel=_FILES,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="One label per sample: npy, or text with one per line.", rich_help_panel=_FILES
        ),
    ] = None,
    class_names: Annotated[
        Path | None,
        typer.Option(
            help="Names of class 0, 1, …: one per line, or a json list.", rich_help_panel=_FILES
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            help="One image per sample: a folder, sorted by name, or npy of bytes.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(help="One name per sample, read as --texts are.", rich_help_panel=_FILES),
    ] = None,
    dates: Annotated[
        Path | None,
        typer.Option(
            help="One date per sample, one per line: 2024-05-01, or empty.", rich_help_panel=_FILES
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="An embedding that tells which samples are alike, npy or npz.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    captions: Annotated[
        Path | None,
        typer.Option(
            metavar="Z.npz",
            help="Features of captions; --texts are then theirs.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    caption_of: Annotated[
        Path | None,
        typer.Option(
            help="For each caption the number of its sample, npy. "
            "[dim]default: caption_of in the file of captions[/]",
            rich_help_panel=_FILES,
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where data sets lie. [dim]default: $NONNEG_DATA or ~/.cache/nonneg[/]"),
    ] = None,
) -> None:
    """Write the atlas: one HTML file with every feature, its samples, and how they fit together.

    It opens from disk in any browser and asks the network for nothing. Of a run it shows the test
    set, of a run on texts all of them with their labels and dates; of a file of features, whatever
    else is given. What cannot be shown is left out, and the
    page says why.

    Example: nonneg report runs/digits-ncl --against runs/digits-cl --out atlas.html

    Example: nonneg report Z.npz --texts texts.txt --labels labels.npy
    """
    # Imported on use: matplotlib is slow, and hardly any other command needs it.
    from nonneg.report.assembly import atlas

    console = Console()
    with console.status("reading") as status:
        written = atlas(
            source,
            out=out,
            against=against,
            other_seed=other_seed,
            split=split,
            data=data,
            data_dir=data_dir,
            texts=texts,
            labels=labels,
            class_names=class_names,
            images=images,
            ids=ids,
            dates=dates,
            reference=reference,
            captions=captions,
            caption_of=caption_of,
            title=title,
            max_samples=samples,
            figures=figures,
            watch=status.update,
        )
    for note in written.notes:
        console.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
    if figures is not None:
        names = ", ".join(file.name for file in written.figures) or "none could be drawn"
        console.print(f"figures in {figures}: {names}", highlight=False, soft_wrap=True)
    size = f"{written.n_bytes / 1e6:.1f} MB, {written.n_shown:,} samples"
    console.print(f"the atlas ({size}): {written.path}", highlight=False, soft_wrap=True)
