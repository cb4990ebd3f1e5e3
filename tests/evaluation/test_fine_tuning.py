"""Fine-tuning starts from the encoder that it is given, and works on a copy."""

import pytest
import torch

from nonneg import Encoder, EncoderSettings
from nonneg.backbones import BackboneSettings
from nonneg.data import ArrayData
from nonneg.evaluation import fine_tune
from nonneg.evaluation.subject import FineTuneSettings
from nonneg.head.projector import ProjectorSettings

LABELS = torch.arange(60) % 3
DATA = ArrayData(
    torch.eye(3)[LABELS] + 0.1 * torch.randn(60, 3, generator=torch.Generator().manual_seed(0)),
    labels=LABELS,
)
SHORT = FineTuneSettings(epochs=2, batch_size=20)


def encoder_of(seed):
    settings = EncoderSettings(
        backbone=BackboneSettings(name="mlp", hidden=(8,)),
        projector=ProjectorSettings(hidden=(), n_features=4),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Encoder(settings, (3,))


def test_a_finished_run_is_taken_up_and_the_encoder_stays_as_it_is(tmp_path):
    encoder = encoder_of(0)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    first = fine_tune(encoder, DATA, DATA, out=tmp_path / "tuned", settings=SHORT)
    again = fine_tune(encoder_of(0), DATA, DATA, out=tmp_path / "tuned", settings=SHORT)
    assert first.value == again.value
    assert first.history == again.history
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())


def test_an_encoder_of_double_precision_is_tuned_in_it(tmp_path):
    double = fine_tune(encoder_of(0).double(), DATA, DATA, out=tmp_path / "double", settings=SHORT)
    single = fine_tune(encoder_of(0), DATA, DATA, out=tmp_path / "single", settings=SHORT)
    assert double.history[-1]["loss"] == pytest.approx(single.history[-1]["loss"], rel=1e-4)
    assert double.history[-1]["loss"] != single.history[-1]["loss"]
    assert double.value == single.value


def test_the_folder_of_another_backbone_is_refused(tmp_path):
    fine_tune(encoder_of(0), DATA, DATA, out=tmp_path / "tuned", settings=SHORT)
    with pytest.raises(FileExistsError, match="other settings \\(starts_at"):
        fine_tune(encoder_of(1), DATA, DATA, out=tmp_path / "tuned", settings=SHORT)


def test_another_projector_is_no_other_start(tmp_path):
    first = fine_tune(encoder_of(0), DATA, DATA, out=tmp_path / "tuned", settings=SHORT)
    other = encoder_of(0)
    with torch.no_grad():
        other.projector[-1].weight.add_(1)
    assert fine_tune(other, DATA, DATA, out=tmp_path / "tuned", settings=SHORT).value == first.value
