"""``nonneg import-checkpoint``: a checkpoint of NCL's authors or of solo-learn as a run folder."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def import_checkpoint(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.ckpt", help="The checkpoint, as torch.save wrote it.")
    ],
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
    nonnegative: Annotated[
        str | None,
        typer.Option(
            help="The transform of the scores: rep_relu, relu, identity, … "
            "[dim]default: as args.json beside FILE says[/]"
        ),
    ] = None,
    pixels: Annotated[
        str | None,
        typer.Option(
            help="The set whose mean and deviation scale images: cifar10, cifar100, stl10, "
            "imagenet, imagenet100 or none. [dim]default: as args.json says[/]"
        ),
    ] = None,
    stem: Annotated[
        str | None,
        typer.Option(
            help="The first convolution: small, strided, large or authors. "
            "[dim]default: told by the weights[/]"
        ),
    ] = None,
) -> None:
    """Make a run folder of a checkpoint of NCL's authors, of solo-learn, or of a ResNet.

    Read are backbone.* and projector.* of a Lightning checkpoint, with the settings in args.json
    beside it, and the state dict of a ResNet in torchvision's names. The file is read without
    running anything in it; what is more than weights is refused. embed, evaluate and report then
    take the folder as they take any run.

    Example: nonneg import-checkpoint trained_models/simclr/ncl-ep=199.ckpt --out runs/authors

    Example: nonneg import-checkpoint resnet50.pth --pixels imagenet --out runs/resnet50
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.interchange.checkpoints import import_checkpoint as write_run

    console = Console()
    found = write_run(file, out, nonnegative=nonnegative, pixels=pixels, stem=stem)
    for note in found.notes:
        console.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
    settings = found.encoder.settings
    backbone = settings.backbone
    assert backbone is not None
    console.print(
        f"{backbone.name} with stem {backbone.stem}, {found.encoder.n_features:,} features, "
        f"transform {settings.nonnegative}: {out}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
