import numpy as np
import pytest

from nonneg.factorization import random_world


@pytest.fixture
def overlapping():
    """30 samples, 4 classes, every class with an anchor, nearly every other sample shared."""
    return random_world(30, 4, np.random.default_rng(0), concentration=0.5)
