import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg import spectral_contrastive


def slow_spectral(a, b):
    rows = [*a, *b]
    n = len(a)

    def dot(u, v):
        return sum(x * y for x, y in zip(u, v, strict=True))

    attraction = sum(dot(u, v) for u, v in zip(a, b, strict=True)) / n
    repulsion = [
        dot(rows[i], rows[j]) ** 2
        for i in range(2 * n)
        for j in range(2 * n)
        if i != j and abs(i - j) != n
    ]
    return -2 * attraction + sum(repulsion) / len(repulsion)


@settings(deadline=None, max_examples=50)
@given(n=st.integers(2, 6), d=st.integers(1, 20), seed=st.integers(0, 10_000))
def test_agrees_with_loops(n, d, seed):
    a, b = torch.randn(2, n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = slow_spectral(a.tolist(), b.tolist())
    assert float(spectral_contrastive(a, b)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_zero_features_give_zero_and_length_counts():
    zeros = torch.zeros(3, 2)
    assert float(spectral_contrastive(zeros, zeros)) == 0
    eye = torch.eye(4)
    assert float(spectral_contrastive(eye, eye)) == -2
    assert float(spectral_contrastive(2 * eye, 2 * eye)) == -8


@pytest.mark.parametrize("d", [2, 9])
def test_gradient(d):
    a, b = torch.randn(2, 4, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    inputs = (a.requires_grad_(), b.requires_grad_())
    assert torch.autograd.gradcheck(spectral_contrastive, inputs)


def test_a_rotation_changes_nothing():
    a, b = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rotation, _ = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))
    torch.testing.assert_close(
        spectral_contrastive(a @ rotation, b @ rotation), spectral_contrastive(a, b)
    )


def test_half_precision_is_computed_in_float32():
    a, b = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert torch.equal(spectral_contrastive(a, b), spectral_contrastive(a.float(), b.float()))


def test_one_pair_has_no_negatives():
    one = torch.ones(1, 2)
    with pytest.raises(ValueError, match=r"^a batch of 1 pairs has no negatives; "):
        spectral_contrastive(one, one)
