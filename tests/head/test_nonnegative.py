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
