"""transformers models: pooling and loading against a stand-in, and tiny real ones if installed."""

import json
import sys
import types
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from nonneg.backbones import BackboneSettings, TransformersBackbone, build, hidden_size, portable


class Config:
    """What the wrapper needs of a config of transformers."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def to_dict(self):
        return {**self.__dict__, "_name_or_path": "/home/someone/models"}


class Model(nn.Module):
    """Tokens of a text are its one-hot numbers; those of an image, its rows."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.main_input_name = {"vit": "pixel_values", "bert": "input_ids"}.get(
            config.model_type, "input_values"
        )
        self.body = nn.Linear(4, 4, bias=False)
        nn.init.eye_(self.body.weight)
        self.pooler = nn.Linear(4, 4) if config.has_pooler else None

    def forward(self, input_ids=None, pixel_values=None, attention_mask=None):
        tokens = pixel_values[:, 0] if input_ids is None else torch.eye(4)[input_ids]
        last = self.body(tokens)
        pooled = None if self.pooler is None else self.pooler(last[:, 0])
        return SimpleNamespace(last_hidden_state=last, pooler_output=pooled)


@pytest.fixture
def hub(monkeypatch):
    """A stand-in for transformers; ``hub.missing`` are the weights a checkpoint lacks."""
    hub = SimpleNamespace(missing=[], loads=[], lookups=[])

    def for_model(**values):
        if values["model_type"] == "nope":
            raise ValueError("Unrecognized model identifier: nope. Should contain one of a, b, c")
        return Config(**values)

    def config_from_name(name, *, trust_remote_code):
        assert not trust_remote_code
        hub.lookups.append(name)
        if name == "nowhere":
            raise OSError("nowhere is not a folder.\nMany more lines.")
        return Config(model_type="vit", has_pooler=True)

    def model_of(config, *, trust_remote_code):
        assert not trust_remote_code
        return Model(config)

    def model_from_name(name, **options):
        hub.loads.append(options)
        config = config_from_name(name, trust_remote_code=options.pop("trust_remote_code"))
        return Model(config), {"missing_keys": set(hub.missing)}

    module = types.ModuleType("transformers")
    module.AutoConfig = SimpleNamespace(for_model=for_model, from_pretrained=config_from_name)
    module.AutoModel = SimpleNamespace(from_config=model_of, from_pretrained=model_from_name)
    monkeypatch.setitem(sys.modules, "transformers", module)
    return hub


def backbone(model_type, has_pooler=True, **values):
    config = {"model_type": model_type, "has_pooler": has_pooler, **values}
    return TransformersBackbone("transformers:x", sample_shape=(1, 4, 4), config=config)


IMAGES = torch.arange(32.0).reshape(2, 1, 4, 4)


def test_texts_are_the_mean_of_the_tokens_that_the_mask_keeps(hub):
    model = backbone("bert")
    ids = torch.tensor([[0, 1, 3], [2, 2, 1]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    expected = torch.tensor([[1 / 2, 1 / 2, 0, 0], [0, 1 / 3, 2 / 3, 0]])
    torch.testing.assert_close(model({"input_ids": ids, "attention_mask": mask}), expected)
    assert model.hidden_size == 4


def test_texts_without_a_mask_and_with_an_empty_one(hub):
    model, ids = backbone("bert"), torch.tensor([[0, 1]])
    half = torch.tensor([[0.5, 0.5, 0, 0]])
    torch.testing.assert_close(model({"input_ids": ids}), half)
    nothing = model({"input_ids": ids, "attention_mask": torch.zeros(1, 2, dtype=torch.int64)})
    assert torch.equal(nothing, torch.zeros(1, 4))


def test_the_pooler_of_a_text_model_does_not_learn(hub):
    model = backbone("bert")
    assert not any(p.requires_grad for p in model.model.pooler.parameters())
    assert all(p.requires_grad for p in model.model.body.parameters())


def test_images_are_pooled_by_the_pooler(hub):
    model = backbone("vit")
    assert torch.equal(model(IMAGES), model.model.pooler(IMAGES[:, 0, 0]))
    assert torch.equal(model({"pixel_values": IMAGES}), model(IMAGES))
    assert all(p.requires_grad for p in model.parameters())


def test_images_without_a_pooler_are_the_mean_of_the_tokens(hub):
    model = backbone("vit", has_pooler=False)
    torch.testing.assert_close(model(IMAGES), IMAGES[:, 0].mean(1))


def test_a_pooler_without_saved_weights_is_not_used_also_after_rebuilding(hub):
    hub.missing = ["pooler.weight", "pooler.bias"]
    settings = BackboneSettings(name="transformers:someone/vit", pretrained=True)
    first = build(settings, (1, 4, 4))
    torch.testing.assert_close(first(IMAGES), IMAGES[:, 0].mean(1))
    assert not first.model.pooler.weight.requires_grad
    kept = portable(settings, first)
    hub.lookups.clear()
    again = build(BackboneSettings.model_validate_json(kept.model_dump_json()), (1, 4, 4))
    again.load_state_dict(first.state_dict())
    assert torch.equal(again(IMAGES), first(IMAGES))
    assert hub.lookups == []


def test_only_safetensors_are_read(hub):
    TransformersBackbone("transformers:someone/vit", sample_shape=(1, 4, 4), pretrained=True)
    assert hub.loads[0]["use_safetensors"] is True


def test_other_missing_weights_are_an_error(hub):
    hub.missing = ["pooler.weight", "body.weight"]
    with pytest.raises(ValueError, match=r"'someone/vit' lack 1 tensors .* such as body.weight"):
        TransformersBackbone("transformers:someone/vit", pretrained=True)


def test_the_config_is_json_without_the_place_it_came_from(hub):
    config = backbone("vit", id2label={0: "cat"}).config
    assert config == {"model_type": "vit", "has_pooler": True, "id2label": {"0": "cat"}}
    assert json.loads(json.dumps(config)) == config


@pytest.mark.parametrize("pretrained", [False, True])
def test_a_name_that_does_not_exist(hub, pretrained):
    sentence = r"no transformers model 'nowhere': .* from the hub \(nowhere is not a folder\)$"
    with pytest.raises(FileNotFoundError, match=sentence):
        TransformersBackbone("transformers:nowhere", pretrained=pretrained)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"hidden_size": 3}, "needs its model_type"),
        ({"model_type": "nope"}, "cannot read this config: Unrecognized model identifier: nope$"),
        ({"model_type": "wav", "has_pooler": False}, "'transformers:x' reads input_values"),
    ],
)
def test_configs_that_cannot_be_used(hub, config, message):
    with pytest.raises(ValueError, match=message):
        TransformersBackbone("transformers:x", config=config)


def test_wrong_inputs(hub):
    with pytest.raises(TypeError, match="a text model reads a mapping with input_ids"):
        backbone("bert")(IMAGES)
    with pytest.raises(ValueError, match="this model reads pixel_values, got input_ids"):
        backbone("vit")({"input_ids": torch.zeros(1, 2)})
    with pytest.raises(ValueError, match="give one of the two"):
        TransformersBackbone("transformers:x", pretrained=True, config={"model_type": "vit"})


@pytest.fixture
def transformers():
    return pytest.importorskip(
        "transformers", reason="needs transformers: pip install transformers"
    )


SMALL = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}
VIT = {"model_type": "vit", "image_size": 8, "patch_size": 4, "num_channels": 1, **SMALL}
BERT = {"model_type": "bert", "vocab_size": 20, **SMALL}


def real(config, shape):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build(BackboneSettings(name="transformers:tiny", config=config), shape)


def test_real_vit(transformers):
    vit = real(VIT, (1, 8, 8)).eval()
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert vit.hidden_size == hidden_size(vit, (1, 8, 8)) == 8
    assert torch.equal(vit(images), vit.model(pixel_values=images).pooler_output)
    vit(images).square().sum().backward()
    assert [n for n, p in vit.named_parameters() if p.grad is None] == []


def test_real_convolutions(transformers):
    config = {"num_channels": 1, "embedding_size": 4, "hidden_sizes": [4, 6], "depths": [1, 1]}
    backbone = real({"model_type": "resnet", "layer_type": "basic", **config}, (1, 16, 16))
    assert backbone(torch.zeros(2, 1, 16, 16)).shape == (2, backbone.hidden_size) == (2, 6)


def test_real_bert_ignores_what_the_mask_drops(transformers):
    bert = real(BERT, (5,)).eval()
    ids = torch.tensor([[3, 4, 5, 0, 0], [6, 7, 8, 9, 1]])
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    batch = bert({"input_ids": ids, "attention_mask": mask})
    alone = bert({"input_ids": ids[:1, :3]})
    torch.testing.assert_close(batch[0], alone[0])
    assert bert.hidden_size == 8
    batch.square().sum().backward()
    assert [n for n, p in bert.named_parameters() if p.requires_grad and p.grad is None] == []


def test_real_folder_and_rebuilding_without_it(transformers, tmp_path):
    config = transformers.AutoConfig.for_model(**VIT)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "vit")
    settings = BackboneSettings(name=f"transformers:{tmp_path / 'vit'}", pretrained=True)
    first = build(settings, (1, 8, 8)).eval()
    kept = portable(settings, first).model_dump_json().replace(str(tmp_path), "/elsewhere")
    again = build(BackboneSettings.model_validate_json(kept), (1, 8, 8)).eval()
    again.load_state_dict(first.state_dict())
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again(images), first(images))
    tokens = first.model(pixel_values=images).last_hidden_state
    torch.testing.assert_close(first(images), tokens.mean(1))


def test_real_errors(transformers, tmp_path):
    with pytest.raises(FileNotFoundError, match="no transformers model"):
        TransformersBackbone(f"transformers:{tmp_path / 'nothing'}")
    with pytest.raises(ValueError, match=r"cannot read a batch of shape \(2, 3, 8, 8\)"):
        real(VIT, (3, 8, 8))
    with pytest.raises(ValueError, match="cannot read this config"):
        real({"model_type": "no-such-model"}, (3, 8, 8))
