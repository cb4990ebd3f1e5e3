"""InfoNCE refuses what it cannot compute, each time with one sentence that names the fix."""

import math

import pytest
import torch

from nonneg import info_nce
from nonneg.losses.checks import check_two_views


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: info_nce(torch.ones(1, 4), torch.ones(1, 4), temperature=0.2),
            "a batch of 1 pairs has no negatives; give the loss at least 2 pairs",
        ),
        (
            lambda: info_nce(torch.ones(2, 4), torch.ones(3, 4), temperature=0.2),
            r"z_a and z_b must have the same shape, got \(2, 4\) and \(3, 4\)",
        ),
        (
            lambda: info_nce(torch.ones(2), torch.ones(2), temperature=0.2),
            r"z_a must be \(n_samples, n_features\), got shape \(2,\)",
        ),
        (
            lambda: info_nce(torch.ones(2, 2), torch.ones(2, 2), temperature=0.2, negatives="all"),
            "unknown negatives 'all'; known: both, cross",
        ),
        (
            lambda: info_nce(torch.ones(2, 2), torch.ones(2, 2), temperature=1, same_group="near"),
            "unknown same_group 'near'; known: ignored, positive",
        ),
        (
            lambda: info_nce(
                torch.ones(2, 2), torch.ones(2, 2), temperature=1, groups=torch.tensor([4, 4])
            ),
            "all 2 pairs are in group 4, so there are no negatives; "
            "use a batch of several groups, or same_group='positive'",
        ),
        (
            lambda: info_nce(
                torch.ones(2, 2), torch.ones(2, 2), temperature=1, groups=torch.arange(3)
            ),
            r"groups must have one number for each of the 2 pairs, got shape \(3,\)",
        ),
        *(
            (
                lambda w=w: info_nce(
                    torch.ones(2, 2), torch.ones(2, 2), temperature=1, weights=torch.tensor(w)
                ),
                sentence,
            )
            for w, sentence in (
                ([1.0, -1.0], "weights must be finite and at least 0"),
                ([1.0, math.nan], "weights must be finite and at least 0"),
                ([1.0, math.inf], "weights must be finite and at least 0"),
                ([0.0, 0.0], "all weights are 0: there is nothing to average"),
            )
        ),
        *(
            (
                lambda t=t: info_nce(torch.ones(2, 2), torch.ones(2, 2), temperature=t),
                f"temperature must be a finite number above 0, got {t:g}",
            )
            for t in (0.0, -1.0, math.nan, math.inf)
        ),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        call()


def test_integers_are_refused():
    whole = torch.ones(2, 2, dtype=torch.int64)
    with pytest.raises(TypeError, match=r"^z_a must be floating point, got torch\.int64$"):
        info_nce(whole, whole, temperature=0.2)


def test_groups_are_whole_numbers():
    rows = torch.ones(2, 2)
    with pytest.raises(TypeError, match=r"^groups must be whole numbers, got torch\.float32$"):
        info_nce(rows, rows, temperature=0.2, groups=torch.tensor([0.0, 1.0]))


def test_views_without_features_are_refused():
    nothing = torch.zeros(4, 0)
    with pytest.raises(ValueError, match=r"z_a must be \(n_samples, n_features\), got .*\(4, 0\)"):
        check_two_views(nothing, nothing)
