"""The loop itself: it learns, averages gradients rightly, and speaks up when something is wrong."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from planted_parts import QUIET, config, encoder, noisy_pairs, planted
from rich.console import Console
from torch.utils.data import get_worker_info

import nonneg
from nonneg import Encoder, metrics
from nonneg.data import ArrayData
from nonneg.runs import (
    build_encoder,
    build_pairs,
    read_experiment,
    run_experiment,
    training_data,
)
from nonneg.training import LossSettings, read_history


def test_planted_parts_are_found(tmp_path):
    data, test = planted(), planted(seed=1)
    learner = encoder()
    before = metrics.class_consistency(learner.encode(test).features, test.labels)
    nonneg.train(
        learner, data, noisy_pairs, config(), out=tmp_path / "run", held_out=test, console=QUIET
    )
    features = learner.encode(test).features
    after = metrics.class_consistency(features, test.labels)
    assert before.value < 0.45
    assert after.value > 0.8
    assert metrics.sparsity(features).value > 0.7
    loaded = Encoder.load(tmp_path / "run")
    assert torch.equal(loaded.encode(test).features, features)


def test_cl_and_ncl_differ_by_the_transform_only(tmp_path):
    for kind in ("relu", "identity"):
        nonneg.train(
            encoder(kind), planted(), noisy_pairs, config(), out=tmp_path / kind, console=QUIET
        )
    first, second = (
        json.loads((tmp_path / kind / "run.json").read_text())["settings"]
        for kind in ("relu", "identity")
    )
    first["encoder"]["nonnegative"] = "identity"
    assert first == second


def test_the_history_says_what_happened(tmp_path):
    result = nonneg.train(
        encoder(), planted(), noisy_pairs, config(epochs=3), out=tmp_path / "run", console=QUIET
    )
    assert result.history == read_history(tmp_path / "run")
    assert [record["epoch"] for record in result.history] == [1, 2, 3]
    assert [record["step"] for record in result.history] == [4, 8, 12]
    assert set(result.history[0]) == {
        "epoch",
        "step",
        "loss",
        "progress_rate",
        "learning_rate",
        "alive_features",
        "sparsity",
        "zero_row_rate",
        "effective_rank",
        "class_consistency",
        "seconds",
        "images_per_second",
    }
    assert result.interrupted_by is None


def test_data_without_labels_has_no_class_consistency(tmp_path):
    data = ArrayData(planted().inputs)
    result = nonneg.train(
        encoder(), data, noisy_pairs, config(epochs=2), out=tmp_path / "run", console=QUIET
    )
    assert "class_consistency" not in result.history[-1]


def test_two_batches_accumulated_are_one_step_of_their_mean_gradient(tmp_path):
    data = planted(256)
    runs = config(epochs=2, warmup_epochs=0, batch_size=128, accumulate=2, revive=False)
    runs = runs.model_copy(
        update={"optimizer": runs.optimizer.model_copy(update={"name": "sgd", "lr": 0.1})}
    )
    trained = encoder(norm="layer")
    nonneg.train(trained, data, noisy_pairs, runs, out=tmp_path / "run", console=QUIET)
    assert read_history(tmp_path / "run")[-1]["step"] == 2  # one step an epoch

    from nonneg.pairs import Batch, Draws
    from nonneg.training.batches import epoch_batches

    by_hand = encoder(norm="layer").train()
    parameters = [p for p in by_hand.parameters() if p.requires_grad]
    velocity = [torch.zeros_like(p) for p in parameters]
    for epoch, rate in ((0, 0.1), (1, 0.05)):  # half a cosine over two steps
        gradients = [torch.zeros_like(p) for p in parameters]
        for indices in epoch_batches(256, 128, seed=0, epoch=epoch):
            batch = Batch(data.fetch(indices), indices, Draws(0, epoch, indices), data.fetch)
            views = torch.cat(noisy_pairs(batch))
            loss = nonneg.info_nce(*by_hand(views).features.chunk(2), temperature=0.2)
            for total, part in zip(gradients, torch.autograd.grad(loss, parameters), strict=True):
                total += part / 2
        with torch.no_grad():
            for p, v, g in zip(parameters, velocity, gradients, strict=True):
                v.mul_(0.9).add_(g + (1e-4 * p if p.ndim > 1 else 0))
                p -= rate * v
    for ours, expected in zip(trained.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)


def test_with_all_of_the_weight_both_methods_have_the_same_backbone(tmp_path):
    """Only the projector knows the transform, and it leaves the backbone in peace."""
    learners = [encoder("identity", n_features=40), encoder("relu", n_features=40)]
    for learner in learners:
        runs = config(epochs=3, reinit_at=0.3, keep_angles=True, max_on_rate=0.2)
        runs = runs.model_copy(update={"loss": LossSettings(temperature=0.2, backbone_weight=1)})
        out = tmp_path / learner.settings.nonnegative
        nonneg.train(learner, planted(), noisy_pairs, runs, out=out, console=QUIET)
    for ours, theirs in zip(*(it.backbone.parameters() for it in learners), strict=True):
        assert torch.equal(ours, theirs)
    first, untrained = (next(it.backbone.parameters()) for it in (learners[0], encoder()))
    assert not torch.equal(first, untrained)


def test_gradients_are_clipped(tmp_path):
    """With steps of plain SGD and a tiny bound, the weights can move by no more than the bound."""
    runs = config(epochs=1, warmup_epochs=0, clip_norm=1e-4, revive=False)
    settings = runs.optimizer.model_copy(
        update={"name": "sgd", "lr": 1.0, "momentum": 0.0, "weight_decay": 0.0}
    )
    runs = runs.model_copy(update={"optimizer": settings})
    trained, before = encoder(), encoder()
    nonneg.train(trained, planted(), noisy_pairs, runs, out=tmp_path / "run", console=QUIET)
    moved = sum(
        float((a - b).detach().square().sum())
        for a, b in zip(trained.parameters(), before.parameters(), strict=True)
    )
    assert 0 < moved**0.5 <= 4 * 1e-4 * 1.001


def test_a_collapsed_run_says_so_once_and_records_it(tmp_path, capsys):
    def unrelated(batch):
        return batch.draws.normal(16), batch.draws.normal(16, stream=1)

    result = nonneg.train(
        encoder(), planted(), unrelated, config(epochs=5), out=tmp_path / "run",
        console=Console(width=300),
    )  # fmt: skip
    said = capsys.readouterr().out
    assert said.count("warning: the run has collapsed: the loss") == 1
    assert "lower optimizer.lr" in said
    assert [("warning" in record) for record in result.history] == [
        False,
        False,
        True,
        False,
        False,
    ]


def test_a_loss_that_is_no_number_stops_the_run(tmp_path):
    def broken(batch):
        return batch.inputs * torch.nan, batch.inputs

    with pytest.raises(
        FloatingPointError,
        match=r"^training diverged: the loss is nan by step 1; lower optimizer\.lr \(0\.01\)",
    ):
        nonneg.train(encoder(), planted(), broken, config(), out=tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("monitor_every", [None, 1])
def test_weights_that_diverge_in_the_last_step_stop_the_run(tmp_path, monitor_every):
    """One step an epoch: its loss is a number, the weights that come of it are not."""
    runs = config(batch_size=512, warmup_epochs=0, monitor_every=monitor_every)
    steep = runs.optimizer.model_copy(update={"lr": 1e30})
    with pytest.raises(
        FloatingPointError,
        match=r"^training diverged: features of held-out samples are not finite by step 1; lower",
    ):
        nonneg.train(
            encoder("identity", norm="none"),
            planted(),
            noisy_pairs,
            runs.model_copy(update={"optimizer": steep}),
            out=tmp_path / "run",
            console=QUIET,
        )


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a device")
def test_a_device_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"^this machine cannot train with training\.accelerator=gpu \(.*\); set "
        r"training\.accelerator=cpu",
    ):
        nonneg.train(
            encoder(),
            planted(),
            noisy_pairs,
            config(accelerator="gpu"),
            out=tmp_path / "run",
            console=QUIET,
        )
    assert not (tmp_path / "run").exists()


def test_the_callers_random_numbers_are_left_alone(tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    nonneg.train(
        encoder(), planted(), noisy_pairs, config(epochs=2), out=tmp_path / "run", console=QUIET
    )
    assert torch.equal(torch.rand(4), expected)


def test_the_spectral_loss_trains_too(tmp_path):
    spectral = LossSettings(name="spectral")
    runs = config().model_copy(update={"loss": spectral})
    learner, test = encoder(), planted(seed=1)
    nonneg.train(learner, planted(), noisy_pairs, runs, out=tmp_path / "run", console=QUIET)
    found = metrics.class_consistency(learner.encode(test).features, test.labels)
    assert found.value > 0.7


def test_a_compiled_network_trains_the_same(tmp_path, monkeypatch):
    """With a back end that makes no kernels: what is tested is that everything fits together."""
    compiled = []

    def traced(module, **_):
        compiled.append(module)
        return real(module, backend="eager")

    real = torch.compile
    monkeypatch.setattr(torch, "compile", traced)
    learners = [encoder(), encoder()]
    for learner, is_compiled in zip(learners, (True, False), strict=True):
        runs = config(epochs=2, compile=is_compiled)
        out = tmp_path / str(is_compiled)
        nonneg.train(learner, planted(), noisy_pairs, runs, out=out, console=QUIET)
    assert {id(module) for module in compiled} == {id(learners[0])}
    for ours, theirs in zip(*(learner.parameters() for learner in learners), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert Encoder.load(tmp_path / "True").n_features == 24


def test_workers_give_the_same_run(tmp_path):
    _, experiment = read_experiment(
        "digits",
        [
            "encoder.backbone.width=4",
            "encoder.projector.n_features=16",
            "training.epochs=2",
            "training.warmup_epochs=1",
        ],
    )
    weights = []
    for n_workers in (0, 2):
        data, _ = training_data(experiment.data, None)
        loop = experiment.training.model_copy(update={"n_workers": n_workers})
        changed = experiment.model_copy(update={"training": loop})
        learner = build_encoder(changed, data.sample_shape)
        pairs = build_pairs(changed, data)
        nonneg.train(learner, data, pairs, changed, out=tmp_path / str(n_workers), console=QUIET)
        weights.append((tmp_path / str(n_workers) / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("held_out", "sentence"),
    [
        (ArrayData(torch.full((64, 16), torch.nan), name="kept"), "kept has NaN or Inf in 64"),
        (
            ArrayData(planted().inputs, labels=torch.zeros(5).long(), name="kept"),
            "kept has .*label",
        ),
    ],
)
def test_held_out_samples_are_looked_at_first(held_out, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        nonneg.train(
            encoder(), planted(), noisy_pairs, config(), out=tmp_path / "run", held_out=held_out,
            console=QUIET,
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_views_that_the_encoder_does_not_read_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"reads samples of shape \(16,\), got \(8,\)"):
        nonneg.train(
            encoder(), planted(), lambda batch: (batch.inputs[:, :8],) * 2, config(),
            out=tmp_path / "run", console=QUIET,
        )  # fmt: skip


class Blurred:
    """Pairs of a user's own, whose settings are the user's own too."""

    settings = {"strength": 0.1, "kernel": torch.ones(3)}  # noqa: RUF012

    def __call__(self, batch):
        return noisy_pairs(batch)


def test_pairs_may_have_settings_of_any_kind(tmp_path):
    runs = config(epochs=2)
    nonneg.train(encoder(), planted(), Blurred(), runs, out=tmp_path / "run", console=QUIET)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    expected = {"name": "Blurred", "strength": 0.1, "kernel": "Tensor"}
    assert record["settings"]["pairs"] == expected


def test_half_precision_trains_too(tmp_path):
    learner, test = encoder(), planted(seed=1)
    runs = config(precision="bf16-mixed")
    nonneg.train(learner, planted(), noisy_pairs, runs, out=tmp_path / "run", console=QUIET)
    found = metrics.class_consistency(learner.encode(test).features, test.labels)
    assert found.value > 0.8


class Drawing:
    """Data that draws from torch's own generator."""

    name, labels, class_names, sample_shape = "drawing", None, (), (16,)

    def __len__(self):
        return 256

    def fetch(self, indices):
        return planted(256).inputs[indices] + 0.1 * torch.randn(len(indices), 16)


def test_the_seed_decides_also_where_data_draws(tmp_path):
    weights = []
    for callers in (1, 2):
        torch.manual_seed(callers)
        learner, out = encoder(), tmp_path / str(callers)
        nonneg.train(learner, Drawing(), noisy_pairs, config(epochs=2), out=out, console=QUIET)
        weights.append(next(learner.parameters()))
    assert torch.equal(*weights)


class UnsendableError(OSError):
    """An error that cannot be pickled, as those that hold a connection."""

    def __reduce__(self):
        raise TypeError("cannot be pickled")


class Offline(Drawing):
    """Data whose samples workers cannot get."""

    def fetch(self, indices):
        if get_worker_info() is None:
            return super().fetch(indices)
        raise UnsendableError("the shelf is empty")


def test_an_error_that_cannot_be_sent_from_a_worker_is_told_all_the_same(tmp_path):
    runs = config(n_workers=1)
    with pytest.raises(OSError, match="the shelf is empty") as caught:
        nonneg.train(
            encoder(), Offline(), noisy_pairs, runs, out=tmp_path / "run", held_out=planted(),
            console=QUIET,
        )  # fmt: skip
    assert "in fetch" in caught.value.__notes__[0]


def damaged_photos(folder):
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        for number in range(8):
            image = np.full((16, 16, 3), 20 * number, np.uint8)
            Image.fromarray(image).save(folder / name / f"{number}.png")
    (folder / "b" / "3.png").write_bytes(b"no image")


@pytest.mark.parametrize("n_workers", [0, 1])
def test_a_damaged_image_is_one_sentence_also_from_a_worker(n_workers, tmp_path):
    damaged_photos(tmp_path / "photos")
    changes = [
        f"data.name={tmp_path / 'photos'}", "data.held_out=0", "data.image_size=16",
        "encoder.backbone.width=4", "training.epochs=2", "training.warmup_epochs=1",
        "training.batch_size=8", f"training.n_workers={n_workers}",
        "encoder.pixel_mean=[]", "encoder.pixel_std=[]",
    ]  # fmt: skip
    _, experiment = read_experiment("digits", changes)
    with pytest.raises(ValueError, match=r"^cannot read image .*3\.png"):
        run_experiment(experiment, out=tmp_path / "run", console=QUIET)
