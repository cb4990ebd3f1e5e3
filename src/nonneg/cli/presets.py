"""``nonneg presets``: what comes ready-made."""

from rich.console import Console
from rich.table import Table

from nonneg import experiments


def presets() -> None:
    """List the experiments that come ready-made.

    Example: nonneg presets
    """
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("preset", "data", "backbone", "features", "T", "epochs", "about"):
        table.add_column(column)
    for preset in experiments.presets():
        _, experiment = experiments.read_experiment(preset.name)
        backbone = experiment.encoder.backbone
        table.add_row(
            preset.name,
            experiment.data.name,
            "" if backbone is None else f"{backbone.name} × {backbone.width}",
            str(experiment.encoder.projector.n_features),
            f"{experiment.loss.temperature:g}",
            str(experiment.training.epochs),
            preset.about,
        )
    console = Console()
    console.print(table)
    console.print(
        "\nNAME trains NCL, NAME-cl ordinary contrastive learning with all else equal.",
        highlight=False,
    )
