"""A toy to train: vectors of six planted parts, pairs of them, a small encoder."""

import torch
from rich.console import Console

from nonneg import Encoder, EncoderSettings, TrainConfig
from nonneg.backbones import BackboneSettings
from nonneg.data import ArrayData
from nonneg.head.projector import ProjectorSettings

QUIET = Console(quiet=True)
N_PARTS = 6


def planted(n=512, seed=0):
    """Vectors of one of six parts, hidden by a fixed rotation: what NCL should find again."""
    generator = torch.Generator().manual_seed(seed)
    part = torch.randint(N_PARTS, (n,), generator=generator)
    rotation, _ = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(9)))
    vectors = rotation[part] + 0.05 * torch.randn(n, 16, generator=generator)
    return ArrayData(vectors, labels=part, name="planted")


def noisy_pairs(batch):
    """Pairs of a user's own: a function of the batch."""
    noise = 0.15 * batch.draws.normal(32)
    return batch.inputs + noise[:, :16], batch.inputs + noise[:, 16:]


def encoder(kind="relu", norm="batch", seed=0, gate=None, n_features=24):
    settings = EncoderSettings(
        backbone=BackboneSettings(name="mlp", hidden=(32,)),
        projector=ProjectorSettings(hidden=(32,), n_features=n_features, norm=norm),
        nonnegative=kind,
        gate=gate,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Encoder(settings, (16,))


def config(**loop):
    training = {"epochs": 20, "batch_size": 128, **loop}
    values = {"loss": {"temperature": 0.2}, "optimizer": {"lr": 0.01}, "training": training}
    return TrainConfig.read(values)
