import pytest
import torch

from nonneg.inference import chosen_device


def set_accelerators(monkeypatch, found, n_devices):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: n_devices > 0)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device(found))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: n_devices)


def set_old_torch(monkeypatch, found, n_devices):
    monkeypatch.delattr(torch, "accelerator")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found == "cuda" and n_devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_devices)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: found == "mps")


@pytest.mark.parametrize("set_up", [set_accelerators, set_old_torch])
def test_auto_is_the_accelerator_with_new_and_with_old_versions_of_torch(monkeypatch, set_up):
    set_up(monkeypatch, "cuda", 2)
    assert chosen_device() == chosen_device("cuda") == torch.device("cuda")
    assert chosen_device("cuda:1").index == 1
    assert chosen_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match=r"'cuda:2' was .* sees 2 CUDA devices; use device='auto'"):
        chosen_device("cuda:2")
    with pytest.raises(ValueError, match="sees no MPS device;"):
        chosen_device("mps")


@pytest.mark.parametrize("set_up", [set_accelerators, set_old_torch])
def test_auto_is_the_cpu_without_an_accelerator(monkeypatch, set_up):
    set_up(monkeypatch, "cuda", 0)
    assert chosen_device("auto") == torch.device("cpu")
    with pytest.raises(ValueError, match="sees no CUDA device;"):
        chosen_device("cuda")


@pytest.mark.parametrize("set_up", [set_accelerators, set_old_torch])
def test_apples_accelerator(monkeypatch, set_up):
    set_up(monkeypatch, "mps", 1)
    assert chosen_device("auto") == chosen_device("mps") == torch.device("mps")


def test_an_unknown_name():
    with pytest.raises(ValueError, match="unknown device 'gpu9'; use auto, cpu, cuda"):
        chosen_device("gpu9")
