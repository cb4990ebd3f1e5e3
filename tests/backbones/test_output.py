"""The width of an unknown module is found without a trace."""

import pytest
import torch
from torch import Tensor, nn

from nonneg.backbones import MLP, ResNet, hidden_size


class Counting(nn.Module):
    """Counts its calls in two buffers, also in evaluation mode, and draws random numbers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("added_in_place", torch.zeros(()))
        self.register_buffer("set_anew", torch.zeros(()), persistent=False)
        self.modes = []

    def forward(self, samples: Tensor) -> Tensor:
        self.added_in_place += 1
        self.set_anew = self.set_anew + 1
        self.modes.append(self.training)
        return samples.flatten(1) + torch.rand(())


@pytest.mark.parametrize(
    ("module", "shape", "width"),
    [
        (nn.Linear(7, 5), (7,), 5),
        (nn.Flatten(), (3, 4, 5), 60),
        (ResNet("resnet10", width=2), (3, 8, 8), 16),
        (MLP(12, (9,)), (3, 2, 2), 9),
        (nn.Linear(7, 5).double(), (7,), 5),
    ],
)
def test_width(module, shape, width):
    assert hidden_size(module, shape) == width


def test_buffers_modes_and_generator_are_left_alone():
    module = nn.Sequential(nn.BatchNorm1d(4), Counting(), nn.Dropout())
    module.train()
    module[2].eval()
    state = torch.get_rng_state()
    assert hidden_size(module, (4,)) == 4
    assert module[1].modes == [False]
    assert [part.training for part in module] == [True, True, False]
    assert module[1].added_in_place == 0
    assert module[1].set_anew == 0
    assert module[0].num_batches_tracked == 0
    assert torch.equal(torch.get_rng_state(), state)


def test_modes_come_back_after_an_error():
    module = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(3, 3)).train()
    with pytest.raises(ValueError, match=r"Sequential cannot read a batch of shape \(2, 4\)"):
        hidden_size(module, (4,))
    assert module[0].training


def test_a_map_is_refused_with_its_shape():
    sentence = (
        r"Conv2d turns a batch of shape \(2, 3, 8, 8\) into \(2, 6, 8, 8\), "
        r"but a backbone has to give \(n, h\)"
    )
    with pytest.raises(ValueError, match=sentence):
        hidden_size(nn.Conv2d(3, 6, 3, padding=1), (3, 8, 8))


def test_another_type_is_refused_by_name():
    with pytest.raises(ValueError, match=r"GRU turns a batch of shape \(2, 3\) into tuple"):
        hidden_size(nn.GRU(3, 5), (3,))
