import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nonneg.pairs import Draws

WORD = 2**64


def mixed(bits):
    bits = (bits + 0x9E3779B97F4A7C15) % WORD
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % WORD
    return bits ^ (bits >> 31)


def slow_bits(seed, epoch, index, stream, column):
    key = mixed(seed % WORD)
    key = mixed((key + 2 * epoch + 1) % WORD)
    key = mixed((key + 2 * stream + 1) % WORD)
    row = mixed(key ^ mixed(index % WORD))
    return mixed((row + (column + 1) * 0x9E3779B97F4A7C15) % WORD)


def draws(seed=0, epoch=0, n=1000):
    return Draws(seed, epoch, torch.arange(n))


def test_values_are_pinned():
    # A change of the generator changes every run that was ever made: it must be noticed.
    table = Draws(seed=7, epoch=2, indices=torch.tensor([0, 49_999]))
    assert table.uniform(3, stream=1).tolist() == [
        [0.7044594883918762, 0.3784556984901428, 0.5882251262664795],
        [0.7916899919509888, 0.05621582269668579, 0.1557598114013672],
    ]
    assert table.integers(1_000_000).tolist() == [220643, 565394]
    expected = torch.tensor([[0.6798588037, 0.1906945258], [1.1304304600, 0.6235061884]])
    torch.testing.assert_close(table.normal(2), expected, rtol=0, atol=1e-6)


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(-(2**63), 2**63 - 1),
    epoch=st.integers(0, 2**31),
    index=st.integers(0, 2**40),
    stream=st.integers(0, 100),
)
def test_numbers_equal_those_of_arithmetic_modulo_two_to_the_64(seed, epoch, index, stream):
    table = Draws(seed, epoch, torch.tensor([index]))
    first, second = (slow_bits(seed, epoch, index, stream, column) for column in range(2))
    expected = [first >> 40, (first % 2**32) >> 8, second >> 40]
    assert table.uniform(3, stream=stream)[0].tolist() == [bits / 2**24 for bits in expected]
    top = slow_bits(seed, epoch, index, stream, 0) >> 33
    assert table.integers(999, stream=stream).item() == top * 999 // 2**31


def test_numbers_depend_on_the_sample_alone():
    whole = draws().uniform(5)
    some = torch.tensor([999, 0, 17, 17])
    assert torch.equal(Draws(0, 0, some).uniform(5), whole[some])
    assert torch.equal(draws().uniform(2), whole[:, :2])
    assert torch.equal(draws().normal(3), draws().normal(4)[:, :3])


@pytest.mark.parametrize(
    "other",
    [draws(seed=1).uniform(4), draws(epoch=1).uniform(4), draws().uniform(4, stream=1)],
    ids=["seed", "epoch", "stream"],
)
def test_seed_epoch_and_stream_give_unrelated_numbers(other):
    first = draws().uniform(4)
    assert (first == other).float().mean() < 0.01
    assert abs(torch.corrcoef(torch.stack([first.flatten(), other.flatten()]))[0, 1]) < 0.05


def test_epoch_and_stream_do_not_stand_for_each_other():
    assert not torch.equal(draws(epoch=1).uniform(4), draws().uniform(4, stream=1))


def test_uniform_numbers_are_uniform_and_independent():
    table = draws(seed=3, n=20_000).uniform(6)
    assert table.min() >= 0
    assert table.max() < 1
    for column in table.T.numpy():
        assert stats.kstest(column, "uniform").pvalue > 1e-3
    correlation = torch.corrcoef(table.T) - torch.eye(6)
    assert correlation.abs().max() < 5 / math.sqrt(20_000)
    neighbours = torch.corrcoef(torch.stack([table[:-1, 0], table[1:, 0]]))[0, 1]
    assert abs(neighbours) < 5 / math.sqrt(20_000)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_normal_numbers_are_normal_and_independent(n):
    table = draws(seed=4, n=20_000).normal(n)
    assert table.shape == (20_000, n)
    for column in table.T.numpy():
        assert stats.kstest(column, "norm").pvalue > 1e-3
    correlation = torch.corrcoef(table.T).reshape(n, n) - torch.eye(n)
    assert correlation.abs().max() < 5 / math.sqrt(20_000)


def test_integers_are_even_over_their_range():
    counts = torch.bincount(draws(seed=5, n=21_000).integers(7), minlength=7)
    assert len(counts) == 7
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_integers_take_one_range_a_sample_and_large_ranges():
    high = torch.arange(1, 1001)
    numbers = draws().integers(high)
    assert (numbers >= 0).all()
    assert (numbers < high).all()
    large = draws(n=20_000).integers(2**31)
    # With 24 random bits all numbers would be multiples of 128.
    assert (large % 128).unique().numel() == 128
    assert large.max() < 2**31


def test_indices_are_not_changed():
    indices = torch.arange(5)
    Draws(0, 0, indices).normal(3)
    assert torch.equal(indices, torch.arange(5))


def test_no_samples_and_no_columns_are_empty():
    assert Draws(0, 0, torch.arange(0)).uniform(3).shape == (0, 3)
    assert draws(n=4).normal(0).shape == (4, 0)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="seed 9223372036854775808 does not fit in 64 bits"):
        Draws(2**63, 0, torch.arange(3))
    with pytest.raises(ValueError, match=r"indices must be whole numbers of shape \(n,\)"):
        Draws(0, 0, torch.zeros(3))
    with pytest.raises(ValueError, match=r"got torch.int64 of shape \(1, 3\)"):
        Draws(0, 0, torch.arange(3)[None])
