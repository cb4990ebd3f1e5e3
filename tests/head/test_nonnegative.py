import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg import NonNegative
from nonneg.head.nonnegative import TRANSFORMS, straight_through_relu

scores_lists = st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=20)

# Written out with math, one number at a time.
ORACLES = {
    "relu": lambda x: max(x, 0.0),
    "rep_relu": lambda x: max(x, 0.0),
    "softplus": lambda x: math.log1p(math.exp(-abs(x))) + max(x, 0.0),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
    "exp": math.exp,
    "identity": lambda x: x,
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
}


@pytest.mark.parametrize("kind", TRANSFORMS)
@settings(deadline=None)
@given(numbers=scores_lists)
def test_values_agree_with_the_textbook(kind, numbers):
    features = NonNegative(kind)(torch.tensor(numbers, dtype=torch.float64))
    expected = torch.tensor([ORACLES[kind](x) for x in numbers], dtype=torch.float64)
    torch.testing.assert_close(features, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_the_flag_tells_the_truth(kind):
    layer = NonNegative(kind)
    lowest = layer(torch.linspace(-30, 30, 10_001)).min()
    assert layer.is_nonnegative == bool(lowest >= 0)


def test_zeros_of_rep_relu_are_exact_and_the_gradient_is_gelus():
    scores = torch.linspace(-6, 6, 1001, requires_grad=True)
    features = straight_through_relu(scores)
    assert torch.equal(features, F.relu(scores))
    (gradient,) = torch.autograd.grad(features.sum(), scores)
    (expected,) = torch.autograd.grad(F.gelu(scores).sum(), scores)
    assert torch.equal(gradient, expected)
    assert gradient[480] > 0  # a unit just below zero still learns


def test_an_unknown_kind_lists_the_known_ones():
    expected = "unknown transform 'elu'; known: relu, rep_relu, softplus, sigmoid, exp, identity"
    with pytest.raises(ValueError, match=expected):
        NonNegative("elu")


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (NonNegative("relu", threshold=0.5), [3, 4, 0, 0]),
        (NonNegative("relu", max_active=1), [0, 4, 0, 0]),
        (NonNegative("identity", max_active=1), [0, 0, -5, 0]),
        (NonNegative("identity", threshold=0.6), [0, 0, -5, 0]),
        (NonNegative("relu", threshold=0.1, max_active=2), [3, 4, 0, 0]),
        (NonNegative("relu", max_active=9), [3, 4, 0, 1]),
        (NonNegative("relu", threshold=0.0), [3, 4, 0, 1]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_thinning_keeps_the_largest_as_they_are(layer, expected, dtype):
    row = torch.tensor([3.0, 4.0, -5.0, 1.0], dtype=dtype)
    zeros = torch.zeros(4, dtype=dtype)
    for scores in (row, torch.stack([row, zeros]), torch.stack([row, zeros])[None]):
        features = layer(scores)
        assert features.shape == scores.shape
        assert features.dtype == dtype
        assert features.view(-1, 4)[0].tolist() == expected
        assert not features.view(-1, 4)[1:].any()


def test_what_thinning_keeps_has_the_gradient_it_had_and_the_rest_has_none():
    scores = torch.randn(6, 10, generator=torch.Generator().manual_seed(0)).double()
    scores.requires_grad_()
    weights = torch.rand(6, 10, generator=torch.Generator().manual_seed(1)).double()
    (plain,) = torch.autograd.grad((NonNegative("rep_relu")(scores) * weights).sum(), scores)
    for limits in ({"threshold": 0.4}, {"max_active": 3}, {"threshold": 0.2, "max_active": 3}):
        features = NonNegative("rep_relu", **limits)(scores)
        (gradient,) = torch.autograd.grad((features * weights).sum(), scores)
        kept = features > 0
        assert 0 < kept.sum() < (scores > 0).sum()
        assert torch.equal(gradient[kept], plain[kept])
        assert "max_active" not in limits or (gradient != 0).sum(dim=1).max() <= 3
        assert not gradient[(scores > 0) & ~kept].any()


def test_limits_out_of_range_are_named():
    with pytest.raises(ValueError, match=r"in \[0, 1\], got 1\.5"):
        NonNegative(threshold=1.5)
    with pytest.raises(ValueError, match="max_active must be at least 1, got 0"):
        NonNegative(max_active=0)


def test_printing_names_the_limits_that_are_set():
    assert repr(NonNegative("relu")) == "NonNegative('relu')"
    assert repr(NonNegative(threshold=0.25, max_active=3)) == (
        "NonNegative('relu', threshold=0.25, max_active=3)"
    )
