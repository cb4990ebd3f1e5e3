"""``nonneg evaluate``: the measurements of a run, as a table and in its folder."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from nonneg.settings import with_overrides
from nonneg.untrusted import for_terminal

if TYPE_CHECKING:
    from nonneg.evaluation.evaluation import Evaluation, Measured

# The section whose figures stand in three columns.
_SIDE_BY_SIDE = "beside_dense"
# Stated here too, so that the help needs none of the packages that measure; a test compares.
SECTIONS = (
    "properties",
    "hierarchy",
    "classification",
    "probe",
    "few_labels",
    "neighbours",
    "beside_dense",
    "sepin",
    "selection",
    "transfer",
    "robustness",
    "factors",
    "fine_tune",
)


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    only: Annotated[
        str | None,
        typer.Option(
            metavar="SECTIONS",
            help=f"Some sections, with commas: {', '.join(SECTIONS)}. "
            "[dim]default: all but fine_tune[/]",
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="test, or held-out: the samples to tune on.")] = "test",
    data: Annotated[
        str | None,
        typer.Option(help="Other data to measure on: a file of test samples, or a set."),
    ] = None,
    transfer_to: Annotated[
        str | None,
        typer.Option(
            help="Another set, which probes are tried on too. [dim]default: MNIST for "
            "Fashion-MNIST, CIFAR-100 for CIFAR-10, and back, where the files are there[/]"
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting of the evaluation; may be repeated.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where data sets lie. [dim]default: $NONNEG_DATA or ~/.cache/nonneg[/]"),
    ] = None,
) -> None:
    """Measure a run: readability, probes, neighbours, SEPIN, selection, transfer, robustness.

    Figures go into evaluation.json in the run's folder, section by section; what was measured
    earlier and is not asked for now stays. The ranking of the features goes into ranking.json.
    Figures of --split held-out have a file of their own, evaluation-held-out.json.

    Example: nonneg evaluate runs/fashion-mnist-ncl --only properties,probe
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.evaluation.evaluation import chosen_sections
    from nonneg.evaluation.subject import EvaluationSettings
    from nonneg.runs.evaluating import EVALUATION_FILES, evaluate_run

    # Under torchrun only the first process speaks.
    console = Console(quiet=os.environ.get("RANK", "0") != "0")
    settings = EvaluationSettings.read(with_overrides({}, set_ or []))
    names = chosen_sections(None if only is None else [n.strip() for n in only.split(",")])
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("evaluating", total=len(names))
        evaluation = evaluate_run(
            run,
            only=names,
            settings=settings,
            source=data,
            transfer_to=transfer_to,
            split=split,
            data_dir=data_dir,
            watch=lambda text: bar.update(task, description=for_terminal(text)),
            after=lambda _: bar.advance(task),
        )
    title, *listed = f"{run.name}, {split}", *(name for name in names if name != _SIDE_BY_SIDE)
    if any(name in evaluation.sections for name in listed):
        console.print(_table(evaluation, listed, title=title, width=console.width))
    for name in names:
        if name in evaluation.skipped:
            console.print(
                f"not measured: {name}: {evaluation.skipped[name]}",
                style="yellow",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
    compared = evaluation.sections.get(_SIDE_BY_SIDE)
    if compared and _SIDE_BY_SIDE in names:
        console.print(_side_by_side(compared, title=f"{title}: beside the vectors"))
        console.print(compared.sentence, highlight=False, markup=False)
    console.print(f"all figures: {run / EVALUATION_FILES[split]}", highlight=False, soft_wrap=True)


# On a terminal below this width long names of figures wrap, so that what stands beside them is not
# squeezed to a few letters.
_WIDE = 100
_BESIDE_WIDTH = 28


def _table(evaluation: "Evaluation", names: list[str], *, title: str, width: int) -> Table:
    from nonneg.metrics.figures import shown_kind

    table = Table(title=for_terminal(title), title_justify="left", box=SIMPLE_HEAD)
    is_wide = width >= _WIDE
    table.add_column("figure", no_wrap=is_wide)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("read against", style="dim", min_width=None if is_wide else _BESIDE_WIDTH)
    for name in names:
        section = evaluation.sections.get(name)
        if section:
            table.add_row(f"[bold]{name}[/]")
            for key, figure in section.figures.items():
                title = shown_kind(key, k=figure.beside.get("k")).title
                table.add_row(title, figure.text(), for_terminal(figure.beside_text()))
            table.add_section()
    return table


def _side_by_side(section: "Measured", *, title: str) -> Table:
    """Features, vectors and PCA in a column each; reasons for what is empty come last."""
    from nonneg.metrics.figures import BECAUSE, number_text, shown_kind

    figures = section.figures
    axes = next(iter(figures.values())).beside["pca_numbers"]
    table = Table(title=for_terminal(title), title_justify="left", box=SIMPLE_HEAD)
    table.add_column("figure")
    for name in ("features", "vectors", f"PCA of {axes}"):
        table.add_column(name, justify="right", no_wrap=True)
    for key, figure in figures.items():
        kind = shown_kind(key, k=figure.beside.get("k"))
        others = (figure.beside[name] for name in ("vectors", "pca"))
        cells = [number_text(other, is_rate=figure.is_rate) for other in others]
        table.add_row(kind.title if kind.is_rate else kind.heading, figure.text(), *cells)
    reasons = dict.fromkeys(str(f.beside[BECAUSE]) for f in figures.values() if BECAUSE in f.beside)
    if reasons:
        table.caption = for_terminal(f"–: {'; '.join(reasons)}")
        table.caption_justify = "left"
    return table
