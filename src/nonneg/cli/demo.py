"""``nonneg demo``: CL and NCL on embedded images, or features of embedded texts, in a minute."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from nonneg.metrics.figures import Figure, Figures

_ROWS = (
    "sparsity",
    "alive_rate",
    "class_consistency_min20",
    "top20_purity",
    "knn_features",
    "probe_hidden",
)


def demo(
    out: Annotated[Path, typer.Option(help="Where runs, table, picture and atlas go.")] = Path(
        "demo"
    ),
    texts: Annotated[
        bool, typer.Option("--texts", help="Show 3,000 requests of CLINC150 instead of images.")
    ] = False,
) -> None:
    """Train CL and NCL on scikit-learn's digits with the same seed, compare them, show them.

    With --texts: features of requests to an assistant, named by their words, and their atlas. Runs
    that are already there are not trained again.

    Example: nonneg demo --out demo

    Example: nonneg demo --texts
    """
    # Imported on use: the help of the command needs none of this.
    import torch

    from nonneg.cli.fit import write_outputs
    from nonneg.report.demo import run_demo, run_text_demo

    console = Console()
    if texts:
        with console.status("learning features of 3,000 requests"):
            run = run_text_demo(out)
        write_outputs(console, run)
        return
    # Images of 8×8 pixels gain nothing from a second thread, and lose much on a busy machine.
    torch.set_num_threads(1)
    figures = run_demo(out, console=console)
    console.print(_table(figures))
    console.print(
        f"the strongest samples of the main features: {out / 'features.png'}", soft_wrap=True
    )
    console.print(f"all features, in a browser: {out / 'atlas.html'}", soft_wrap=True)


def _table(figures: "dict[str, Figures]") -> Table:
    from nonneg.metrics.figures import number_text, shown_kind

    table = Table(title="digits, test set", title_justify="left")
    table.add_column("")
    for method in figures:
        table.add_column(method, justify="right")
    for key in _ROWS:
        cells = [found[key] for found in figures.values()]
        title = shown_kind(key, k=cells[0].beside.get("k")).title
        table.add_row(title, *(_text(cell) for cell in cells))
        for name, words in (("null", "by chance"), ("n_features", "features measured")):
            if any(name in cell.beside for cell in cells):
                values = (number_text(cell.beside.get(name)) for cell in cells)
                table.add_row(f"  {words}", *values, style="dim")
    return table


def _text(figure: "Figure") -> str:
    n_alive = figure.beside.get("n_alive")
    return figure.text() if n_alive is None else f"{n_alive} ({figure.text()})"
