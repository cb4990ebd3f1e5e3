"""Settings: known names, settings without effect, JSON there and back."""

import pytest
from pydantic import ValidationError

from nonneg.backbones import BackboneSettings, names


def test_defaults():
    settings = BackboneSettings()
    assert settings.model_dump() == {
        "name": "resnet18",
        "width": 64,
        "stem": "small",
        "norm": "batch",
        "stages": 4,
        "hidden": (512, 512),
        "pretrained": False,
        "config": {},
    }


def test_names():
    assert names() == (
        "resnet10",
        "resnet18",
        "resnet34",
        "resnet50",
        "mlp",
        "identity",
        "projection",
        "timm:NAME",
        "transformers:NAME",
    )


@pytest.mark.parametrize("name", ["resnet19", "", "timm", "timm:", "kornia:x", "resnet", "mlp:x"])
def test_unknown_names_list_the_known_ones(name):
    with pytest.raises(ValueError, match=f"unknown backbone '{name}'; known: resnet10, .*, mlp"):
        BackboneSettings(name=name)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("mlp", {"stem": "large"}),
        ("mlp", {"width": 16}),
        ("timm:resnet18", {"stages": 2}),
        ("identity", {"hidden": (3,)}),
        ("identity", {"norm": "none"}),
        ("resnet18", {"hidden": (3,)}),
        ("resnet18", {"pretrained": True}),
        ("resnet18", {"config": {"a": 1}}),
        ("timm:resnet18", {"width": 16}),
        ("transformers:x", {"norm": "layer"}),
    ],
)
def test_a_setting_without_effect_is_refused(name, settings):
    (key,) = settings
    with pytest.raises(ValueError, match=f"backbone '{name}' does not use {key}, so .* no effect"):
        BackboneSettings(name=name, **settings)


def test_the_sentence_as_a_command_shows_it():
    with pytest.raises(ValueError, match="does not use") as caught:
        BackboneSettings.read({"name": "mlp", "width": 16})
    assert str(caught.value) == (
        "backbone 'mlp' does not use width, so 16 has no effect; leave it at 64"
    )


@pytest.mark.parametrize(
    ("name", "norm", "known"),
    [("resnet10", "layer", "batch, group"), ("mlp", "group", "batch, layer, none")],
)
def test_each_family_has_its_norms(name, norm, known):
    with pytest.raises(ValueError, match=f"backbone '{name}' has no norm '{norm}'; known: {known}"):
        BackboneSettings(name=name, norm=norm)


@pytest.mark.parametrize(
    "settings",
    [{"width": 0}, {"hidden": ()}, {"hidden": (0,)}, {"stem": "tiny"}, {"depth": 3}, {"stages": 0}],
)
def test_impossible_values_are_refused(settings):
    name = "mlp" if "hidden" in settings else "resnet18"
    with pytest.raises(ValidationError):
        BackboneSettings(name=name, **settings)


def test_frozen():
    with pytest.raises(ValidationError):
        BackboneSettings().width = 3


@pytest.mark.parametrize(
    "settings",
    [
        BackboneSettings(),
        BackboneSettings(name="mlp", hidden=(3,), norm="none"),
        BackboneSettings(name="identity"),
        BackboneSettings(name="timm:vit", config={"img_size": [32, 32]}, pretrained=True),
    ],
)
def test_json_there_and_back(settings):
    assert BackboneSettings.model_validate_json(settings.model_dump_json()) == settings


def test_keys_of_a_config_become_text_and_other_objects_are_refused():
    settings = BackboneSettings(name="transformers:x", config={"id2label": {0: "cat"}})
    assert settings.config == {"id2label": {"0": "cat"}}
    with pytest.raises(ValueError, match="config has to be a JSON table"):
        BackboneSettings(name="transformers:x", config={"dtype": object()})


def test_transformers_takes_a_config_or_weights():
    with pytest.raises(ValueError, match="give config or pretrained, not both"):
        BackboneSettings(name="transformers:x", pretrained=True, config={"model_type": "vit"})
