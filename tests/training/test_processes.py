"""Two processes with half a batch each train the same encoder as one process with the whole."""

import subprocess
import sys

import pytest
import torch

from nonneg import Encoder, info_nce
from nonneg.losses import gathered
from nonneg.training import read_history

# Norms without batch statistics, and float64: what is left is the loss and its gathering.
SETTINGS = [
    "encoder.backbone.width=8",
    "encoder.backbone.norm=group",
    "encoder.projector.norm=layer",
    "encoder.projector.n_features=32",
    "training.epochs=3",
    "training.warmup_epochs=1",
    "training.accelerator=cpu",
    "training.precision=64-true",
]


def command(out):
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    return ["-m", "nonneg", "train", "digits", *settings, "--out", str(out)]


@pytest.mark.skipif(
    not torch.distributed.is_gloo_available(), reason="torch was built without gloo"
)
def test_two_processes_train_as_one(tmp_path):
    alone = subprocess.run(
        [sys.executable, *command(tmp_path / "one")], capture_output=True, text=True, timeout=300
    )
    assert alone.returncode == 0, alone.stderr
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    together = subprocess.run(
        [*torchrun, "--standalone", *command(tmp_path / "two")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert together.returncode == 0, together.stderr
    assert together.stdout.count("epoch   3/3") == 1  # only the first process speaks
    one, two = read_history(tmp_path / "one"), read_history(tmp_path / "two")
    for ours, theirs in zip(one, two, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-10)
    first, second = Encoder.load(tmp_path / "one"), Encoder.load(tmp_path / "two")
    for ours, theirs in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)


def test_one_process_gathers_itself():
    z = torch.rand(4, 3, requires_grad=True)
    assert torch.equal(gathered(z)[0], z)
    view_a, view_b = gathered(z).chunk(2, dim=1)
    info_nce(view_a.flatten(0, 1), view_b.flatten(0, 1), temperature=0.2).backward()
    assert z.grad is not None
