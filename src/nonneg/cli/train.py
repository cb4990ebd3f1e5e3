"""``nonneg train``: from a preset to a run folder."""

import os
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def train(
    preset: Annotated[
        str, typer.Argument(help="A preset (see [bold]nonneg presets[/]) or a .toml file.")
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The run folder. [dim]default: runs/PRESET-METHOD, with -seedN for a seed above "
            "0: runs/digits-ncl, runs/digits-cl-seed1[/]"
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was interrupted.")
    ] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where data sets lie. [dim]default: $NONNEG_DATA or ~/.cache/nonneg[/]"),
    ] = None,
) -> None:
    """Train an encoder, watch it, and leave it in a run folder.

    NAME trains NCL and NAME-cl ordinary contrastive learning, all else equal. A run that is
    finished is not trained again; one with other settings is never written over.

    Example: nonneg train fashion-mnist --set loss.temperature=0.1 --set seed=1
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.runs.experiment import read_experiment, run_experiment

    # Of several processes only the first speaks; torchrun says RANK, training.devices LOCAL_RANK.
    rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK", "0")
    console = Console(quiet=rank != "0")
    name, experiment = read_experiment(preset, set_ or [])
    result = run_experiment(
        experiment,
        out=out or Path("runs") / name,
        data_dir=data_dir,
        resume=resume,
        console=console,
    )
    if result.interrupted_by:
        console.print(
            f"stopped by {result.interrupted_by}; saved. "
            "Continue with the same command and --resume",
            soft_wrap=True,
        )
        raise typer.Exit(128 + signal.Signals[result.interrupted_by])
    what = "encoder, settings and history" if result.is_new else "already done"
    console.print(f"{what}: {result.folder}", highlight=False, soft_wrap=True)
