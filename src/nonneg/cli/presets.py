"""``nonneg presets``: what comes ready-made, and what can be set."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from nonneg.presets import presets as all_presets
from nonneg.untrusted import for_terminal

if TYPE_CHECKING:
    from nonneg.runs.experiment import Experiment


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
        # Imported on use: what the settings mean stands beside the code that they set.
        from nonneg.runs.experiment import read_experiment

        _explain(console, read_experiment(name)[1])


def _list(console: Console) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for preset in all_presets():
        table.add_row(preset.name, f"{preset.about}\n[dim]{preset.facts}[/]")
    console.print(table)
    console.print("\nNAME trains NCL, NAME-cl ordinary contrastive learning with all else equal.")
    console.print("nonneg presets NAME shows every setting of one, and what it means.")


def _explain(console: Console, experiment: "Experiment") -> None:
    from nonneg.settings import explained

    for key, value, meaning in explained(experiment):
        console.print(f"[bold]{key}[/] = {for_terminal(_shown(value))}", soft_wrap=True)
        console.print(Padding(f"[dim]{for_terminal(meaning)}[/]", (0, 0, 0, 4)))
    console.print("\nChange any of them with --set KEY=VALUE, or in a .toml file of your own.")


def _shown(value: Any) -> str:  # noqa: ANN401
    """As it would be written after ``--set KEY=``, or that it is absent."""
    if value is None:
        return "absent"
    return value if isinstance(value, str) else json.dumps(value)
