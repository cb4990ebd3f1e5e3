"""ResNets: parameter counts, torchvision's names, map sizes, initialisation, loading."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nonneg.backbones import ResNet


def images(n=4, channels=3, size=8, seed=0):
    return torch.rand(n, channels, size, size, generator=torch.Generator().manual_seed(seed))


def seeded(*args, seed=0, **kwargs):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ResNet(*args, **kwargs)


def norm_names(prefix):
    kinds = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    return [f"{prefix}.{kind}" for kind in kinds]


def torchvision_names(depths, n_convolutions, first_stage_has_shortcut):
    names = ["conv1.weight", *norm_names("bn1")]
    for stage, depth in enumerate(depths, start=1):
        for position in range(depth):
            block = f"layer{stage}.{position}"
            for number in range(1, n_convolutions + 1):
                names += [f"{block}.conv{number}.weight", *norm_names(f"{block}.bn{number}")]
            if position == 0 and (stage > 1 or first_stage_has_shortcut):
                names += [f"{block}.downsample.0.weight", *norm_names(f"{block}.downsample.1")]
    return names


@pytest.mark.parametrize(
    ("name", "n_parameters"),
    [("resnet18", 11_176_512), ("resnet34", 21_284_672), ("resnet50", 23_508_032)],
)
def test_parameter_counts_are_torchvisions_without_fc(name, n_parameters):
    with torch.device("meta"):
        backbone = ResNet(name, stem="large")
    assert sum(parameter.numel() for parameter in backbone.parameters()) == n_parameters


@pytest.mark.parametrize(
    ("name", "depths", "n_convolutions", "first_stage_has_shortcut"),
    [
        ("resnet10", (1, 1, 1, 1), 2, False),
        ("resnet18", (2, 2, 2, 2), 2, False),
        ("resnet34", (3, 4, 6, 3), 2, False),
        ("resnet50", (3, 4, 6, 3), 3, True),
    ],
)
def test_names_are_torchvisions(name, depths, n_convolutions, first_stage_has_shortcut):
    expected = torchvision_names(depths, n_convolutions, first_stage_has_shortcut)
    assert sorted(ResNet(name, width=2).state_dict()) == sorted(expected)


def test_some_names_and_shapes_written_out():
    with torch.device("meta"):
        state = ResNet("resnet18", stem="large").state_dict()
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["layer1.1.conv2.weight"].shape == (64, 64, 3, 3)
    assert state["layer2.0.downsample.0.weight"].shape == (128, 64, 1, 1)
    assert state["layer2.0.downsample.1.running_mean"].shape == (128,)
    assert state["layer4.1.bn2.bias"].shape == (512,)
    assert not any(name.startswith("fc") for name in state)


@pytest.mark.parametrize(
    ("name", "width", "hidden_size"),
    [("resnet10", 16, 128), ("resnet18", 4, 32), ("resnet34", 2, 16), ("resnet50", 4, 128)],
)
def test_output_is_one_nonnegative_row_a_sample(name, width, hidden_size):
    backbone = seeded(name, in_channels=1, width=width)
    hidden = backbone(images(channels=1))
    assert backbone.hidden_size == hidden_size
    assert hidden.shape == (4, hidden_size)
    assert (hidden >= 0).all()
    assert hidden.isfinite().all()


@pytest.mark.parametrize(
    ("stem", "size", "sizes"),
    [
        ("small", 32, [32, 32, 16, 8, 4]),
        ("small", 28, [28, 28, 14, 7, 4]),
        ("small", 8, [8, 8, 4, 2, 1]),
        ("authors", 32, [34, 34, 17, 9, 5]),
        ("large", 224, [112, 56, 28, 14, 7]),
    ],
)
def test_sizes_of_the_maps(stem, size, sizes):
    backbone = ResNet("resnet10", in_channels=1, width=1, stem=stem, norm="group")
    seen = []
    for part in ("conv1", "layer1", "layer2", "layer3", "layer4"):
        module = backbone.get_submodule(part)
        module.register_forward_hook(lambda _, __, maps: seen.append(maps.shape[-1]))
    backbone(torch.zeros(1, 1, size, size))
    assert seen == sizes


def written_out(images, state, kernel, stride, padding, max_pool):
    """ResNet-10 in evaluation mode as plain calls on named weights."""

    def norm(x, name):
        mean, variance = state[f"{name}.running_mean"], state[f"{name}.running_var"]
        return F.batch_norm(x, mean, variance, state[f"{name}.weight"], state[f"{name}.bias"])

    assert state["conv1.weight"].shape[-1] == kernel
    x = F.relu(norm(F.conv2d(images, state["conv1.weight"], None, stride, padding), "bn1"))
    x = F.max_pool2d(x, 3, 2, 1) if max_pool else x
    for stage, step in ((1, 1), (2, 2), (3, 2), (4, 2)):
        block = f"layer{stage}.0"
        inner = F.conv2d(x, state[f"{block}.conv1.weight"], None, step, 1)
        inner = F.relu(norm(inner, f"{block}.bn1"))
        inner = norm(F.conv2d(inner, state[f"{block}.conv2.weight"], None, 1, 1), f"{block}.bn2")
        if stage > 1:
            x = F.conv2d(x, state[f"{block}.downsample.0.weight"], None, step)
            x = norm(x, f"{block}.downsample.1")
        x = F.relu(inner + x)
    return x.sum((2, 3)) / (x.shape[2] * x.shape[3])


@pytest.mark.parametrize(
    ("stem", "kernel", "stride", "padding", "max_pool"),
    [("small", 3, 1, 1, False), ("large", 7, 2, 3, True), ("authors", 3, 1, 2, False)],
)
def test_the_whole_network_written_out(stem, kernel, stride, padding, max_pool):
    backbone = seeded("resnet10", width=4, stem=stem).double()
    batch = images(size=20).double()
    backbone(batch + 1)
    expected = written_out(batch, backbone.state_dict(), kernel, stride, padding, max_pool)
    torch.testing.assert_close(backbone.eval()(batch), expected)


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("name", ["resnet10", "resnet50"])
def test_gradients_reach_every_parameter(name, norm):
    backbone = seeded(name, width=8, norm=norm)
    hidden = backbone(images(n=8, size=16))
    weights = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(1))
    (hidden * weights).sum().backward()
    still = [n for n, p in backbone.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


def test_with_group_norm_a_sample_does_not_depend_on_its_batch():
    backbone = seeded("resnet10", width=8, norm="group")
    batch = images(n=6)
    other = torch.cat([batch[:1], images(n=5, seed=1)])
    together = backbone(batch)
    torch.testing.assert_close(backbone(other)[0], together[0], rtol=0, atol=0)
    torch.testing.assert_close(backbone(batch[:1])[0], together[0], rtol=1e-4, atol=1e-5)
    assert not list(backbone.buffers())


def test_with_batch_norm_it_does():
    backbone = seeded("resnet10", width=8)
    batch = images(n=6)
    other = torch.cat([batch[:1], images(n=5, seed=1)])
    assert not torch.allclose(backbone(batch)[0], backbone(other)[0], rtol=1e-3)


def test_group_norm_tells_samples_apart_on_a_one_pixel_map():
    hidden = seeded("resnet10", width=1, norm="group")(images(n=3))
    assert not torch.allclose(hidden[0], hidden[1])


def test_initialisation_is_he_normal_over_outputs():
    backbone = seeded("resnet10")
    weight = backbone.get_parameter("layer3.0.conv2.weight")
    assert weight.std().item() == pytest.approx(math.sqrt(2 / (9 * 256)), rel=0.02)
    shortcut = backbone.get_parameter("layer3.0.downsample.0.weight")
    assert shortcut.std().item() == pytest.approx(math.sqrt(2 / 256), rel=0.02)
    for module in backbone.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()


def test_same_seed_same_weights():
    first, second = (seeded("resnet10", width=4, seed=3).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = seeded("resnet10", width=4, seed=4).state_dict()
    assert not torch.equal(first["conv1.weight"], other["conv1.weight"])


def test_weights_have_channels_innermost_and_survive_saving_bit_by_bit():
    backbone = seeded("resnet10", width=4).eval()
    maps = [p for p in backbone.parameters() if p.ndim == 4]
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in maps)
    saved = {name: value.contiguous() for name, value in backbone.state_dict().items()}
    loaded = seeded("resnet10", width=4, seed=9).eval()
    loaded.load_state_dict(saved)
    assert torch.equal(loaded(images()), backbone(images()))


def test_torchvision_weights_load_and_fc_is_dropped():
    theirs = seeded("resnet18", width=4, stem="large", seed=5)
    theirs(images(size=32))
    weights = {**theirs.state_dict(), "fc.weight": torch.ones(10, 32), "fc.bias": torch.ones(10)}
    ours = seeded("resnet18", width=4, stem="large", seed=6)
    ours.load_torchvision(weights)
    assert torch.equal(ours.eval()(images(size=32)), theirs.eval()(images(size=32)))
    assert "fc.weight" in weights


@pytest.mark.parametrize(("name", "stages", "width"), [("resnet10", 1, 2), ("resnet50", 3, 32)])
def test_a_network_that_ends_earlier_gives_what_the_whole_one_has_there(name, stages, width):
    whole = seeded(name, width=2, seed=5).eval()
    seen = []
    whole.get_submodule(f"layer{stages}").register_forward_hook(lambda _, __, m: seen.append(m))
    whole(images())
    weights = {**whole.state_dict(), "fc.weight": torch.ones(10, 16)}
    ours = seeded(name, width=2, stages=stages, seed=6).eval()
    ours.load_torchvision(weights)
    assert ours.hidden_size == width
    assert torch.equal(ours(images()), seen[0].mean((2, 3)))
    assert not any(key.startswith(f"layer{stages + 1}") for key in ours.state_dict())


@pytest.mark.parametrize("stages", [0, 5])
def test_there_are_four_stages(stages):
    with pytest.raises(ValueError, match=f"a ResNet has 1 to 4 stages, got stages={stages}"):
        ResNet("resnet10", width=1, stages=stages)


def test_weights_without_batch_counters_load():
    theirs = seeded("resnet10", width=2, seed=5)
    weights = {n: t for n, t in theirs.state_dict().items() if "num_batches" not in n}
    ours = seeded("resnet10", width=2, seed=6)
    ours.load_torchvision(weights)
    assert torch.equal(ours.eval()(images()), theirs.eval()(images()))


def test_wrong_weights_are_named_and_nothing_is_loaded():
    ours = seeded("resnet10", width=2, seed=6)
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    weights = seeded("resnet10", width=2, stem="large", seed=5).state_dict()
    del weights["bn1.bias"]
    weights["layer9.weight"] = torch.zeros(1)
    with pytest.raises(ValueError, match="do not fit this ResNet") as caught:
        ours.load_torchvision(weights)
    message = str(caught.value)
    assert "missing: bn1.bias; unexpected: layer9.weight" in message
    assert "of other shape: conv1.weight (2, 3, 7, 7) for (2, 3, 3, 3)" in message
    assert all(torch.equal(value, before[name]) for name, value in ours.state_dict().items())


def test_many_wrong_names_are_counted():
    with pytest.raises(ValueError, match=r"unexpected: layer1.1.conv1.weight, .* and 43 more"):
        ResNet("resnet10", width=1).load_torchvision(ResNet("resnet18", width=1).state_dict())


@pytest.mark.parametrize("shape", [(4, 64), (4, 1, 8, 8), (3, 8, 8)])
def test_a_batch_of_the_wrong_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"needs images \(n, 3, h, w\), got a batch of shape"):
        ResNet("resnet10", width=1)(torch.zeros(shape))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "resnet99"}, "unknown ResNet 'resnet99'; known: resnet10, resnet18"),
        ({"stem": "tiny"}, "unknown stem 'tiny'; known: small, strided, large, authors"),
        ({"norm": "layer"}, "unknown norm of a ResNet 'layer'; known: batch, group"),
    ],
)
def test_unknown_words_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ResNet(**settings)
