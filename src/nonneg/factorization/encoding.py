"""What does NCL find when samples are seen, not numbered? An encoder, which serves new samples."""

import numpy as np
import torch

from nonneg.encoder import Encoder, EncoderSettings
from nonneg.factorization.checking import FloatArray
from nonneg.factorization.latent_world import LatentWorld
from nonneg.factorization.sampling import warm_then_cosine
from nonneg.factorization.worlds import World
from nonneg.head.revival import last_layer
from nonneg.losses import spectral_contrastive


def observations(world: LatentWorld, n_inputs: int, rng: np.random.Generator) -> FloatArray:
    """Vectors ``(n, n_inputs)`` as which the samples of a world are seen.

    ``tanh`` of a random linear map of the posterior: samples with like posteriors look alike, but
    no input stands for a class.

    Args:
        world: Whose samples to show.
        n_inputs: Numbers a sample.
        rng: Where the linear map comes from.
    """
    mixing = rng.normal(scale=2.0, size=(world.n_classes, n_inputs))
    vectors: FloatArray = np.tanh(np.asarray(world.posterior @ mixing))
    return vectors


def train_encoder(
    world: World,
    inputs: FloatArray,
    n_features: int,
    rng: np.random.Generator,
    *,
    nonnegative: str = "rep_relu",
    norm: str = "batch",
    n_steps: int = 300,
    batch_size: int = 512,
    learning_rate: float = 0.006,
) -> Encoder:
    """A small perceptron that gives features of seen samples, learnt by the spectral loss.

    It starts with nearly every feature on for every sample, as the table does: a class whose
    samples have no feature on at the start may never get one.

    Args:
        world: Where pairs are drawn.
        inputs: What each sample looks like ``(n, n_inputs)``.
        n_features: Columns of the features.
        rng: Where the start and the draws come from.
        nonnegative: A key of ``nonneg.head.TRANSFORMS``; ``"identity"`` is ordinary
            contrastive learning. With ``"relu"`` a feature can die, and its class is then not
            found; ``"rep_relu"`` has the same values and lets it come back.
        norm: Of the hidden layers, ``"batch"``, ``"layer"`` or ``"none"``; without batch
            normalisation features die more often.
        n_steps: Batches.
        batch_size: Pairs in a batch.
        learning_rate: The largest; see :func:`warm_then_cosine`.
    """
    settings = EncoderSettings.read(
        {
            "backbone": {"name": "mlp", "hidden": (64, 64), "norm": norm},
            "projector": {"hidden": (), "n_features": n_features},
            "nonnegative": nonnegative,
        }
    )
    samples = torch.from_numpy(inputs).float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(1 << 31)))
        encoder = Encoder(settings, (inputs.shape[1],))
    _switch_features_on(encoder)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=learning_rate, fused=True)
    schedule = warm_then_cosine(optimizer, n_steps)
    for _ in range(n_steps):
        drawn = torch.from_numpy(world.draw_pairs(batch_size, rng))  # (2, batch_size)
        first, second = encoder(samples[drawn.flatten()]).features.chunk(2)
        loss = spectral_contrastive(first, second)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
    return encoder.eval()


def _switch_features_on(encoder: Encoder) -> None:
    last = last_layer(encoder)
    with torch.no_grad():
        last.weight.mul_(0.5)
        last.bias.fill_(0.5)
