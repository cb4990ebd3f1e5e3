"""The presets of full size take a few steps on a small folder, by the command for their tables."""

import pytest
from PIL import Image
from typer.testing import CliRunner

from nonneg.cli.main import app

FEW = (
    "data.image_size=16",
    "data.held_out=4",
    "training.epochs=1",
    "training.batch_size=8",
    "training.warmup_epochs=0.5",
    "training.n_workers=0",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three classes of one colour each, in two splits."""
    root = tmp_path_factory.mktemp("images")
    for split, n in (("train", 12), ("val", 8)):
        for kind, colour in enumerate(("red", "green", "blue")):
            place = root / split / colour
            place.mkdir(parents=True)
            for number in range(n):
                shade = [0, 0, 0]
                shade[kind] = 120 + 10 * number
                Image.new("RGB", (20, 18), tuple(shade)).save(place / f"{number}.png")
    return root


@pytest.mark.parametrize("preset", ["cifar10", "cifar100", "imagenet100"])
def test_the_same_command_serves_the_large_presets(preset, folder, tmp_path):
    # One of them with the width that it has.
    width = () if preset == "imagenet100" else ("encoder.backbone.width=8",)
    changes = [f"data.name={folder}", *FEW, *width]
    changes = [part for change in changes for part in ("--set", change)]
    places = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "results")]
    result = CliRunner().invoke(
        app, ["reproduce", "properties", "--preset", preset, "--seeds", "1", *changes, *places]
    )
    assert result.exit_code == 0, result.output
    table = (tmp_path / "results" / f"properties-{preset}.md").read_text()
    assert "| CL | NCL |" in table
    sparsity = next(line for line in table.splitlines() if line.startswith("| sparsity, %"))
    cl, ncl = (cell.split()[0] for cell in sparsity.strip("| ").split(" | ")[1:])
    assert float(cl) < 5 < float(ncl)
