import pytest

from nonneg.pairs import FileViews, ImageViews, recipe
from nonneg.runs import (
    Experiment,
    build_encoder,
    build_pairs,
    presets,
    read_experiment,
    training_data,
)

SHAPES = {
    "digits": (1, 8, 8),
    "sprites": (1, 64, 64),
    "fashion-mnist": (1, 28, 28),
    "cifar10-small": (3, 32, 32),
    "cifar10": (3, 32, 32),
    "cifar100": (3, 32, 32),
    "imagenet100": (3, 64, 64),
    "authors": (3, 32, 32),
}


def test_all_presets_are_there():
    assert {preset.name for preset in presets()} == set(SHAPES)
    assert all(preset.about for preset in presets())


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.name)
def test_facts_are_those_of_the_experiment(preset):
    experiment = Experiment.read(preset.table)
    assert preset.facts == (
        f"{experiment.encoder.backbone.name} of width {experiment.encoder.backbone.width} · "
        f"{experiment.encoder.projector.n_features} features · {experiment.encoder.nonnegative} · "
        f"T {experiment.loss.temperature:g} · {experiment.training.epochs} epochs"
    )


@pytest.mark.parametrize("name", SHAPES)
def test_cl_and_ncl_differ_by_one_setting(name):
    run_name, ncl = read_experiment(name)
    assert run_name == f"{name}-ncl"
    assert read_experiment(f"{name}-ncl") == (run_name, ncl)
    cl_name, cl = read_experiment(f"{name}-cl")
    assert cl_name == f"{name}-cl"
    assert cl.encoder.nonnegative == "identity"
    encoder = cl.encoder.model_copy(update={"nonnegative": ncl.encoder.nonnegative})
    assert cl.model_copy(update={"encoder": encoder}) == ncl


@pytest.mark.parametrize("name", [n for n in SHAPES if n != "imagenet100"])
def test_every_preset_builds_an_encoder(name):
    _, experiment = read_experiment(name)
    encoder = build_encoder(experiment, SHAPES[name])
    assert encoder.is_nonnegative
    assert encoder.n_features == experiment.encoder.projector.n_features


def test_the_authors_settings():
    _, cifar = read_experiment("authors")
    assert cifar.encoder.backbone.name == "resnet18"
    assert cifar.encoder.backbone.stem == "authors"
    assert cifar.encoder.projector.hidden == (2048,)
    assert cifar.encoder.projector.n_features == 256
    assert cifar.encoder.projector.norm == "none"
    assert cifar.encoder.nonnegative == "rep_relu"
    assert cifar.views == recipe("colour")
    assert (cifar.optimizer.name, cifar.optimizer.lr, cifar.optimizer.eta) == ("lars", 0.4, 0.02)
    assert (cifar.training.epochs, cifar.training.batch_size) == (200, 256)
    assert cifar.loss.temperature == 0.2
    assert not cifar.training.revive
    assert cifar.training.max_on_rate == 1
    assert not cifar.training.keep_angles
    assert cifar.loss.backbone_weight == 0
    assert cifar.training.reinit_at == 0
    assert cifar.encoder.projector.input_norm == "none"


@pytest.mark.parametrize("name", ["fashion-mnist", "cifar10-small", "cifar10", "imagenet100"])
def test_one_recipe(name):
    _, experiment = read_experiment(name)
    assert experiment.encoder.nonnegative == "relu"
    assert experiment.encoder.projector.norm == "batch"
    assert experiment.encoder.projector.n_features >= 1024
    assert experiment.loss.temperature == 0.12
    assert experiment.training.revive
    assert experiment.data.held_out == 5000


@pytest.mark.parametrize("name", ["fashion-mnist", "cifar10-small"])
def test_short_runs_have_a_linear_projector_and_small_batches(name):
    _, experiment = read_experiment(name)
    assert experiment.encoder.projector.hidden == ()
    assert experiment.encoder.projector.n_features == 4096
    assert experiment.encoder.projector.input_norm == "layer"
    assert experiment.loss.backbone_weight == 1
    assert 0 < experiment.training.reinit_at < 1
    assert experiment.training.max_on_rate < 0.1
    assert experiment.training.keep_angles
    assert experiment.training.batch_size == 128


def test_the_same_seed_gives_the_same_weights():
    _, experiment = read_experiment("digits")
    first, second = (build_encoder(experiment, (1, 8, 8)).state_dict() for _ in range(2))
    assert all(first[key].equal(second[key]) for key in first)
    name, other = read_experiment("digits", ["seed=1"])
    assert name == "digits-ncl-seed1"
    assert (
        not build_encoder(other, (1, 8, 8)).projector[0].weight.equal(first["projector.0.weight"])
    )


def test_settings_come_back_from_plain_values():
    _, experiment = read_experiment("fashion-mnist", ["views.flip_rate=0.25"])
    assert Experiment.read(experiment.model_dump(mode="json")) == experiment
    assert experiment.views.flip_rate == 0.25
    assert experiment.views.crop_scale == recipe("grey").crop_scale


def test_held_out_samples_are_not_trained_on():
    _, experiment = read_experiment("digits")
    samples, held_out = training_data(experiment.data, None)
    assert (len(samples), len(held_out)) == (1237, 200)
    _, fewer = read_experiment("digits", ["data.n_train=500", "data.held_out=0"])
    samples, held_out = training_data(fewer.data, None)
    assert len(samples) == 500
    assert held_out is None


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[data]\nname = "digits"\n[encoder.backbone]\nname = "mlp"\n[views]\nflip_rate = 1\n'
    )
    name, experiment = read_experiment(str(path))
    assert name == "mine-ncl"
    assert experiment.views.flip_rate == 1
    path.write_text("[data\n")
    with pytest.raises(ValueError, match=r"^mine\.toml is not readable TOML \("):
        read_experiment(str(path))


def test_a_mistyped_table_is_named_rather_than_the_missing_one(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[dta]\nname = "digits"\n')
    with pytest.raises(ValueError, match=r"^unknown setting 'dta'; nearest: data"):
        read_experiment(str(path))


def test_folders_of_images_are_decoded_by_workers(tmp_path):
    from PIL import Image

    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(4):
            Image.new("RGB", (40, 30), (40 * number, 0, 0)).save(tmp_path / name / f"{number}.png")
    _, experiment = read_experiment(
        "imagenet100", [f"data.name={tmp_path}", "data.image_size=16", "data.held_out=2"]
    )
    samples, _ = training_data(experiment.data, None)
    assert samples.sample_shape == (3, 16, 16)
    assert isinstance(build_pairs(experiment, samples), FileViews)
    _, digits = read_experiment("digits")
    assert isinstance(build_pairs(digits, training_data(digits.data, None)[0]), ImageViews)
