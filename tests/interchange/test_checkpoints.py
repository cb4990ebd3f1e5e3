"""Checkpoints of NCL's authors, of solo-learn and of torchvision against networks written out."""

import io
import json
import math
import os
import pickle
import zipfile

import pytest
import torch
from torch import nn
from torch.nn.functional import relu

from nonneg import Encoder
from nonneg.interchange.checkpoints import import_checkpoint, imported_encoder
from nonneg.runs.record import read_run


class Basic(nn.Module):
    """Two 3×3 convolutions beside a shortcut."""

    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.downsample = shortcut(n_in, n_out, stride)

    def forward(self, x):
        inner = self.bn2(self.conv2(relu(self.bn1(self.conv1(x)))))
        return relu(inner + (x if self.downsample is None else self.downsample(x)))


class Deep(nn.Module):
    """1×1, 3×3 and 1×1 convolutions beside a shortcut."""

    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.conv3 = nn.Conv2d(n_out, 4 * n_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * n_out)
        self.downsample = shortcut(n_in, 4 * n_out, stride)

    def forward(self, x):
        inner = relu(self.bn2(self.conv2(relu(self.bn1(self.conv1(x))))))
        inner = self.bn3(self.conv3(inner))
        return relu(inner + (x if self.downsample is None else self.downsample(x)))


def shortcut(n_in, n_out, stride):
    if stride == 1 and n_in == n_out:
        return None
    return nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))


class Network(nn.Module):
    """A residual network as the authors of NCL have it: written from its description, not ours."""

    def __init__(self, block, depths, width=64, *, cifar=True, n_classes=0):
        super().__init__()
        expansion = 4 if block is Deep else 1
        stem = (3, 1, 2) if cifar else (7, 2, 3)
        self.conv1 = nn.Conv2d(3, width, *stem, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.Identity() if cifar else nn.MaxPool2d(3, 2, 1)
        n_in = width
        for stage, depth in enumerate(depths):
            n_out = width * 2**stage
            blocks = []
            for place in range(depth):
                blocks.append(block(n_in, n_out, 2 if stage and not place else 1))
                n_in = n_out * expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(n_in, n_classes) if n_classes else nn.Identity()
        self.width = n_in

    def forward(self, x):
        x = self.maxpool(relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean(dim=(2, 3)))


class Method(nn.Module):
    """Backbone, projector and the online classifier beside them."""

    def __init__(self, backbone, projector):
        super().__init__()
        self.backbone, self.projector = backbone, projector
        self.classifier = nn.Linear(backbone.width, 10)


def simclr(n_in, n_hidden, n_out):
    return nn.Sequential(nn.Linear(n_in, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_out))


def trained(network, seed=0):
    """In evaluation mode, statistics and scales away from where they start."""
    generator = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            for tensor in (module.weight.data, module.running_var):
                tensor.uniform_(0.5, 1.5, generator=generator)
            for tensor in (module.bias.data, module.running_mean):
                tensor.normal_(0, 0.2, generator=generator)
    return network.eval()


def images(n=6, size=32):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (n, 3, size, size), generator=generator, dtype=torch.uint8)


CIFAR100 = ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
SETTINGS = {
    "method": "simclr",
    "backbone": {"name": "resnet18"},
    "method_kwargs": {"proj_hidden_dim": 2048, "non_neg": "rep_relu", "temperature": 0.2},
    "data": {"dataset": "cifar100"},
    "seed": 5,
}


def scaled(pixels, mean=CIFAR100[0], std=CIFAR100[1]):
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (mean, std))
    return (pixels / 255 - mean) / std


def lightning(weights):
    """A checkpoint as Lightning writes it."""
    return {
        "epoch": 199,
        "global_step": 39000,
        "pytorch-lightning_version": "1.6.4",
        "state_dict": weights,
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 200}}}},
        "optimizer_states": [{"state": {0: {"momentum_buffer": torch.ones(3)}}}],
        "lr_schedulers": [{"_last_lr": [0.4, 0.1], "last_epoch": 200}],
    }


@pytest.fixture(scope="module")
def small():
    """The authors' method, narrow enough for many tests."""
    torch.manual_seed(0)
    backbone = Network(Basic, (2, 2, 2, 2), width=4)
    return trained(Method(backbone, simclr(32, 24, 16)))


@pytest.fixture
def checkpoint(small, tmp_path):
    path = tmp_path / "trained" / "ncl-ep=199.ckpt"
    path.parent.mkdir()
    torch.save(lightning(small.state_dict()), path)
    (path.parent / "args.json").write_text(json.dumps(SETTINGS))
    return path


def close(first, second):
    torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_network_of_the_authors(tmp_path):
    """ResNet-18 of full width, 512-2048-256 without normalisation, rectified."""
    torch.manual_seed(0)
    method = trained(Method(Network(Basic, (2, 2, 2, 2)), simclr(512, 2048, 256)))
    torch.save(lightning(method.state_dict()), tmp_path / "ncl.ckpt")
    (tmp_path / "args.json").write_text(json.dumps(SETTINGS))
    pixels = images(3)
    found = imported_encoder(tmp_path / "ncl.ckpt").encoder.encode(pixels)
    hidden = method.backbone(scaled(pixels))
    close(found.hidden, hidden)
    close(found.scores, method.projector(hidden))
    close(found.features, relu(method.projector(hidden)))
    assert 0.1 < (found.features > 0).float().mean() < 0.9


@torch.no_grad()
def test_a_run_folder_that_commands_take(small, checkpoint, tmp_path):
    out = tmp_path / "run"
    imported = import_checkpoint(checkpoint, out)
    assert imported.notes == ("left out, with their number of tensors: classifier (2)",)
    pixels = images()
    expected = relu(small.projector(small.backbone(scaled(pixels))))
    close(Encoder.load(out).encode(pixels).features, expected)
    run = read_run(out)
    assert (run.method, run.seed) == ("NCL", 5)
    assert run.settings["loss"] == {"name": "info_nce", "temperature": 0.2}
    assert run.settings["checkpoint"] == {"name": checkpoint.name, "digest": imported.digest}
    assert imported.encoder.settings.backbone.stem == "authors"
    whole = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(FileExistsError, match="holds a run with other settings"):
        import_checkpoint(checkpoint, out, nonnegative="identity")
    for left in ([], ["config.json"], ["config.json", "model.safetensors"]):  # by a kill
        for name in left:
            (out / name).unlink()
        import_checkpoint(checkpoint, out)
        assert {path.name: path.read_bytes() for path in out.iterdir()} == whole


@torch.no_grad()
def test_settings_inside_the_checkpoint(small, tmp_path):
    whole = lightning(small.state_dict()) | {"hyper_parameters": SETTINGS}
    torch.save(whole, tmp_path / "a.ckpt")
    found = imported_encoder(tmp_path / "a.ckpt")
    assert found.encoder.settings.nonnegative == "rep_relu"
    assert found.encoder.settings.pixel_mean == CIFAR100[0]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (None, "identity"), ("None", "identity"), ("relu", "relu"), ("leakyrelu", "leaky_relu"),
        ("softplus", "softplus"), ("exp", "exp"), ("gelu", "gelu"), ("sigmoid", "sigmoid"),
    ],
)  # fmt: skip
def test_every_transform_of_the_authors(checkpoint, said, expected):
    settings = SETTINGS | {"method_kwargs": {"non_neg": said}}
    (checkpoint.parent / "args.json").write_text(json.dumps(settings))
    assert imported_encoder(checkpoint).encoder.settings.nonnegative == expected


@torch.no_grad()
def test_solo_learn_of_today_and_of_before_2022(small, tmp_path):
    """Without non_neg it is contrastive learning; encoder.* was the name of the backbone."""
    weights = {n.replace("backbone.", "encoder."): t for n, t in small.state_dict().items()}
    weights["queue"] = torch.zeros(2, 3)
    torch.save({"state_dict": weights}, tmp_path / "old.ckpt")
    (tmp_path / "args.json").write_text(json.dumps({"method": "simclr", "dataset": "cifar10"}))
    found = imported_encoder(tmp_path / "old.ckpt")
    assert found.notes == ("left out, with their number of tensors: classifier (2), queue (1)",)
    assert not found.encoder.is_nonnegative
    of_cifar10 = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
    hidden = small.backbone(scaled(images(), *of_cifar10))
    close(found.encoder.encode(images()).features, small.projector(hidden))


@torch.no_grad()
def test_a_projector_with_batch_normalisation(tmp_path):
    """As in Barlow Twins and BYOL; a linear map without bias before it."""
    torch.manual_seed(0)
    projector = nn.Sequential(
        nn.Linear(32, 20, bias=False), nn.BatchNorm1d(20), nn.ReLU(),
        nn.Linear(20, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 9),
    )  # fmt: skip
    method = trained(Method(Network(Basic, (2, 2, 2, 2), width=4), projector))
    torch.save(lightning(method.state_dict()), tmp_path / "barlow.ckpt")
    found = imported_encoder(tmp_path / "barlow.ckpt", pixels="none", nonnegative="identity")
    hidden = method.backbone(images() / 255)
    close(found.encoder.encode(images()).features, method.projector(hidden))


@torch.no_grad()
@pytest.mark.parametrize(
    ("block", "depths", "name"),
    [(Basic, (2, 2, 2, 2), "resnet18"), (Basic, (3, 4, 6, 3), "resnet34"),
     (Deep, (3, 4, 6, 3), "resnet50")],
)  # fmt: skip
def test_resnets_of_torchvision(tmp_path, block, depths, name):
    torch.manual_seed(0)
    network = trained(Network(block, depths, width=8, cifar=False, n_classes=7))
    torch.save(network.state_dict(), tmp_path / "resnet.pth")
    found = imported_encoder(tmp_path / "resnet.pth", pixels="imagenet")
    assert found.encoder.settings.backbone.name == name
    assert found.notes == (
        "left out, with their number of tensors: fc (2)",
        "there is no projector: the features are the backbone's output",
    )
    network.fc = nn.Identity()
    pixels = images(2, size=64)
    hidden = network(scaled(pixels, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    encoded = found.encoder.encode(pixels)
    close(encoded.hidden, hidden)
    assert torch.equal(encoded.features, encoded.hidden)


def test_other_precisions(small, tmp_path):
    for dtype in (torch.float16, torch.float64):
        weights = {
            n: t.to(dtype) if t.is_floating_point() else t for n, t in small.state_dict().items()
        }
        torch.save({"state_dict": weights}, tmp_path / "a.ckpt")
        found = imported_encoder(tmp_path / "a.ckpt", pixels="none", nonnegative="relu").encoder
        kept = torch.float64 if dtype is torch.float64 else torch.float32
        assert {p.dtype for p in found.parameters()} == {kept}
        assert torch.equal(found.projector[0].weight, small.projector[0].weight.to(dtype).to(kept))


def test_torch_draws_on_as_before(checkpoint):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    imported_encoder(checkpoint)
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.parametrize(
    ("told", "loss", "seed"),
    [
        ({"method": "byol"}, {"name": "unknown"}, 5),
        ({"method_kwargs": {"non_neg": None, "temperature": "hot"}}, {"name": "unknown"}, 5),
        ({"method_kwargs": {"non_neg": None, "temperature": math.nan}}, {"name": "unknown"}, 5),
        ({"seed": "5"}, {"name": "info_nce", "temperature": 0.2}, None),
    ],
)
def test_only_what_is_told_is_recorded(checkpoint, tmp_path, told, loss, seed):
    (checkpoint.parent / "args.json").write_text(json.dumps(SETTINGS | told))
    import_checkpoint(checkpoint, tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert (run.settings["loss"], run.settings["seed"]) == (loss, seed)


# What is not said.


@pytest.mark.parametrize(
    ("chosen", "settings", "said"),
    [
        ({"pixels": "none"}, None, "does not say which transform its features have: put args.json"),
        ({"nonnegative": "relu"}, None, "does not say what it learnt from, .* give --pixels cifar"),
        ({}, {"data": {"dataset": "custom"}}, "was trained on 'custom', .* give --pixels cifar10"),
        ({}, {"data": {"dataset": ["cifar10"]}}, r"was trained on \['cifar10'\], .* give --pixels"),
        ({}, {"data": None}, "does not say what it learnt from, .* give --pixels"),
        ({}, {"method_kwargs": {"non_neg": "non_neg"}}, "with non_neg 'non_neg'; give --nonneg"),
        ({}, {"method_kwargs": {"non_neg": [1]}}, r"with non_neg \[1\]; give --nonnegative"),
        ({"nonnegative": "reul"}, {}, "unknown transform 'reul'; nearest: .*relu"),
        ({"pixels": "cifar"}, {}, "unknown pixels 'cifar'; nearest: cifar10"),
        ({"stem": "large"}, {}, "begins with a 3×3 convolution, which stem 'large' has not; known"),
    ],
)  # fmt: skip
def test_what_is_not_said_has_to_be_given(checkpoint, chosen, settings, said):
    beside = checkpoint.parent / "args.json"
    beside.unlink() if settings is None else beside.write_text(json.dumps(SETTINGS | settings))
    with pytest.raises(ValueError, match=said):
        imported_encoder(checkpoint, **chosen)


def test_a_small_stem_of_torchvision_has_to_be_named(tmp_path):
    network = Network(Basic, (2, 2, 2, 2), width=4)
    torch.save(network.state_dict(), tmp_path / "a.pth")
    with pytest.raises(ValueError, match="give --stem small or strided or authors"):
        imported_encoder(tmp_path / "a.pth", pixels="none")
    for stem in ("small", "strided", "authors"):
        found = imported_encoder(tmp_path / "a.pth", pixels="none", stem=stem)
        assert found.encoder.settings.backbone.stem == stem


# Forged and damaged files.


class Runs:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return (eval, ("__import__('pathlib').Path('ran').touch()",))


def refused(path, said, tmp_path, **chosen):
    out = tmp_path / "out"
    chosen = {"pixels": "none", "nonnegative": "relu"} | chosen
    with pytest.raises(ValueError, match=said) as caught:
        import_checkpoint(path, out, **chosen)
    assert "\n" not in str(caught.value)
    assert not out.exists() or not list(out.iterdir())


def test_code_is_not_run(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "forged.ckpt"
    torch.save(lightning(small.state_dict()) | {"callbacks": Runs()}, path)
    refused(path, r"holds more than weights \(builtins.eval\)", tmp_path)
    path.write_bytes(pickle.dumps(Runs()))
    refused(path, "no checkpoint of PyTorch 1.6 or later", tmp_path)
    torch.save(Runs(), path, _use_new_zipfile_serialization=False)
    refused(path, "no checkpoint of PyTorch 1.6 or later", tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_whole_module_is_refused(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "a.ckpt")
    refused(tmp_path / "a.ckpt", "more than weights .*torch.nn.modules.linear.Linear", tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_cut_file_is_refused(checkpoint, tmp_path, share):
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[: int(share * len(whole))])
    refused(checkpoint, "was cut short", tmp_path)


def test_flipped_bytes_never_give_a_traceback(checkpoint, tmp_path):
    """Of whatever kind: an error of one sentence, or an encoder of finite weights."""
    whole = checkpoint.read_bytes()
    generator = torch.Generator().manual_seed(0)
    start = whole.index(b"state_dict")
    for place in torch.randint(start - 200, start + 4000, (40,), generator=generator).tolist():
        checkpoint.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        said = ""
        try:
            found = imported_encoder(checkpoint)
        except ValueError as error:
            said = str(error)
        else:
            assert all(p.isfinite().all() for p in found.encoder.parameters())
        assert said.isprintable()


def changed(small, **tensors):
    return lightning({**small.state_dict(), **tensors})


def without(small, start):
    return lightning({n: t for n, t in small.state_dict().items() if not n.startswith(start)})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda s: [1, 2], "holds no state dict"),
        (lambda s: {"state_dict": {}}, "holds no state dict"),
        (lambda s: {"state_dict": {3: torch.ones(1)}}, "holds no state dict"),
        (lambda s: {"weight": torch.ones(2)}, "holds no ResNet: there is neither .* but 'weight'"),
        (lambda s: without(s, "backbone.layer2.1.bn1.bias"), r"missing: layer2.1.bn1.bias\)"),
        (lambda s: without(s, "backbone.layer3."), "holds a ResNet of 2, 2, 0, 2 blocks"),
        (lambda s: without(s, "projector.0.weight"), "another layout than .*: layer 0"),
        (lambda s: without(s, "projector.2.bias"), ""),
        (
            lambda s: changed(s, **{"backbone.layer1.0.conv1.weight": torch.ones(4, 4, 5, 5)}),
            "of other shape: layer1.0.conv1.weight",
        ),
        (
            lambda s: changed(s, **{"backbone.layer1.0.conv9.weight": torch.ones(4)}),
            "unexpected: layer1.0.conv9.weight",
        ),
        (
            lambda s: changed(s, **{"projector.2.weight": torch.ones(16, 23)}),
            "layer 2 takes 23 numbers, but gets 24",
        ),
        (
            lambda s: changed(s, **{"projector.1.weight": torch.ones(24, 24)}),
            "another layout than .*: layer 1",
        ),
        (
            lambda s: changed(s, **{"projector.head.weight": torch.ones(24, 24)}),
            "another layout than",
        ),
        (
            lambda s: changed(s, **{"projector.2.bias": torch.ones(15)}),
            "does not fit together: size mismatch for 3.bias",
        ),
        (
            lambda s: changed(s, **{"projector.2.bias": torch.full((16,), torch.nan)}),
            "projector.2.bias holds NaN or infinite numbers",
        ),
        (
            lambda s: changed(s, **{"backbone.bn1.running_var": -torch.ones(4)}),
            "bn1.running_var holds negative variances",
        ),
        (lambda s: changed(s, **{"projector.0.bias": "text"}), "projector.0.bias is no plain"),
        (
            lambda s: changed(s, **{"projector.0.weight": torch.ones(24, 32).to_sparse()}),
            "projector.0.weight is no plain tensor",
        ),
        (
            lambda s: changed(s, **{"backbone.conv1.weight": torch.ones(4, 3)}),
            "no convolution of images",
        ),
        (
            lambda s: changed(s, **{"backbone.conv1.weight": torch.ones(0, 3, 3, 3)}),
            "no convolution of images",
        ),
        (
            lambda s: changed(s, **{"backbone.conv1.weight": torch.ones(4, 3, 5, 5)}),
            "begins with a 5×5 convolution",
        ),
        (
            lambda s: changed(s, **{"backbone.conv1.weight": torch.ones(40_000, 1, 3, 3)}),
            "of other shape: bn1.weight",
        ),
        (
            lambda s: changed(
                s, **{"projector.0.weight": torch.ones(1).expand(1 << 20, 1 << 20)}
            ),
            "its tensors are larger than the file",
        ),
    ],
)  # fmt: skip
def test_wrong_content_is_refused_in_a_sentence(small, tmp_path, content, said):
    path = tmp_path / "wrong.ckpt"
    torch.save(content(small), path)
    if said:
        refused(path, said, tmp_path)
    else:  # a linear map may have no bias
        imported_encoder(path, pixels="none", nonnegative="relu")


def test_archives_that_unpack_to_more_are_refused(checkpoint, tmp_path):
    packed = tmp_path / "packed.ckpt"
    with zipfile.ZipFile(checkpoint) as whole, zipfile.ZipFile(packed, "w") as into:
        for entry in whole.infolist():
            into.writestr(entry.filename, whole.read(entry), zipfile.ZIP_DEFLATED)
    refused(packed, "unpacked it would be larger than the file", tmp_path)


def test_files_that_are_too_large_are_refused(tmp_path):
    path = tmp_path / "large.ckpt"
    with path.open("wb") as file:
        file.truncate((4 << 30) + 1)
    refused(path, "checkpoints of up to 4 GB are read", tmp_path)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as into:
        into.writestr("archive/data.pkl", bytes(65 << 20))
    path.write_bytes(content.getvalue())
    refused(path, "holds 65 MB beside its tensors", tmp_path)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        imported_encoder(tmp_path / "none.ckpt")
    refused(tmp_path, "is a folder; give the checkpoint in it", tmp_path)


def test_a_failed_write_leaves_nothing(checkpoint, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nonneg.encoder.write_json", full)
    with pytest.raises(OSError, match="No space"):
        import_checkpoint(checkpoint, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_other_folders_are_left_alone(checkpoint, tmp_path):
    with pytest.raises(FileExistsError, match="is not empty and holds no run"):
        import_checkpoint(checkpoint, checkpoint.parent)


def test_a_checkpoint_that_is_no_file_is_refused_at_once(tmp_path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no pipes")
    os.mkfifo(tmp_path / "pipe.ckpt")
    (tmp_path / "zero.ckpt").symlink_to("/dev/zero")
    for name in ("pipe.ckpt", "zero.ckpt"):
        with pytest.raises(ValueError, match="is a pipe, a socket or a device, not a file"):
            imported_encoder(tmp_path / name)
