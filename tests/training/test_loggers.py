import sys
import types

import pytest

from nonneg.training.loggers import LOGGERS, log, loggers


def test_numbers_of_each_epoch_are_sent(monkeypatch, tmp_path):
    sent = []
    fake = types.SimpleNamespace(log_metrics=lambda numbers, step: sent.append((numbers, step)))
    monkeypatch.setitem(LOGGERS, "tensorboard", lambda folder: fake)
    made = loggers(("tensorboard",), tmp_path)
    log(made, {"epoch": 1, "step": 8, "loss": 0.5, "effective_rank": None, "warning": "x"})
    assert sent == [({"epoch": 1, "step": 8, "loss": 0.5}, 8)]


@pytest.mark.parametrize(
    ("name", "module"),
    [("tensorboard", "lightning_fabric.loggers.tensorboard"), ("wandb", "wandb")],
)
def test_a_missing_package_is_named(monkeypatch, tmp_path, name, module):
    def missing(folder):
        raise ImportError(f"No module named {module!r}")

    monkeypatch.setitem(LOGGERS, name, missing)
    with pytest.raises(ImportError, match=rf"install it with: pip install {name}$"):
        loggers((name,), tmp_path)


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
