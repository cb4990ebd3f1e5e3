import pytest
import torch

from nonneg.training import LoopSettings
from nonneg.training.batches import check_batch, epoch_batches


def test_every_sample_comes_at_most_once_an_epoch():
    batches = epoch_batches(103, 10, seed=0, epoch=0)
    assert len(batches) == 10
    seen = torch.cat(batches)
    assert len(seen.unique()) == 100


def test_order_depends_on_seed_and_epoch_only():
    first = torch.stack(epoch_batches(40, 8, seed=1, epoch=2))
    assert torch.equal(first, torch.stack(epoch_batches(40, 8, seed=1, epoch=2)))
    assert not torch.equal(first, torch.stack(epoch_batches(40, 8, seed=1, epoch=3)))
    assert not torch.equal(first, torch.stack(epoch_batches(40, 8, seed=2, epoch=2)))


@pytest.mark.parametrize("n_ranks", [2, 4])
def test_processes_share_the_same_batches(n_ranks):
    whole = epoch_batches(40, 8, seed=0, epoch=0)
    shares = [
        epoch_batches(40, 8, seed=0, epoch=0, rank=r, n_ranks=n_ranks) for r in range(n_ranks)
    ]
    for number, batch in enumerate(whole):
        assert torch.equal(batch, torch.cat([share[number] for share in shares]))


@pytest.mark.parametrize(
    ("settings", "n_ranks", "sentence"),
    [
        (
            LoopSettings(batch_size=64),
            1,
            "the data has 50 samples, fewer than training.batch_size = 64; "
            "lower it or give more data",
        ),
        (
            LoopSettings(batch_size=32, accumulate=2),
            1,
            "the data has 50 samples, fewer than training.batch_size × training.accumulate = 64; "
            "lower one of them",
        ),
        (
            LoopSettings(batch_size=10),
            3,
            "training.batch_size = 10 cannot be shared by 3 processes; make it a multiple of 3",
        ),
    ],
)
def test_batches_that_cannot_be_made(settings, n_ranks, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        check_batch(50, settings, n_ranks=n_ranks)
