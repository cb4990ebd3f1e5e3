import sys
import types

import pytest
from planted_parts import QUIET, config, encoder, noisy_pairs, planted

import nonneg
from nonneg.training.display import LOGGERS, log, loggers


def test_numbers_of_each_epoch_are_sent(monkeypatch, tmp_path):
    sent = []
    fake = types.SimpleNamespace(log_metrics=lambda numbers, step: sent.append((numbers, step)))
    monkeypatch.setitem(LOGGERS, "tensorboard", lambda folder: fake)
    made = loggers(("tensorboard",), tmp_path)
    log(made, {"epoch": 1, "step": 8, "loss": 0.5, "effective_rank": None, "warning": "x"})
    assert sent == [({"epoch": 1, "step": 8, "loss": 0.5}, 8)]


@pytest.mark.parametrize(
    ("name", "packages"),
    [("tensorboard", "tensorboard"), ("wandb", "wandb pytorch-lightning")],
)
def test_a_missing_package_is_named_and_nothing_is_begun(monkeypatch, tmp_path, name, packages):
    def missing(folder):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setitem(LOGGERS, name, missing)
    runs = config(loggers=(name,))
    with pytest.raises(ImportError, match=rf"install it with: pip install {packages}$"):
        nonneg.train(encoder(), planted(), noisy_pairs, runs, out=tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()


def test_tensorboard_writes_events(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    (made,) = loggers(("tensorboard",), tmp_path)
    log([made], {"step": 1, "loss": 0.5})
    made.finalize("success")
    assert list((tmp_path / "tensorboard").glob("events*"))


def test_wandb_is_used_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed")
    pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    (made,) = loggers(("wandb",), tmp_path)
    log([made], {"step": 1, "loss": 0.5})
    assert "wandb" in sys.modules
