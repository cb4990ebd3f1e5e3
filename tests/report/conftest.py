"""A small world to show: digits, and features that fire for those near a prototype."""

from types import SimpleNamespace

import numpy as np
import pytest

from nonneg.data import load


def _digit_world(n_prototypes=40, n_dead=4):
    data = load("digits", split="test")
    images = data.inputs.numpy()
    pixels = images.reshape(len(images), -1).astype(np.float64) / 255
    unit = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
    chosen = np.random.default_rng(0).choice(len(unit), n_prototypes, replace=False)
    near = np.maximum(unit @ unit[chosen].T - 0.7, 0)
    features = np.concatenate([near, np.zeros((len(near), n_dead))], axis=1).astype(np.float32)
    rotation = np.random.default_rng(1).normal(size=(64, 30))
    return SimpleNamespace(
        images=images,
        labels=data.labels.numpy(),
        class_names=data.class_names,
        features=features,
        signed=((pixels - pixels.mean(axis=0)) @ rotation).astype(np.float32),
        pixels=pixels,
    )


@pytest.fixture(scope="session")
def world():
    return _digit_world()
