"""Residual blocks against loops, and the groups of group norm."""

import math

import numpy as np
import pytest
import torch

from nonneg.backbones.resnet import BasicBlock, Bottleneck, group_norm


def convolved(x, weight, stride, padding):
    n, _, height, width = x.shape
    out_channels, in_channels, kernel, _ = weight.shape
    padded = np.zeros((n, in_channels, height + 2 * padding, width + 2 * padding))
    padded[:, :, padding : padding + height, padding : padding + width] = x
    rows = (height + 2 * padding - kernel) // stride + 1
    columns = (width + 2 * padding - kernel) // stride + 1
    out = np.zeros((n, out_channels, rows, columns))
    for i in range(n):
        for o in range(out_channels):
            for r in range(rows):
                for c in range(columns):
                    top, left = r * stride, c * stride
                    patch = padded[i, :, top : top + kernel, left : left + kernel]
                    out[i, o, r, c] = (patch * weight[o]).sum()
    return out


def normalised(x, scale, shift):
    out = np.empty_like(x)
    for channel in range(x.shape[1]):
        values = x[:, channel]
        spread = math.sqrt(((values - values.mean()) ** 2).mean() + 1e-5)
        out[:, channel] = (values - values.mean()) / spread * scale[channel] + shift[channel]
    return out


def with_random_norms(block):
    generator = torch.Generator().manual_seed(1)
    for name, parameter in block.named_parameters():
        if parameter.ndim == 1:
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.data = noise + (1 if name.endswith("weight") else 0)
    return block


def arrays(block):
    return {name: value.detach().numpy() for name, value in block.double().named_parameters()}


def layer(x, p, number, stride, padding):
    x = convolved(x, p[f"conv{number}.weight"], stride, padding)
    return normalised(x, p[f"bn{number}.weight"], p[f"bn{number}.bias"])


def shortcut(x, p, stride):
    if "downsample.0.weight" not in p:
        return x
    x = convolved(x, p["downsample.0.weight"], stride, 0)
    return normalised(x, p["downsample.1.weight"], p["downsample.1.bias"])


def images(channels):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, channels, 5, 5, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("in_channels", "stride"), [(3, 1), (3, 2), (2, 2)])
def test_basic_block_equals_loops(in_channels, stride):
    block = with_random_norms(BasicBlock(in_channels, 3, stride=stride, norm="batch").double())
    x, p = images(in_channels), arrays(block)
    inner = np.maximum(layer(x.numpy(), p, 1, stride, 1), 0)
    expected = np.maximum(layer(inner, p, 2, 1, 1) + shortcut(x.numpy(), p, stride), 0)
    np.testing.assert_allclose(block(x).detach().numpy(), expected, atol=1e-10)


@pytest.mark.parametrize(("in_channels", "stride"), [(8, 1), (3, 1), (8, 2)])
def test_bottleneck_equals_loops(in_channels, stride):
    block = with_random_norms(Bottleneck(in_channels, 2, stride=stride, norm="batch").double())
    x, p = images(in_channels), arrays(block)
    inner = np.maximum(layer(x.numpy(), p, 1, 1, 0), 0)
    inner = np.maximum(layer(inner, p, 2, stride, 1), 0)
    expected = np.maximum(layer(inner, p, 3, 1, 0) + shortcut(x.numpy(), p, stride), 0)
    np.testing.assert_allclose(block(x).detach().numpy(), expected, atol=1e-10)


def test_the_input_of_a_block_is_left_as_it_was():
    x = images(3)
    before = x.clone()
    BasicBlock(3, 3, stride=1, norm="batch").double()(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("channels", range(1, 130))
def test_groups_divide_the_channels_and_are_never_single_channels(channels):
    groups = group_norm(channels).num_groups
    assert channels % groups == 0
    assert groups <= 32
    assert groups == 1 or channels // groups >= 8
