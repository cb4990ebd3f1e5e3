"""The MLP against loops; the flattened samples themselves."""

import math

import pytest
import torch

from nonneg.backbones import MLP, Flatten


def vectors(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def seeded(*args, seed=0, **kwargs):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MLP(*args, **kwargs)


def linear(row, weight, bias):
    return [
        sum(w * x for w, x in zip(weights, row, strict=True)) + b
        for weights, b in zip(weight, bias, strict=True)
    ]


def layer_normalised(row):
    mean = sum(row) / len(row)
    spread = math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + 1e-5)
    return [(x - mean) / spread for x in row]


@pytest.mark.parametrize("norm", ["layer", "none"])
def test_equals_loops(norm):
    mlp = seeded(4, (5, 3), norm=norm)
    x = vectors(2, 4)
    parameters = list(mlp.parameters())
    step = 4 if norm == "layer" else 2
    expected = []
    for row in x.tolist():
        for i in range(0, len(parameters), step):
            row = linear(row, parameters[i].tolist(), parameters[i + 1].tolist())
            row = layer_normalised(row) if norm == "layer" else row
            row = [max(value, 0.0) for value in row]
        expected.append(row)
    torch.testing.assert_close(mlp(x), torch.tensor(expected))


def test_batch_norm_gives_columns_of_mean_zero_before_the_rectifier():
    mlp = seeded(4, (3,))
    seen = []
    mlp.layers[1].register_forward_hook(lambda _, __, out: seen.append(out.clone()))
    mlp(vectors(50, 4))
    torch.testing.assert_close(seen[0].mean(0), torch.zeros(3), rtol=0, atol=1e-6)
    torch.testing.assert_close(seen[0].var(0, correction=0), torch.ones(3), rtol=1e-3, atol=0)


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
def test_shape_hidden_size_and_gradients(norm):
    mlp = seeded(12, (8, 6), norm=norm)
    hidden = mlp(vectors(20, 3, 2, 2))
    assert hidden.shape == (20, 6)
    assert mlp.hidden_size == 6
    (hidden * vectors(20, 6, seed=1)).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in mlp.parameters())


def test_images_are_read_as_their_flattened_vectors():
    mlp = seeded(12, (8,), norm="layer")
    images = vectors(5, 3, 2, 2)
    assert torch.equal(mlp(images), mlp(images.reshape(5, 12)))


@pytest.mark.parametrize(("norm", "n_parameters"), [("batch", 48), ("layer", 52), ("none", 44)])
def test_parameter_counts(norm, n_parameters):
    assert sum(p.numel() for p in MLP(10, (4,), norm=norm).parameters()) == n_parameters


def test_signal_keeps_its_size_through_many_layers_without_norm():
    hidden = seeded(256, (256,) * 8, norm="none")(vectors(64, 256))
    assert 0.3 < hidden.square().mean().sqrt().item() < 3


def test_identity_gives_the_samples():
    images = vectors(5, 3, 2, 2)
    backbone = Flatten(12)
    assert backbone.hidden_size == 12
    assert torch.equal(backbone(images), images.reshape(5, 12))
    assert not list(backbone.parameters())


@pytest.mark.parametrize("backbone", [MLP(12, (4,)), Flatten(12)])
@pytest.mark.parametrize("shape", [(5, 11), (12,), (5, 3, 2, 3)])
def test_a_batch_of_the_wrong_shape_is_refused(backbone, shape):
    with pytest.raises(ValueError, match="needs samples of 12 numbers each, got a batch of shape"):
        backbone(torch.zeros(shape))


def test_unknown_norm_and_no_layers_are_refused():
    with pytest.raises(ValueError, match="unknown norm of an MLP 'group'; known: batch, layer"):
        MLP(3, (4,), norm="group")
    with pytest.raises(ValueError, match="at least one width"):
        MLP(3, ())
