import math

import pytest

from nonneg.training.optimizers import learning_rate_factor


def test_warm_up_is_linear_and_starts_moving():
    rates = [learning_rate_factor(s, n_warmup=10, n_steps=100) for s in range(10)]
    assert rates == pytest.approx([(s + 1) / 10 for s in range(10)])


def test_cosine_is_half_way_in_the_middle_and_zero_at_the_end():
    assert learning_rate_factor(55, n_warmup=10, n_steps=100) == pytest.approx(0.5)
    assert learning_rate_factor(100, n_warmup=10, n_steps=100) == pytest.approx(0, abs=1e-12)
    assert learning_rate_factor(40, n_warmup=10, n_steps=100) == pytest.approx(
        0.5 * (1 + math.cos(math.pi / 3))
    )


def test_without_warm_up_it_starts_at_the_peak():
    assert learning_rate_factor(0, n_warmup=0, n_steps=10) == 1
