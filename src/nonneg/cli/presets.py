"""``nonneg presets``: what comes ready-made, and what can be set."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from nonneg import runs
from nonneg.settings import explained


def presets(
    name: Annotated[
        str | None, typer.Argument(help="A preset or a .toml file, to see all its settings.")
    ] = None,
) -> None:
    """List the experiments that come ready-made, or every setting of one with what it means.

    Example: nonneg presets

    Example: nonneg presets fashion-mnist
    """
    console = Console(highlight=False)
    if name is None:
        _list(console)
    else:
        _, experiment = runs.read_experiment(name)
        _explain(console, experiment)


def _list(console: Console) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for preset in runs.presets():
        _, experiment = runs.read_experiment(preset.name)
        table.add_row(preset.name, f"{preset.about}\n[dim]{_facts(experiment)}[/]")
    console.print(table)
    console.print("\nNAME trains NCL, NAME-cl ordinary contrastive learning with all else equal.")
    console.print("nonneg presets NAME shows every setting of one, and what it means.")


def _explain(console: Console, experiment: runs.Experiment) -> None:
    for key, value, meaning in explained(experiment):
        console.print(f"[bold]{key}[/] = {escape(_shown(value))}", soft_wrap=True)
        console.print(Padding(f"[dim]{escape(meaning)}[/]", (0, 0, 0, 4)))
    console.print("\nChange any of them with --set KEY=VALUE, or in a .toml file of your own.")


def _shown(value: Any) -> str:  # noqa: ANN401
    """As it would be written after ``--set KEY=``, or that it is absent."""
    if value is None:
        return "absent"
    return value if isinstance(value, str) else json.dumps(value)


def _facts(experiment: runs.Experiment) -> str:
    backbone = experiment.encoder.backbone
    assert backbone is not None
    return " · ".join(
        [
            f"{backbone.name} of width {backbone.width}",
            f"{experiment.encoder.projector.n_features} features",
            experiment.encoder.nonnegative,
            f"T {experiment.loss.temperature:g}",
            f"{experiment.training.epochs} epochs",
        ]
    )
