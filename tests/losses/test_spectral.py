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


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("n", "d"), [(2, 1024), (2, 2), (3, 5), (40, 8), (64, 256)])
def test_single_precision_has_its_digits(n, d, scale):
    """Products of strangers are small beside the lengths: nothing large may be subtracted."""
    generator = torch.Generator().manual_seed(n)
    a = torch.randn(n, d, generator=generator)
    b = a + 0.1 * torch.randn(n, d, generator=generator)
    a, b = scale * a, scale * b
    off = ~torch.eye(n, dtype=torch.bool).repeat(2, 2)
    z = torch.cat([a, b]).double()
    others = (z @ z.T)[off].square().sum() / (2 * n * (2 * n - 2))
    partners = (a.double() * b.double()).sum(1).mean()
    # The same with and without what partners add, which hides the rest where scales are small.
    found = float(spectral_contrastive(a, b))
    assert found == pytest.approx(float(others - 2 * partners), rel=2e-5)
    if scale == 1:
        repulsion = spectral_contrastive(a, b).double() + 2 * partners
        assert float(repulsion) == pytest.approx(float(others), rel=1e-4)


def test_numbers_of_any_size_that_the_result_allows():
    eye = torch.eye(4)
    assert float(spectral_contrastive(1e15 * eye, 1e15 * eye)) == pytest.approx(-2e30, rel=1e-6)
    both = torch.ones(2, 3)
    assert float(spectral_contrastive(1e9 * both, 1e9 * both)) == pytest.approx(9e36, rel=1e-6)
    huge = torch.full((2, 2), 1e70, dtype=torch.float64)
    assert float(spectral_contrastive(huge, huge)) == pytest.approx(4e280, rel=1e-12)
    tiny = torch.full((2, 2), 1e-150, dtype=torch.float64)
    assert float(spectral_contrastive(tiny, tiny)) == pytest.approx(-4e-300, rel=1e-12)
