import pytest
import torch

from nonneg.pairs import Batch, Draws, NoisePairs

VECTORS = torch.rand(2000, 5, generator=torch.Generator().manual_seed(0))


def batch_of(vectors, numbers=None, *, epoch=0):
    numbers = torch.arange(len(vectors)) if numbers is None else numbers
    return Batch(vectors[numbers], numbers, Draws(0, epoch, numbers), vectors.__getitem__)


def test_noise_has_the_stated_size_and_is_not_shared():
    view_a, view_b = NoisePairs(std=0.3)(batch_of(VECTORS))
    noise = torch.stack([(view_a - VECTORS).flatten(), (view_b - VECTORS).flatten()])
    torch.testing.assert_close(noise.std(1), torch.full((2,), 0.3), rtol=0.03, atol=0)
    assert noise.mean(1).abs().max() < 0.02
    assert abs(torch.corrcoef(noise)[0, 1]) < 0.05


def test_no_noise_returns_the_vectors():
    view_a, view_b = NoisePairs(std=0)(batch_of(VECTORS))
    assert torch.equal(view_a, VECTORS)
    assert torch.equal(view_b, VECTORS)


def test_noise_belongs_to_the_sample_and_changes_by_epoch():
    pairs, some = NoisePairs(std=1), torch.tensor([7, 1999, 0])
    whole = pairs(batch_of(VECTORS))
    for view, expected in zip(pairs(batch_of(VECTORS, some)), whole, strict=True):
        assert torch.equal(view, expected[some])
    assert not torch.equal(pairs(batch_of(VECTORS, epoch=1))[0], whole[0])


def test_type_is_kept_and_vectors_are_not_changed():
    vectors = VECTORS[:4].double()
    before = vectors.clone()
    assert NoisePairs(std=1)(batch_of(vectors))[0].dtype == torch.float64
    assert torch.equal(vectors, before)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="std must be a number from 0 on, got -1"):
        NoisePairs(std=-1)
    with pytest.raises(ValueError, match="std must be a number from 0 on, got nan"):
        NoisePairs(std=float("nan"))
    with pytest.raises(ValueError, match=r"vectors must have shape \(n, d\), got \(2, 3, 4, 4\)"):
        NoisePairs(std=1)(batch_of(torch.zeros(2, 3, 4, 4)))
    with pytest.raises(TypeError, match=r"vectors must be floats, got torch\.int64"):
        NoisePairs(std=1)(batch_of(torch.zeros(2, 3, dtype=torch.int64)))
