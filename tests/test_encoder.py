import json

import numpy as np
import pytest
import torch
from torch import nn

from nonneg import Encoder, EncoderSettings
from nonneg.backbones import BackboneSettings
from nonneg.data import ArrayData
from nonneg.head.nonnegative import TRANSFORMS, NonNegative
from nonneg.head.projector import GateSettings, ProjectorSettings

SMALL = EncoderSettings(
    backbone=BackboneSettings(name="resnet10", width=4),
    projector=ProjectorSettings(hidden=(8,), n_features=6),
    pixel_mean=(0.5, 0.4, 0.3),
    pixel_std=(0.2, 0.2, 0.2),
)
VECTORS = EncoderSettings(
    backbone=BackboneSettings(name="mlp", hidden=(8,)),
    projector=ProjectorSettings(hidden=(8,), n_features=6),
)


def encoder_of(settings=SMALL, shape=(3, 8, 8), seed=0, **more):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Encoder(settings, shape, **more)


def images(n=10, seed=0):
    return torch.randint(0, 256, (n, 3, 8, 8), generator=torch.Generator().manual_seed(seed)).byte()


def test_features_are_the_transform_of_the_scores_of_the_hidden():
    encoder = encoder_of().eval()
    hidden, scores, features = encoder(images())
    assert hidden.shape == (10, 32)
    torch.testing.assert_close(scores, encoder.projector(hidden))
    assert torch.equal(features, scores.relu())
    assert encoder.is_nonnegative


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_the_transform_travels_with_the_encoder(kind, tmp_path):
    encoder = encoder_of(SMALL.model_copy(update={"nonnegative": kind}))
    encoder.save(tmp_path)
    loaded = Encoder.load(tmp_path)
    assert loaded.is_nonnegative == TRANSFORMS[kind].is_nonnegative
    assert torch.equal(loaded.encode(images()).features, encoder.encode(images()).features)


def test_thinning_travels_with_the_encoder(tmp_path):
    limits = {"threshold": 0.3, "max_active": 2}
    encoder = encoder_of(SMALL.model_copy(update=limits)).eval()
    plain = encoder_of().encode(images()).features
    expected = NonNegative("identity", **limits)(plain)
    assert 0 < expected.count_nonzero() < plain.count_nonzero()
    encoder.save(tmp_path)
    for thin in (encoder, Encoder.load(tmp_path)):
        assert torch.equal(thin.encode(images()).features, expected)
    encoder.thin(threshold=None, max_active=None)
    assert torch.equal(encoder.encode(images()).features, plain)
    assert not encoder.nonnegative.training
    encoder.save(tmp_path)
    assert torch.equal(Encoder.load(tmp_path).encode(images()).features, plain)
    with pytest.raises(ValueError, match="threshold"):
        EncoderSettings.read({"threshold": 1.5})


def test_saved_and_loaded_features_are_equal_bit_by_bit(tmp_path):
    encoder = encoder_of()
    encoder.train()(images(20, seed=1))  # moves the running statistics of the norms
    encoder.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    loaded = Encoder.load(tmp_path)
    for before, after in zip(encoder.encode(images()), loaded.encode(images()), strict=True):
        assert torch.equal(before, after)
    assert not loaded.training


def test_encode_restores_the_mode_and_changes_nothing():
    encoder = encoder_of().train()
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    encoded = encoder.encode(images())
    assert encoder.training
    assert not encoded.features.requires_grad
    assert all(torch.equal(before[k], v) for k, v in encoder.state_dict().items())
    encoder.eval().encode(images())
    assert not encoder.training


def test_every_part_gets_its_own_mode_back():
    encoder = encoder_of().train()
    encoder.backbone.eval()  # as frozen normalisation is
    before = [part.training for part in encoder.modules()]
    encoder.encode(images())
    assert [part.training for part in encoder.modules()] == before
    assert set(before) == {True, False}


def test_float64_weights_stay_float64(tmp_path):
    encoder = encoder_of().double()
    encoder.save(tmp_path)
    loaded = Encoder.load(tmp_path).encode(images()).features
    assert loaded.dtype == torch.float64
    assert torch.equal(loaded, encoder.encode(images()).features)


def test_loading_leaves_the_global_generator_alone(tmp_path):
    encoder_of().save(tmp_path)
    before = torch.get_rng_state()
    Encoder.load(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.filterwarnings("error")
def test_arrays_of_any_layout_are_read():
    encoder = encoder_of(VECTORS, (5,))
    x = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    expected = encoder.encode(x).features
    frozen = x.copy()
    frozen.flags.writeable = False
    backwards = np.ascontiguousarray(x[::-1])[::-1]
    for same in (frozen, backwards, np.asfortranarray(x), x.astype(">f4")):
        assert torch.equal(encoder.encode(same).features, expected)


def test_the_mode_is_restored_after_a_failure_too():
    encoder = encoder_of().train()
    broken = ArrayData(images())
    object.__setattr__(broken, "fetch", lambda indices: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        encoder.encode(broken)
    assert encoder.training


@pytest.mark.parametrize("batch_size", [1, 3, 10, 100])
def test_batches_do_not_matter(batch_size):
    encoder = encoder_of()
    whole = encoder(images()) if not encoder.eval().training else None
    torch.testing.assert_close(
        encoder.encode(images(), batch_size).features, whole.features.detach()
    )


def test_arrays_tensors_and_data_sets_give_the_same():
    encoder = encoder_of()
    expected = encoder.encode(images()).features
    assert torch.equal(encoder.encode(images().numpy()).features, expected)
    assert torch.equal(encoder.encode(ArrayData(images())).features, expected)
    as_floats = images().float() / 255
    torch.testing.assert_close(encoder.encode(as_floats).features, expected)
    as_doubles = as_floats.double().numpy()
    torch.testing.assert_close(encoder.encode(as_doubles).features, expected)


def test_pixels_are_scaled_once_in_the_encoder():
    plain = encoder_of(SMALL.model_copy(update={"pixel_mean": (), "pixel_std": ()})).eval()
    scaled = encoder_of().eval()
    by_hand = (images().float() / 255 - torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1)) / 0.2
    torch.testing.assert_close(scaled(images()).scores, plain(by_hand).scores)


def test_a_module_of_ones_own_can_be_frozen_and_loaded_again(tmp_path):
    def module():
        return nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Flatten())

    mine = module()
    before = {name: tensor.clone() for name, tensor in mine.state_dict().items()}
    settings = EncoderSettings(frozen=True, projector=ProjectorSettings(hidden=(), n_features=4))
    encoder = encoder_of(settings, backbone=mine).train()
    optimizer = torch.optim.SGD((p for p in encoder.parameters() if p.requires_grad), lr=1.0)
    encoder(images()).features.sum().backward()
    optimizer.step()
    assert all(torch.equal(before[k], v) for k, v in mine.state_dict().items())
    assert len([p for p in encoder.parameters() if p.requires_grad]) == 2
    encoder.save(tmp_path)
    loaded = Encoder.load(tmp_path, backbone=module())
    assert torch.equal(loaded.encode(images()).features, encoder.encode(images()).features)
    with pytest.raises(
        ValueError, match=r"stands on a module of your own; load it with Encoder\.load"
    ):
        Encoder.load(tmp_path)


def test_no_samples_give_no_rows():
    assert encoder_of().encode(images(0)).features.shape == (0, 6)


@pytest.mark.parametrize(
    ("settings", "shape", "samples", "sentence"),
    [
        (
            SMALL,
            (3, 8, 8),
            torch.zeros(2, 1, 8, 8),
            r"this encoder reads samples of shape \(3, 8, 8\), got \(1, 8, 8\)",
        ),
        (
            VECTORS,
            (5,),
            np.zeros((2, 4), np.float32),
            r"this encoder reads samples of shape \(5,\), got \(4,\)",
        ),
    ],
)
def test_other_samples_are_refused(settings, shape, samples, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        encoder_of(settings, shape).encode(samples)


def test_bad_folders_are_one_sentence(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"^no encoder in .*: config\.json is missing; give"
    ):
        Encoder.load(tmp_path)
    encoder_of().save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["digests"]  # as 0.1 wrote it
    (tmp_path / "config.json").write_text(json.dumps(config))
    weights = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(
        ValueError, match=r"model\.safetensors is not a readable safetensors file \(.*train again$"
    ):
        Encoder.load(tmp_path)
    encoder_of(VECTORS, (5,)).save(tmp_path / "other")
    (tmp_path / "model.safetensors").write_bytes(
        (tmp_path / "other" / "model.safetensors").read_bytes()
    )
    with pytest.raises(
        ValueError,
        match=r"model\.safetensors holds other weights than those of the encoder in config\.json "
        r"beside it; copy both files from the same run$",
    ):
        Encoder.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ValueError, match=r"config\.json does not describe an encoder; give the"):
        Encoder.load(tmp_path)


def test_another_backbone_than_the_saved_one_is_refused(tmp_path):
    def around(width):
        mine = nn.Sequential(nn.Flatten(), nn.Linear(12, width))
        return mine, Encoder(EncoderSettings(), (3, 2, 2), backbone=mine)

    around(5)[1].save(tmp_path)
    with pytest.raises(ValueError, match="from the same run, and build the backbone as it was"):
        Encoder.load(tmp_path, backbone=around(6)[0])


CONFIGS = {
    "not JSON": ("{", "is not readable JSON"),
    "no settings": ({"settings": None}, "lacks the settings of the encoder"),
    "no shape": ({"sample_shape": None}, "lacks a sample_shape of whole numbers"),
    "shape of words": ({"sample_shape": ["a"]}, "lacks a sample_shape of whole numbers"),
    "other settings": ({"settings": {"nonegative": "relu"}}, "unknown setting 'nonegative'"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_damaged_config_names_the_file_and_what_to_do(case, tmp_path):
    changed, sentence = CONFIGS[case]
    encoder_of().save(tmp_path)
    path = tmp_path / "config.json"
    if isinstance(changed, dict):
        there = json.loads(path.read_text()) | changed
        changed = json.dumps({k: v for k, v in there.items() if v is not None})
    path.write_text(changed)
    with pytest.raises(
        ValueError, match=rf"config\.json .*{sentence}.*; copy the folder again, or"
    ):
        Encoder.load(tmp_path)


def test_a_run_that_was_interrupted_is_said_to_be(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(
        FileNotFoundError,
        match=r"is not finished: config\.json is missing; continue it with nonneg train … --resume",
    ):
        Encoder.load(tmp_path)
    encoder_of().save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"not finished: model\.safetensors is missing"):
        Encoder.load(tmp_path)


def test_settings_that_make_no_sense():
    with pytest.raises(ValueError, match="unknown transform; known: relu, rep_relu"):
        EncoderSettings.read({"nonnegative": "elu"})
    with pytest.raises(ValueError, match="unknown norm; known: batch, layer, none"):
        ProjectorSettings.read({"norm": "group"})
    with pytest.raises(ValueError, match="pixel_mean and pixel_std need one number per channel"):
        EncoderSettings.read({"pixel_mean": [0.5], "pixel_std": [0.0]})
    with pytest.raises(ValueError, match=r"give the backbone once: as settings\.backbone, or as a"):
        Encoder(EncoderSettings(), (3,))


def test_nothing_is_unpickled(tmp_path):
    encoder_of().save(tmp_path)
    for path in tmp_path.iterdir():
        assert b"torch._utils" not in path.read_bytes()
        assert path.suffix in (".json", ".safetensors")


def test_with_its_input_normed_the_length_of_hidden_does_not_matter():
    head = ProjectorSettings(hidden=(), n_features=6, input_norm="layer")
    encoder = Encoder(EncoderSettings(projector=head), (4,), backbone=nn.Identity())
    vectors = torch.randn(5, 4)
    torch.testing.assert_close(encoder(300 * vectors).scores, encoder(100 * vectors).scores)
    assert [name for name, _ in encoder.projector.named_parameters()] == ["1.weight", "1.bias"]


@pytest.mark.parametrize("gate", [None, GateSettings()])
def test_detached_features_have_no_gradient_to_the_backbone(gate):
    settings = EncoderSettings(projector=ProjectorSettings(hidden=(), n_features=6), gate=gate)
    encoder = Encoder(settings, (4,), backbone=nn.Linear(4, 3))
    vectors = torch.randn(5, 4)
    for detached in (False, True):
        encoder.zero_grad()
        encoded = encoder(vectors, detached=detached)
        torch.testing.assert_close(encoded, encoder(vectors))
        encoded.features.sum().backward()
        assert (encoder.backbone.weight.grad is None) == detached
        assert encoder.projector[-1].weight.grad is not None


@pytest.mark.parametrize("hidden", [(0,), (-5,), (8, 0)])
def test_layers_have_a_width(hidden):
    with pytest.raises(ValueError, match="greater than 0"):
        ProjectorSettings(hidden=hidden)


def test_whole_numbers_of_vectors_are_no_pixels():
    encoder = Encoder(EncoderSettings(), (4,), backbone=nn.Identity())
    vectors = torch.tensor([[0, 1, 2, 255]], dtype=torch.uint8)
    assert encoder.encode(vectors).hidden.tolist() == [[0, 1, 2, 255]]


def test_every_changed_byte_of_the_weights_is_found(tmp_path):
    encoder_of(VECTORS, (3,)).save(tmp_path)
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    for place in range(-80, 0):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place:][1:])
        with pytest.raises(ValueError, match=r"model\.safetensors is not the file that was saved"):
            Encoder.load(tmp_path)


def test_an_encoder_of_0_1_has_no_digests_and_is_read(tmp_path):
    encoder_of(VECTORS, (3,)).save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config.pop("digests").keys() == {"model.safetensors"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    Encoder.load(tmp_path)
    for wrong in ([], {"model.safetensors": 3}):
        (tmp_path / "config.json").write_text(json.dumps({**config, "digests": wrong}))
        with pytest.raises(ValueError, match=r"^the digests in .* are no table of texts; copy"):
            Encoder.load(tmp_path)


FETCHING = {
    "pretrained = true": {"name": "timm:resnet18", "pretrained": True},
    "checkpoint_path": {"name": "timm:resnet18", "config": {"checkpoint_path": "/tmp/x.pth"}},
    "a model without its config": {"name": "transformers:someone/model"},
    "auto_map": {
        "name": "transformers:x",
        "config": {"model_type": "vit", "sub": [{"auto_map": {"AutoModel": "code.Model"}}]},
    },
    "use_pretrained_backbone": {
        "name": "transformers:x",
        "config": {"model_type": "detr", "use_pretrained_backbone": True},
    },
}


@pytest.mark.parametrize("what", FETCHING)
def test_a_folder_cannot_have_other_models_fetched(what, tmp_path, monkeypatch):
    """Not even with the library at hand: it is never called."""
    encoder_of(VECTORS, (3,)).save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["settings"]["backbone"] = FETCHING[what]
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("nonneg.backbones.build", lambda *_: pytest.fail("was built"))
    sentence = (
        rf"ask for something outside of it \({what}\), which is not fetched for a saved encoder"
    )
    with pytest.raises(ValueError, match=sentence):
        Encoder.load(tmp_path)


EVERY = {
    "gate": {"gate": GateSettings()},
    "resnet, group norm": {"backbone": BackboneSettings(name="resnet10", width=32, norm="group")},
    "mlp, layer norm": {"backbone": BackboneSettings(name="mlp", hidden=(5, 4), norm="layer")},
    "identity": {"backbone": BackboneSettings(name="identity")},
    "frozen": {"frozen": True},
    "plain projector": {"projector": ProjectorSettings(hidden=(8, 7), n_features=6, norm="none")},
    "normed input": {"projector": ProjectorSettings(n_features=6, input_norm="layer")},
    "linear projector": {"projector": ProjectorSettings(hidden=(), n_features=6)},
}


@pytest.mark.parametrize("what", EVERY)
def test_every_kind_of_encoder_is_read_again(what, tmp_path):
    """It is built without memory first, where no part may ask for a number."""
    encoder = encoder_of(SMALL.model_copy(update=EVERY[what]))
    encoder.save(tmp_path)
    loaded = Encoder.load(tmp_path).state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in encoder.state_dict().items())
