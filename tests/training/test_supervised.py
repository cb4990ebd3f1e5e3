"""Learning from labels: the same loop, the same crash safety, a head that starts unbiased."""

import math

import pytest
import torch
from rich.console import Console

from nonneg import Encoder, EncoderSettings, TrainConfig
from nonneg.backbones import BackboneSettings
from nonneg.data import ArrayData
from nonneg.head.projector import ProjectorSettings
from nonneg.io import read_tensors
from nonneg.pairs import Batch, Draws, ImageViews, recipe
from nonneg.training import Classifier, Supervised, read_history, run_task

QUIET = Console(quiet=True)


def spirals(n=600, seed=0):
    """Three arms of a spiral: no linear classifier separates them."""
    generator = torch.Generator().manual_seed(seed)
    arm = torch.randint(3, (n,), generator=generator)
    along = torch.rand(n, generator=generator)
    angle = 4 * along + 2 * math.pi / 3 * arm
    points = along[:, None] * torch.stack([angle.cos(), angle.sin()], dim=1)
    return ArrayData(points, labels=arm, name="spirals")


def classifier(seed=0):
    settings = EncoderSettings(
        backbone=BackboneSettings(name="mlp", hidden=(64, 64)),
        projector=ProjectorSettings(hidden=(16,), n_features=8),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Classifier(Encoder(settings, (2,)), 3)


def config(epochs=40):
    return TrainConfig.read(
        {"optimizer": {"lr": 0.01}, "training": {"epochs": epochs, "batch_size": 100}}
    )


def accuracy(learner, data):
    return float((learner.predict(data.inputs) == data.labels).double().mean())


def test_an_untrained_head_prefers_no_class():
    assert torch.equal(classifier()(torch.rand(5, 2)), torch.zeros(5, 3))


def test_spirals_are_learnt(tmp_path):
    data, test = spirals(), spirals(seed=1)
    learner = classifier()
    before = accuracy(learner, test)
    run_task(
        Supervised(learner, data.labels), data, config(),
        out=tmp_path / "run", held_out=test, console=QUIET,
    )  # fmt: skip
    assert before < 0.5
    assert accuracy(learner, test) > 0.9
    history = read_history(tmp_path / "run")
    assert history[-1]["accuracy"] == pytest.approx(accuracy(learner, test))
    assert history[0]["loss"] < math.log(3) * 1.2
    loaded = Encoder.load(tmp_path / "run")
    assert torch.equal(loaded.hidden(test.inputs), learner.encoder.eval().hidden(test.inputs))
    assert torch.equal(read_tensors(tmp_path / "run" / "head.safetensors")["weight"],
                       learner.head.weight.detach())  # fmt: skip


def test_the_projector_does_not_learn(tmp_path):
    learner, untrained = classifier(), classifier()
    data = spirals()
    run_task(Supervised(learner, data.labels), data, config(2), out=tmp_path / "run", console=QUIET)
    for name, parameter in untrained.encoder.projector.named_parameters():
        assert torch.equal(learner.encoder.projector.get_parameter(name), parameter), name


def test_a_run_in_two_parts_ends_with_the_same_bytes(tmp_path):
    data = spirals()

    class StopAfter(Supervised):
        def measured(self, *args):
            if self.n == 0:
                raise KeyboardInterrupt
            self.n -= 1
            return super().measured(*args)

    whole = Supervised(classifier(), data.labels)
    run_task(whole, data, config(5), out=tmp_path / "whole", console=QUIET)
    broken = StopAfter(classifier(), data.labels)
    broken.n = 2
    with pytest.raises(KeyboardInterrupt):
        run_task(broken, data, config(5), out=tmp_path / "parts", console=QUIET)
    again = Supervised(classifier(seed=7), data.labels)
    run_task(again, data, config(5), out=tmp_path / "parts", resume=True, console=QUIET)
    for name in ("model.safetensors", "head.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


def test_the_one_view_is_the_first_of_two():
    images, numbers = torch.rand(6, 3, 16, 16), torch.arange(6)
    views = ImageViews(recipe("colour"))
    batch = Batch(images, numbers, Draws(0, 0, numbers), images.__getitem__)
    assert torch.equal(views.one_view(batch), views(batch)[0])


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least two classes, got 1"):
        Classifier(classifier().encoder, 1)


def test_a_damaged_head_is_found(tmp_path):
    learner = classifier()
    learner.save(tmp_path)
    learner.load_head(tmp_path)
    path = tmp_path / "head.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"head\.safetensors is not the file that was saved"):
        classifier().load_head(tmp_path)
