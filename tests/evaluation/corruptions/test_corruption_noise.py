import math

import pytest
import torch
from scipy import stats

from nonneg.evaluation.corruptions.kinds import (
    IMPULSE_RATE,
    PHOTONS,
    STD,
    gaussian_noise,
    impulse_noise,
    poisson,
    shot_noise,
)
from nonneg.pairs import Draws


def grey(value, *, n=40, side=32):
    return torch.full((n, 3, side, side), value), Draws(3, 0, torch.arange(n))


@pytest.mark.parametrize(
    ("side", "scale", "severity"), [(8, 1, 5), (32, 1, 1), (32, 1, 5), (128, 2, 1), (128, 2, 2)]
)
def test_gaussian_noise_is_normal_with_the_stated_std(severity, side, scale):
    images, draws = grey(0.5, n=40 if side < 128 else 3, side=side)
    noise = (gaussian_noise(images, severity=severity, draws=draws) - 0.5).flatten()
    std = STD[severity - 1] * scale
    # The tests below allow five standard errors, and KS one sample in a thousand.
    assert abs(noise.mean()) < 5 * std / math.sqrt(len(noise))
    assert abs(noise.std() / std - 1) < 5 / math.sqrt(2 * len(noise))
    assert stats.kstest(noise[:5000].numpy() / std, "norm").pvalue > 1e-3


@pytest.mark.parametrize("value", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("severity", [1, 3, 5])
def test_shot_noise_has_the_mean_and_variance_of_counted_photons(severity, value):
    images, draws = grey(value)
    noisy = shot_noise(images, severity=severity, draws=draws).flatten().double()
    photons = PHOTONS[severity - 1]
    variance = value / photons
    assert abs(noisy.mean() - value) < 5 * math.sqrt(variance / len(noisy))
    # The variance of a sample's variance: the fourth moment of a Poisson is 3m² + m.
    error = math.sqrt((2 + 1 / (value * photons)) / len(noisy))
    assert abs(noisy.var() / variance - 1) < 5 * error
    counts = noisy * photons
    torch.testing.assert_close(counts, counts.round(), atol=1e-3, rtol=0)


def test_shot_noise_counts_fewer_photons_in_large_images():
    images, draws = grey(0.5, n=3, side=128)
    noisy = shot_noise(images, severity=1, draws=draws)
    torch.testing.assert_close(float(noisy.var()), 0.5 / (PHOTONS[0] / 4), rtol=0.05, atol=0)


def test_poisson_counts_are_the_quantiles_of_scipy():
    # Midpoints of steps, so that no point lies on a jump of the distribution.
    uniform = (torch.arange(4096) * 4096 + 1) * 2.0**-24
    for mean in (0.0, 0.01, 0.7, 3.0, 9.9, 10.1, 30.0, 120.0, 500.0):
        counts = poisson(torch.full_like(uniform, mean), uniform).double()
        exact = torch.from_numpy(stats.poisson.ppf(uniform.double().numpy(), mean)).clamp(min=0)
        off = (counts - exact).abs()
        assert off.max() <= (0 if mean < 10 else 1), mean
        assert off.mean() < 0.02, mean


def test_poisson_is_finite_at_both_ends_of_the_draws():
    ends = torch.tensor([0.0, 1 - 2.0**-24])
    for mean in (0.0, 1e-6, 5.0, 9.999, 10.0, 500.0):
        counts = poisson(torch.full((2,), mean), ends)
        assert torch.isfinite(counts).all()
        assert (counts >= 0).all()
        assert counts[1] <= mean + 7 * math.sqrt(mean) + 8


@pytest.mark.parametrize(("side", "scale"), [(16, 1), (32, 1), (128, 2)])
@pytest.mark.parametrize("severity", [1, 5])
def test_impulse_noise_loses_the_stated_share_half_to_each_end(severity, side, scale):
    images, draws = grey(0.5, n=60 if side < 128 else 4, side=side)
    noisy = impulse_noise(images, severity=severity, draws=draws)
    half = IMPULSE_RATE[severity - 1] * scale / 2
    error = 5 * math.sqrt(half / images.numel())
    assert abs((noisy == 0).float().mean() - half) < error
    assert abs((noisy == 1).float().mean() - half) < error
    assert ((noisy == 0) | (noisy == 1) | (noisy == 0.5)).all()


def test_impulses_of_bytes_are_0_and_255_and_come_for_each_channel():
    images = torch.full((20, 3, 32, 32), 100, dtype=torch.uint8)
    noisy = impulse_noise(images, severity=5, draws=Draws(0, 0, torch.arange(20)))
    assert noisy.unique().tolist() == [0, 100, 255]
    lost = noisy != 100
    assert 0 < lost.all(1).float().mean() < 0.01


def test_a_higher_severity_loses_what_a_lower_one_did():
    images, draws = grey(0.5)
    lost = [impulse_noise(images, severity=s, draws=draws) != 0.5 for s in (2, 4)]
    assert (lost[1] >= lost[0]).all()


def test_the_kinds_of_noise_are_independent():
    images, draws = grey(0.5)
    kinds = [
        kind(images, severity=2, draws=draws).flatten()
        for kind in (gaussian_noise, shot_noise, impulse_noise)
    ]
    correlation = torch.corrcoef(torch.stack(kinds)) - torch.eye(3)
    assert correlation.abs().max() < 5 / math.sqrt(images.numel())
