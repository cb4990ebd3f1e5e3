"""Vectors of twelve kinds, and settings with which NCL tells them apart in a moment."""

import numpy as np

N_KINDS, N_EACH, N_COLUMNS = 12, 60, 40
QUICK = {"n_components": 64, "hidden": 32, "batch_size": 128, "max_steps": 150}
QUICK |= {"temperature": 0.3, "random_state": 0}


def world(seed):
    """Samples of twelve kinds: a direction each, and as much noise in all directions."""
    rng = np.random.default_rng(seed)
    directions = np.random.default_rng(0).standard_normal((N_KINDS, N_COLUMNS))
    y = np.repeat(np.arange(N_KINDS), N_EACH)
    return directions[y] + 0.7 * rng.standard_normal((len(y), N_COLUMNS)) + 3.0, y


X, Y = world(1)
X_NEW, Y_NEW = world(2)
WORDS = [f"kind {y}" for y in Y]
