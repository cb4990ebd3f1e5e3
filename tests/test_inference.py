import pytest
import torch

from nonneg.inference import chosen_device, evaluating_on, evaluation_mode


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


class Counted(torch.nn.Linear):
    """Counts how often something is set."""

    def __setattr__(self, name, value):
        self.__dict__["n_set"] = self.__dict__.get("n_set", 0) + 1
        super().__setattr__(name, value)


def test_evaluation_mode_leaves_a_module_alone_that_is_in_it():
    """So that threads may share it."""
    module = Counted(2, 2).eval()
    before = module.n_set
    with evaluating_on(module, torch.device("cpu")):
        assert not module.training
    assert module.n_set == before


def test_evaluation_mode_gives_each_part_its_own_mode_back():
    still = torch.nn.Linear(2, 2).eval()
    whole = torch.nn.Sequential(torch.nn.Linear(2, 2), still).train()
    still.eval()
    with evaluation_mode(whole):
        assert not any(part.training for part in whole.modules())
        still.train()  # as a module's own forward may do
    assert [part.training for part in whole.modules()] == [True, True, False]


def test_a_module_is_moved_and_comes_back_even_after_an_error():
    places = []

    class Movable(torch.nn.Linear):
        def to(self, device):
            places.append(str(device))
            return self

        def cpu(self):
            places.append("cpu")
            return self

    with pytest.raises(ZeroDivisionError), evaluating_on(Movable(2, 2), torch.device("meta")):
        raise ZeroDivisionError
    assert places == ["meta", "cpu"]
