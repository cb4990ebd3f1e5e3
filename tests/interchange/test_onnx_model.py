"""Encoders as ONNX models: ONNX Runtime gives the features of the encoder."""

import json
import sys

import numpy as np
import pytest
import torch
from torch import nn
from twelve_kinds import X_NEW, X

import nonneg
from nonneg.backbones import BackboneSettings
from nonneg.head.curation import Curation
from nonneg.head.projector import GateSettings, ProjectorSettings
from nonneg.interchange import write_onnx

for needed in ("onnx", "onnxscript"):
    pytest.importorskip(needed, reason=f"{needed} is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
FEW = {"max_steps": 20, "batch_size": 128, "random_state": 0}
ROWS = X_NEW.astype(np.float32)
# Zeros, and rows whose squares overflow or vanish in float32.
EXTREMES = np.concatenate([0 * ROWS[:1], 1e30 * ROWS[:2], 1e-30 * ROWS[:2], ROWS[:2] + 1e6])


def agrees(encoder, path, *batches):
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch in batches:
        (found,) = session.run(["features"], {"samples": batch})
        expected = encoder.encode(torch.from_numpy(batch)).features.numpy()
        assert found.dtype == np.float32
        assert found.shape == expected.shape
        np.testing.assert_allclose(
            found, expected, atol=1e-5 * max(1, abs(expected).max(initial=0)), rtol=0
        )
        if len(batch) == 7:
            assert expected.any()
    return session


def batches(rows):
    return [rows[:n] for n in (1, 2, 7)]


def test_a_fitted_head_with_all_that_is_done_to_features(tmp_path):
    """A threshold, a limit, merged and hidden features, and rows of any size."""
    ncl = nonneg.NCL(**FEW, n_components=32, max_active=5).fit(X)
    ncl.threshold_ = 0.05
    a, b, c = ncl.rank_[:3].tolist()
    ncl.encoder_.curation = Curation(merged=((a, b),), hidden=(c,))
    names = ["día", *(f"f{number}" for number in range(1, ncl.encoder_.n_features))]
    write_onnx(ncl.encoder_, tmp_path / "head.onnx", names=names)
    session = agrees(
        ncl.encoder_, tmp_path / "head.onnx", *batches(ROWS), EXTREMES, ROWS[:0], ROWS[:300]
    )
    assert json.loads(session.get_modelmeta().custom_metadata_map["feature_names"]) == names
    (zeros,) = session.run(None, {"samples": EXTREMES[:1]})
    assert not zeros.any()
    assert not ncl.encoder_.training
    assert [path.name for path in tmp_path.iterdir()] == ["head.onnx"]


@pytest.mark.parametrize(
    "backbone",
    [
        BackboneSettings(name="mlp", hidden=(8,)),
        pytest.param(BackboneSettings(name="resnet18", width=4), marks=pytest.mark.slow),
    ],
    ids=lambda settings: settings.name,
)
def test_an_image_encoder_in_training(backbone, tmp_path):
    settings = nonneg.EncoderSettings(
        backbone=backbone,
        projector=ProjectorSettings(hidden=(12,), n_features=9),
        gate=GateSettings(),
        pixel_mean=(0.3,),
        pixel_std=(0.2,),
    )
    encoder = nonneg.Encoder(settings, (1, 8, 8)).train()
    images = torch.rand(7, 1, 8, 8)
    encoder(images)  # statistics of batch normalisation
    write_onnx(encoder, tmp_path / "images.onnx")
    assert encoder.training
    agrees(encoder, tmp_path / "images.onnx", *batches(images.numpy()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"detail": "concepts"},
        {"detail": "full"},
        {"hidden": 16, "nonnegative": "softplus"},
        {"nonnegative": "identity", "max_active": 6},
        {"target_active": 4},
    ],
)
def test_every_kind_of_fit(settings, tmp_path):
    ncl = nonneg.NCL(**FEW, **settings).fit(X)
    write_onnx(ncl.encoder_, tmp_path / "head.onnx")
    agrees(ncl.encoder_, tmp_path / "head.onnx", *batches(ROWS), EXTREMES)


@pytest.mark.slow
def test_a_side_of_a_cross_fit_and_float64(tmp_path):
    both = nonneg.CrossNCL(64, **FEW, max_active=6).fit(X, X[:, :9])
    write_onnx(both.encoder_y_, tmp_path / "y.onnx")
    agrees(both.encoder_y_, tmp_path / "y.onnx", *batches(ROWS[:, :9].copy()))
    write_onnx(both.encoder_x_.double(), tmp_path / "x.onnx")
    agrees(both.encoder_x_.float(), tmp_path / "x.onnx", *batches(ROWS))


def test_what_is_not_written_leaves_nothing(tmp_path, monkeypatch):
    settings = nonneg.EncoderSettings(projector=ProjectorSettings(hidden=(), n_features=3))
    encoder = nonneg.Encoder(settings, (4,), backbone=nn.Linear(4, 2))
    with pytest.raises(ValueError, match=r"would be a .onnx file; let its name end in .onnx"):
        write_onnx(encoder, tmp_path / "model.pt")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"pip install 'nonneg\[onnx\]'"):
        write_onnx(encoder, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


class Outside(nn.Linear):
    """What NumPy computes is in no graph."""

    def forward(self, samples):
        return super().forward(samples) * float(np.linalg.norm(samples.tolist()))


@pytest.mark.slow
def test_what_onnx_cannot_hold(tmp_path):
    settings = nonneg.EncoderSettings(projector=ProjectorSettings(hidden=(), n_features=3))
    encoder = nonneg.Encoder(settings, (4,), backbone=Outside(4, 2))
    with pytest.raises(ValueError, match=r"cannot be written as ONNX \(.*--to jsonl"):
        write_onnx(encoder, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
