import math
import statistics

import pytest
import torch

from nonneg.evaluation.few_labels import few_label_probe
from nonneg.evaluation.probe.linear import balanced_draw, fitted_probe


def blobs(n, d=8, n_classes=4, seed=0, spread=1.5):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(n_classes, d, generator=torch.Generator().manual_seed(99)) * 1.5
    labels = torch.arange(n) % n_classes
    return centres[labels] + spread * torch.randn(n, d, generator=generator), labels


def test_counts_mean_and_spread():
    x, y = blobs(400)
    test_x, test_y = blobs(100, seed=1)
    result = few_label_probe(x, y, test_x, test_y, label_rate=0.05, n_draws=4)
    assert (result.n_labels, result.n_per_class, result.n_test) == (20, (5, 5), 100)
    assert len(result.per_draw) == len(result.penalties) == result.n_draws == 4
    assert len(set(result.per_draw)) > 1
    mean = sum(result.per_draw) / 4
    assert result.value == float(result) == pytest.approx(mean)
    spread = math.sqrt(sum((a - mean) ** 2 for a in result.per_draw) / 3)
    assert result.std == pytest.approx(spread)


def test_more_labels_help():
    x, y = blobs(800)
    test_x, test_y = blobs(400, seed=1)
    few, many = (
        few_label_probe(x, y, test_x, test_y, label_rate=rate, n_draws=3) for rate in (0.005, 0.1)
    )
    assert few.n_per_class == (1, 1)
    assert few.value + 0.1 < many.value
    assert few.value > 0.4  # chance is 0.25
    assert few.std > many.std


def test_all_labels_are_the_plain_probe_in_every_draw():
    x, y = blobs(100)
    test_x, test_y = blobs(100, seed=1)
    result = few_label_probe(x, y, test_x, test_y, label_rate=1.0, n_draws=1)
    plain = fitted_probe(x, y, n_folds=5)
    assert result.value == plain.accuracy(test_x, test_y)
    assert result.penalties == (plain.penalty,)
    assert math.isnan(result.std)


def test_samples_that_were_not_drawn_are_not_used():
    x, y = blobs(200)
    test_x, test_y = blobs(50, seed=1)
    settings = {"label_rate": 0.1, "n_draws": 1, "seed": 3}
    first = few_label_probe(x, y, test_x, test_y, **settings)
    drawn = balanced_draw(y, 0.1, seed=3)
    other = torch.full_like(x, 1e6)
    other[drawn] = x[drawn]
    found = few_label_probe(other, y, test_x, test_y, **settings)
    assert (found.per_draw, found.penalties) == (first.per_draw, first.penalties)


def test_small_classes_give_at_least_one_label():
    x, _ = blobs(203)
    y = torch.tensor([0] * 150 + [5] * 50 + [9] * 3)
    result = few_label_probe(x, y, x, y, label_rate=0.1, n_draws=2)
    assert result.n_per_class == (1, 15)
    assert result.n_labels == 15 + 5 + 1


def test_seeds_repeat():
    x, y = blobs(200)
    first, again, other = (
        few_label_probe(x, y, x, y, label_rate=0.05, n_draws=2, seed=seed) for seed in (0, 0, 9)
    )
    assert first == again
    assert first.per_draw != other.per_draw
    assert statistics.fmean(first.per_draw) == first.value


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5])
def test_a_wrong_rate_is_named(rate):
    x, y = blobs(20)
    with pytest.raises(ValueError, match=f"^label_rate is {rate}; it must be above 0"):
        few_label_probe(x, y, x, y, label_rate=rate)


def test_wrong_inputs_are_named():
    x, y = blobs(20)
    with pytest.raises(ValueError, match=r"^test labels has 19 labels for 20 samples$"):
        few_label_probe(x, y, x, y[1:])
    with pytest.raises(ValueError, match=r"^n_draws is 0; it must be at least 1$"):
        few_label_probe(x, y, x, y, n_draws=0)
    with pytest.raises(ValueError, match=r"^train holds inf in row 0, column 0;"):
        few_label_probe(torch.full((2, 2), torch.inf), [0, 1], x, y)
