"""Losses and measurements of numbers near the ends of what each type holds.

Scales are powers of two, which round nothing: what does not depend on the scale must not change,
and the rest is known from float64.
"""

import math

import pytest
import torch

from nonneg import NonNegative, metrics
from nonneg.losses import (
    barlow_twins,
    cosine_weights,
    decoupled_contrastive,
    info_nce,
    info_nce_queue,
    non_negative_cross_entropy,
    pairwise_sigmoid,
    soft_info_nce,
    spectral_contrastive,
    vicreg,
)

# The least and the largest exponents of scales, with room for the numbers themselves; lengths stay
# above 1e-6, below which losses take rows for zero.
SCALES = {
    torch.float16: (-12, 12),
    torch.bfloat16: (-17, 120),
    torch.float32: (-17, 120),
    torch.float64: (-17, 1010),
}
DTYPES = tuple(SCALES)


def views(n=8, d=12):
    """Two views of small whole numbers, which every type holds exactly; mostly zero."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randint(-3, 4, (n, d), generator=generator).clamp(min=0).double()
    a[:, 0] += 1
    return a, (a + torch.randint(0, 2, (n, d), generator=generator)).double()


def scaled(z, dtype, exponent):
    return (z * 2.0**exponent).to(dtype)


LOSSES = {
    "info_nce": lambda a, b: info_nce(a, b, temperature=0.2),
    "info_nce across": lambda a, b: info_nce(a, b, temperature=0.2, negatives="cross"),
    "info_nce weighted": lambda a, b: info_nce(a, b, temperature=0.2, weights=torch.arange(8)),
    "decoupled": lambda a, b: decoupled_contrastive(a, b, temperature=0.2),
    "info_nce grouped": lambda a, b: info_nce(a, b, temperature=0.2, groups=torch.arange(8) // 2),
    "info_nce queue": lambda a, b: info_nce_queue(a, b, b.detach().flip(0), temperature=0.2),
    "soft": lambda a, b: soft_info_nce(a, b, weights=torch.full((8, 8), 1 / 8), temperature=0.2),
    "soft by cosine": lambda a, b: soft_info_nce(
        a, b, weights=cosine_weights(a.detach(), b.detach(), temperature=0.5), temperature=0.2
    ),
}


def assert_finite(grads):
    """Of what has a gradient: keys of a queue have none."""
    found = [grad for grad in grads if grad is not None]
    assert found
    assert all(grad.isfinite().all() for grad in found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_directions_do_not_depend_on_the_scale(dtype, end, name):
    a, b = views()
    expected = float(LOSSES[name](a, b))
    exponent = SCALES[dtype][end]
    near = [scaled(z, dtype, exponent).requires_grad_() for z in (a, b)]
    loss = LOSSES[name](*near)
    assert loss.item() == pytest.approx(expected, rel=1e-12 if dtype == torch.float64 else 2e-6)
    loss.backward()
    assert_finite(z.grad for z in near)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LOSSES)
def test_rows_of_very_different_lengths(dtype, name):
    """Each row has a scale of its own, from one end of the type to the other."""
    a, b = views()
    low, high = SCALES[dtype]
    exponents = torch.linspace(low, high, len(a)).round().double()[:, None]
    found = LOSSES[name](*((z * 2**exponents).to(dtype) for z in (a, b)))
    expected = float(LOSSES[name](a, b))
    assert float(found) == pytest.approx(expected, rel=1e-12 if dtype == torch.float64 else 2e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [-30, -10, 0, 10, 30])
def test_the_spectral_loss_is_that_of_double_precision(dtype, exponent):
    if dtype == torch.float16 and abs(exponent) > 12:
        pytest.skip("float16 does not hold such numbers")
    a, b = views()
    near = [scaled(z, dtype, exponent).requires_grad_() for z in (a, b)]
    expected = float(spectral_contrastive(*(z.detach().double() for z in near)))
    loss = spectral_contrastive(*near)
    assert loss.item() == pytest.approx(expected, rel=2e-6)
    loss.backward()
    # It grows with the third power of the numbers, beyond what float16 holds.
    fits = not (dtype == torch.float16 and exponent > 0)
    assert not fits or all(z.grad.isfinite().all() for z in near)


def _cross_entropy(features, other):
    return non_negative_cross_entropy(features, other[:4], torch.arange(8) % 4)


# With the power of the numbers that a loss grows with; what it is beyond the type has no value.
OTHERS = {
    "pairwise_sigmoid": (lambda a, b: pairwise_sigmoid(a, b, temperature=0.2, bias=0.0), 1),
    "barlow_twins": (barlow_twins, 2),
    "vicreg": (vicreg, 4),
    "non_negative_cross_entropy": (_cross_entropy, 2),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OTHERS)
def test_other_losses_are_those_of_double_precision(dtype, name):
    loss, power = OTHERS[name]
    low, high = SCALES[dtype]
    # A gradient in float16 may be beyond it where the loss, in float32, is not.
    for exponent in (low, 0, 3 if dtype == torch.float16 else (high - 10) // power):
        near = [scaled(z, dtype, exponent).requires_grad_() for z in views()]
        found = loss(*near)
        expected = float(loss(*(z.detach().double() for z in near)))
        assert found.item() == pytest.approx(expected, rel=2e-5, abs=1e-6)
        found.backward()
        assert_finite(z.grad for z in near)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["relu", "rep_relu", "identity"])
def test_transforms_keep_extreme_scores(dtype, kind):
    ends = torch.finfo(dtype)
    scores = torch.tensor(
        [[ends.max, ends.min, ends.tiny, -ends.tiny, 0.0, 1.0]], dtype=dtype, requires_grad=True
    )
    features = NonNegative(kind)(scores)
    assert features.isfinite().all()
    assert kind == "identity" or (features >= 0).all()
    assert features[0, 0] == ends.max
    (grad,) = torch.autograd.grad(features.double().sum(), scores)
    assert grad.isfinite().all()


Y = torch.arange(8) % 2
FACTORS = torch.stack([Y, torch.arange(8) // 4], dim=1)
VOTES = {"n_votes": 9, "group_size": 4, "random_state": 0}
MEASURED = {
    "sparsity": metrics.sparsity,
    "active_per_sample": metrics.active_per_sample,
    "alive_features": lambda Z: metrics.alive_features(Z).sum(),
    "expected_activation": metrics.expected_activation,
    "select": lambda Z: metrics.select(Z, 5).sum(),
    "effective_rank": metrics.effective_rank,
    "feature_correlation": metrics.feature_correlation,
    "class_consistency": lambda Z: metrics.class_consistency(Z, Y),
    "class_entropy": lambda Z: metrics.class_entropy(Z, Y),
    "label_level": lambda Z: metrics.label_level(Z, {"a": Y, "b": FACTORS[:, 1]}, random_state=0),
    "precision_at_k": lambda Z: metrics.precision_at_k(Z, Y, k=3),
    "mean_average_precision_at_k": lambda Z: metrics.mean_average_precision_at_k(Z, Y, k=3),
    "top_purity": lambda Z: metrics.top_purity(Z, Y, m=2),
    "sepin": lambda Z: metrics.sepin(Z, Z.flip(0), temperature=0.2),
    "monosemanticity": lambda Z: metrics.monosemanticity(Z, FACTORS + 1),
    "monosemanticity, reference": lambda Z: metrics.monosemanticity(views()[1], Z),
    "intruder_accuracy": lambda Z: metrics.intruder_accuracy(Z, FACTORS + 1, n_top=5, n_trials=9),
    "match_features": lambda Z: metrics.match_features(Z, views()[1]),
    "mig": lambda Z: metrics.mig(Z, FACTORS),
    "sap": lambda Z: metrics.sap(Z, FACTORS),
    "factor_vae_score": lambda Z: metrics.factor_vae_score(Z, FACTORS, **VOTES),
    "beta_vae_score": lambda Z: metrics.beta_vae_score(Z, FACTORS, **VOTES),
    "dci": lambda Z: metrics.dci(Z, FACTORS),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MEASURED)
def test_measurements_do_not_depend_on_the_scale(dtype, name):
    Z = views()[0]
    expected = float(MEASURED[name](Z))
    assert math.isfinite(expected)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-5
    low, high = {torch.float64: (-900, 900), torch.float16: (-12, 12)}.get(dtype, (-100, 100))
    for exponent in (low, 0, high):
        found = float(MEASURED[name](scaled(Z, dtype, exponent)))
        assert found == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_zero_and_subnormal_rows_are_finite(dtype):
    a, b = (z.to(dtype) for z in views())
    a[0] = 0
    a[1] = 0
    a[1, 3] = torch.finfo(dtype).smallest_normal / 4
    a.requires_grad_()
    for name, loss in LOSSES.items():
        found = loss(a, b)
        (grad,) = torch.autograd.grad(found, a)
        assert found.isfinite(), name
        assert grad.isfinite().all(), name
