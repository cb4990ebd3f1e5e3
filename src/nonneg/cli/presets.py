"""``nonneg presets``: what comes ready-made."""

from rich.console import Console
from rich.table import Table

from nonneg import experiments


def presets() -> None:
    """List the experiments that come ready-made.

    Example: nonneg presets
    """
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for preset in experiments.presets():
        _, experiment = experiments.read_experiment(preset.name)
        table.add_row(preset.name, f"{preset.about}\n[dim]{_facts(experiment)}[/]")
    console = Console(highlight=False)
    console.print(table)
    console.print("\nNAME trains NCL, NAME-cl ordinary contrastive learning with all else equal.")


def _facts(experiment: experiments.Experiment) -> str:
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
