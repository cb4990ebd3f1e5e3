"""The backbone of a fitted estimator: directions, exact at any size, and known by its settings."""

import math

import pytest
import torch
from torch import nn

from nonneg.backbones import BackboneSettings, Frozen, Projection, build, portable


def filled(seed=0):
    generator = torch.Generator().manual_seed(seed)
    projection = Projection(5, 3)
    projection.center.copy_(torch.randn(5, generator=generator))
    projection.axes.copy_(torch.randn(5, 3, generator=generator))
    return projection


def test_rows_are_those_of_plain_loops():
    projection = filled()
    vectors = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
    for row, found in zip(vectors.double(), projection(vectors), strict=True):
        placed = [
            sum((row[i] - projection.center[i]) * projection.axes[i, j] for i in range(5))
            for j in range(3)
        ]
        length = math.sqrt(sum(value**2 for value in placed))
        expected = [math.sqrt(3) * float(value) / length for value in placed]
        assert found.tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e30])
def test_the_length_is_the_same_for_vectors_of_any_size(size):
    projection = Projection(3, 2)
    projection.axes.copy_(torch.eye(3)[:, :2])
    found = projection(size * torch.tensor([[3.0, -4.0, 7.0]]))
    assert found[0].tolist() == pytest.approx([0.6 * math.sqrt(2), -0.8 * math.sqrt(2)])


def test_the_centre_has_no_direction():
    projection = filled()
    assert projection(projection.center[None]).tolist() == [[0.0, 0.0, 0.0]]


def test_it_is_built_from_its_settings():
    settings = BackboneSettings(name="projection", hidden=(3,))
    built = build(settings, (5,))
    assert isinstance(built, Projection)
    built.load_state_dict(filled().state_dict())
    vectors = torch.randn(4, 5)
    assert torch.equal(built(vectors), filled()(vectors))


@pytest.mark.parametrize("module", [filled(), Frozen(filled())])
def test_a_given_projection_is_portable(module):
    assert portable(None, module) == BackboneSettings(name="projection", hidden=(3,))


def test_a_module_of_ones_own_is_not():
    assert portable(None, nn.Linear(5, 3)) is None


def test_images_and_several_widths_are_refused():
    with pytest.raises(ValueError, match=r"'projection' needs vectors \(d,\), got .*\(1, 8, 8\)"):
        build(BackboneSettings(name="projection", hidden=(3,)), (1, 8, 8))
    with pytest.raises(ValueError, match=r"has one number of axes, got hidden=\(512, 512\)"):
        BackboneSettings(name="projection")
