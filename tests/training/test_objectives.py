"""The same loop with other objectives: all learn, and a queue survives a crash."""

import re
from pathlib import Path

import pytest
import torch
from rich.console import Console

from nonneg import Encoder, EncoderSettings, losses
from nonneg.head.projector import ProjectorSettings
from nonneg.losses import (
    cosine_weights,
    info_nce,
    info_nce_queue,
    soft_info_nce,
    spectral_contrastive,
)
from nonneg.pairs import Batch, Draws
from nonneg.runs import read_experiment, run_experiment
from nonneg.training import LossSettings, TrainConfig, contrastive_task, read_history
from nonneg.training.contrastive import EncoderWithQueue
from nonneg.training.objectives import PAIR_LOSSES, objective
from nonneg.training.settings import LoopSettings

QUIET = Console(quiet=True)
SMALL = [
    "encoder.backbone.width=8",
    "encoder.projector.hidden=[32]",
    "encoder.projector.n_features=48",
    "training.epochs=4",
    "training.warmup_epochs=1",
    "training.batch_size=64",
    "optimizer.lr=0.005",
    "training.reinit_at=0",
]

NUMBERS = torch.arange(5)
FIVE = Batch(torch.zeros(5, 3), NUMBERS, Draws(0, 0, NUMBERS), fetch=torch.zeros(5, 3).__getitem__)


def experiment(*settings):
    return read_experiment("digits", [*SMALL, *settings])[1]


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_every_objective_learns_non_negative_features(tmp_path, name):
    settings = experiment(f"loss={name}", "loss.queue_size=256", "data.n_train=640")
    run_experiment(settings, out=tmp_path / "run", console=QUIET)
    history = read_history(tmp_path / "run")
    # A queue of random rows is easy at first: it grows harder as keys fill it.
    first = 1 if name == "queue" else 0
    assert history[-1]["loss"] < history[first]["loss"]
    assert history[-1]["alive_features"] > 4
    assert Encoder.load(tmp_path / "run").is_nonnegative
    assert ("progress_rate" in history[-1]) is (name in ("info_nce", "spectral", "queue"))


def test_the_spectral_loss_does_not_grow_with_the_number_of_features():
    """It compares by products; those of many features would drive all of them to zero."""
    generator = torch.Generator().manual_seed(0)
    a, b = torch.rand(2, 6, 5, generator=generator, dtype=torch.float64)
    loss = objective(LossSettings(name="spectral"))
    torch.testing.assert_close(loss(a.repeat(1, 200), b.repeat(1, 200), None), loss(a, b, None))
    sixteen = (a.repeat(1, 4)[:, :16], b.repeat(1, 4)[:, :16])
    torch.testing.assert_close(loss(*sixteen, None), spectral_contrastive(*sixteen))


def test_only_the_supervised_contrastive_loss_sees_labels():
    generator = torch.Generator().manual_seed(0)
    a, b = torch.rand(2, 6, 5, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    for name in PAIR_LOSSES[:-1]:
        if name == "soft_info_nce":  # gets the teacher's vectors in their place
            continue
        loss = objective(LossSettings(name=name))
        is_same = torch.equal(loss(a, b, labels), loss(a, b, labels.roll(1)))
        assert is_same is (name != "supervised_contrastive"), name
    found = objective(LossSettings(name="supervised_contrastive", temperature=0.2))(a, b, labels)
    expected = info_nce(a, b, temperature=0.2, groups=labels, same_group="positive")
    torch.testing.assert_close(found, expected)


def config(**loss):
    return TrainConfig(loss=LossSettings(**loss), training=LoopSettings(batch_size=4))


def encoder(n_features=6):
    settings = experiment(f"encoder.projector.n_features={n_features}")
    from nonneg.runs import build_encoder

    return build_encoder(settings, (1, 8, 8))


def test_supervised_contrastive_learning_needs_labels():
    with pytest.raises(ValueError, match="learns from labels; the data has none"):
        contrastive_task(encoder(), None, config(name="supervised_contrastive"))


def test_a_queue_shorter_than_a_batch_is_refused():
    with pytest.raises(ValueError, match=r"loss.queue_size=3 is below training.batch_size=4"):
        contrastive_task(encoder(), None, config(name="queue", queue_size=3))


def test_chunks_do_not_go_with_a_queue():
    settings = TrainConfig(loss=LossSettings(name="queue"), training=LoopSettings(chunk_size=8))
    with pytest.raises(ValueError, match="chunk_size does not go with loss=queue"):
        contrastive_task(encoder(), None, settings)


def test_a_queue_does_not_compare_the_backbones_output():
    with pytest.raises(ValueError, match=r"keeps features.*loss.backbone_weight=0"):
        contrastive_task(encoder(), None, config(name="queue", backbone_weight=0.5))


def test_a_queue_keeps_keys_of_features_that_do_not_start_anew():
    settings = TrainConfig(loss=LossSettings(name="queue"), training=LoopSettings(reinit_at=0.5))
    with pytest.raises(ValueError, match=r"keeps keys.*training.reinit_at=0"):
        contrastive_task(encoder(), None, settings)


def test_a_frozen_backbone_is_not_taught():
    settings = EncoderSettings(frozen=True)
    frozen = Encoder(settings, (3,), backbone=torch.nn.Linear(3, 4))
    with pytest.raises(ValueError, match=r"encoder.frozen.*loss.backbone_weight=0"):
        contrastive_task(frozen, None, config(backbone_weight=0.5))


@pytest.mark.parametrize("weight", [0, 0.3])
def test_the_backbones_output_has_its_share_of_the_gradient(weight):
    """The loss of centred outputs is added with its weight; that of the features is told."""
    torch.manual_seed(0)
    head = ProjectorSettings(hidden=(), n_features=6)
    model = Encoder(EncoderSettings(projector=head), (3,), backbone=torch.nn.Linear(3, 4)).double()
    views = torch.randn(2, 5, 3, dtype=torch.float64)
    settings = config(temperature=0.5, backbone_weight=weight)
    told = contrastive_task(model, lambda _: tuple(views), settings).learn(FIVE, Plain(model))
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    hidden = model.backbone(views.flatten(0, 1))
    features = model.projector(hidden).clamp_min(0)
    mean_row = sum(hidden) / len(hidden)
    signed = torch.stack([row - mean_row for row in hidden])
    of_features = info_nce(features[:5], features[5:], temperature=0.5)
    of_hidden = info_nce(signed[:5], signed[5:], temperature=0.5)
    (of_features + weight * (of_hidden - of_features)).backward()
    torch.testing.assert_close(told, of_features.detach())
    for gradient, parameter in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad)


def test_with_all_of_the_weight_the_features_do_not_touch_the_backbone():
    """The backbone has the gradient of its own output alone, the projector that of the features."""
    torch.manual_seed(0)
    head = ProjectorSettings(hidden=(), n_features=6)
    model = Encoder(EncoderSettings(projector=head), (3,), backbone=torch.nn.Linear(3, 4)).double()
    views = torch.randn(2, 5, 3, dtype=torch.float64)
    settings = config(temperature=0.5, backbone_weight=1)
    told = contrastive_task(model, lambda _: tuple(views), settings).learn(FIVE, Plain(model))
    hidden = model.backbone(views.flatten(0, 1))
    features = model.projector(hidden).clamp_min(0)
    of_features = info_nce(features[:5], features[5:], temperature=0.5)
    signed = hidden - hidden.mean(dim=0)
    of_hidden = info_nce(signed[:5], signed[5:], temperature=0.5)
    torch.testing.assert_close(told, of_features.detach())
    for loss, part in ((of_hidden, model.backbone), (of_features, model.projector)):
        expected = torch.autograd.grad(loss, tuple(part.parameters()), retain_graph=True)
        for gradient, parameter in zip(expected, part.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad, gradient)


def test_keys_take_the_places_of_the_oldest():
    both = EncoderWithQueue(encoder(2), 5, seed=0)
    before = both.queue.clone()
    both.enqueue(torch.full((3, 2), 1.0))
    assert torch.equal(both.queue[:3], torch.ones(3, 2))
    assert torch.equal(both.queue[3:], before[3:])
    both.enqueue(torch.full((3, 2), 2.0))
    assert both.queue[:, 0].tolist() == [2.0, 1.0, 1.0, 2.0, 2.0]
    assert int(both.oldest) == 1


def test_the_copy_follows_slowly_and_does_not_learn():
    both = EncoderWithQueue(encoder(), 8, seed=0)
    with torch.no_grad():
        for parameter in both.encoder.parameters():
            parameter.add_(1.0)
    before = [parameter.clone() for parameter in both.slow.parameters()]
    both.follow(0.9)
    for old, new in zip(before, both.slow.parameters(), strict=True):
        torch.testing.assert_close(new, old + 0.1)
        assert not new.requires_grad


class TwoViews:
    def __call__(self, batch):
        return batch.inputs, batch.inputs.flip(-1)


class Plain:
    """An engine without devices: forward and backward as they are."""

    def __init__(self, module):
        self.module = module

    def forward(self, inputs, **options):
        return self.module(inputs, **options)

    def backward(self, loss):
        loss.backward()


def test_a_step_compares_with_the_queue_as_it_was_and_then_fills_it():
    task = contrastive_task(
        encoder(), TwoViews(), config(name="queue", queue_size=8, temperature=0.2)
    )
    inputs, numbers = torch.rand(4, 1, 8, 8), torch.arange(4)
    batch = Batch(inputs, numbers, Draws(0, 0, numbers), fetch=inputs.__getitem__)
    queue = task.both.queue.clone()
    loss = task.learn(batch, Plain(task.module))
    # In training mode batch normalisation makes the features depend on the batch alone.
    anchors, keys = task.both(inputs).features, task.both.keys(inputs.flip(-1))
    torch.testing.assert_close(loss, info_nce_queue(anchors, keys, queue, temperature=0.2))
    torch.testing.assert_close(task.both.queue[:4], keys)
    assert torch.equal(task.both.queue[4:], queue[4:])
    assert any(p.grad is not None for p in task.encoder.parameters())


def test_a_run_with_a_queue_resumes_to_the_same_result(tmp_path):
    settings = experiment(
        "loss=queue", "loss.queue_size=128", "training.checkpoint_every=5", "data.n_train=640"
    )
    run_experiment(settings, out=tmp_path / "whole", console=QUIET)
    run_experiment(settings, out=tmp_path / "cut", console=QUIET)
    # As if it had been killed after a checkpoint in the middle: what came later is gone.
    folder = tmp_path / "cut"
    last = sorted((folder / "checkpoints").iterdir())[-1]
    last.unlink()
    (folder / "model.safetensors").unlink()
    run_experiment(settings, out=folder, resume=True, console=QUIET)
    weights = [(tmp_path / n / "model.safetensors").read_bytes() for n in ("whole", "cut")]
    assert weights[0] == weights[1]


def test_a_gate_learns_with_the_encoder(tmp_path):
    settings = experiment("encoder.gate.weight=0.001", "encoder.gate.prior=0.6")
    run_experiment(settings, out=tmp_path / "run", console=QUIET)
    gate = Encoder.load(tmp_path / "run").gate
    assert gate is not None
    assert float(gate.layers[-1].weight.detach().abs().sum()) > 0


def test_chunks_do_not_go_with_a_gate():
    settings = experiment("encoder.gate.prior=0.6", "training.chunk_size=8")
    from nonneg.runs import build_encoder

    with pytest.raises(ValueError, match=r"chunk_size does not go with encoder\.gate"):
        contrastive_task(build_encoder(settings, (1, 8, 8)), None, settings)


def test_the_page_names_the_function_of_every_objective():
    page = (Path(__file__).parents[2] / "docs" / "images.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `(\w+)`[^|]*\|[^|]*\|[^|]*\|$", page, re.MULTILINE))
    assert set(rows) == set(PAIR_LOSSES) - {"info_nce"}
    assert all(callable(getattr(losses, function)) for function in rows.values())


def test_soft_targets_come_from_the_backbones_centred_outputs():
    torch.manual_seed(0)
    head = ProjectorSettings(hidden=(), n_features=6)
    model = Encoder(EncoderSettings(projector=head), (3,), backbone=torch.nn.Linear(3, 4)).double()
    views = torch.randn(2, 5, 3, dtype=torch.float64)
    settings = config(
        name="soft_info_nce", temperature=0.4, teacher_temperature=0.7, partner_rate=0.2
    )
    told = contrastive_task(model, lambda _: tuple(views), settings).learn(FIVE, Plain(model))
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    hidden = model.backbone(views.flatten(0, 1))
    features = model.projector(hidden).clamp_min(0)
    teacher = (hidden - hidden.mean(dim=0)).detach()
    weights = cosine_weights(teacher[:5], teacher[5:], temperature=0.7)
    expected = soft_info_nce(
        features[:5], features[5:], weights=weights, temperature=0.4, partner_rate=0.2
    )
    expected.backward()
    torch.testing.assert_close(told, expected.detach())
    for gradient, parameter in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad)


def test_soft_targets_do_not_teach_the_backbone_that_makes_them():
    settings = config(name="soft_info_nce", backbone_weight=0.5)
    with pytest.raises(ValueError, match=r"^loss=soft_info_nce learns .*loss\.backbone_weight=0$"):
        contrastive_task(encoder(2), lambda _: None, settings)
