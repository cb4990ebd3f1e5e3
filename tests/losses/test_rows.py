"""Rows that losses compare: in float32 or better."""

import pytest
import torch

from nonneg.losses.rows import at_least_float32


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_half_precision_becomes_float32_and_the_rest_stays(given, made):
    z = torch.ones(2, 2, dtype=given)
    assert at_least_float32(z).dtype == made
    assert (at_least_float32(z) is z) == (given == made)
