import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg.evaluation.probe.linear import (
    balanced_draw,
    stratified_draw,
    stratified_folds,
    validation_folds,
)

SIZES = st.lists(st.integers(1, 12), min_size=2, max_size=5)


def labels_of(sizes, seed):
    y = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return y[torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))]


@settings(deadline=None, max_examples=50)
@given(sizes=SIZES, rate=st.floats(0.05, 0.95), seed=st.integers(0, 99))
def test_a_draw_takes_its_share_and_never_a_whole_class(sizes, rate, seed):
    y = labels_of(sizes, seed)
    rest, drawn = stratified_draw(y, rate, seed=seed)
    assert sorted([*rest.tolist(), *drawn.tolist()]) == list(range(len(y)))
    for k, size in enumerate(sizes):
        n = int((y[drawn] == k).sum())
        assert n == min(max(1, round(rate * size)), size - 1) or abs(n - rate * size) <= 0.5
        assert n < size


@settings(deadline=None, max_examples=50)
@given(sizes=SIZES, n_folds=st.integers(2, 6), seed=st.integers(0, 99))
def test_folds_hold_every_sample_once_and_keep_every_class_to_fit_to(sizes, n_folds, seed):
    y = labels_of(sizes, seed)
    folds = stratified_folds(y, n_folds, seed=seed)
    held = sorted(i for _, own in folds for i in own.tolist())
    assert held == [i for i in range(len(y)) if sizes[y[i]] > 1]
    for rest, own in folds:
        assert sorted([*rest.tolist(), *own.tolist()]) == list(range(len(y)))
        assert set(y[rest].tolist()) == set(range(len(sizes)))


def test_balanced_draws_have_at_least_one_of_each_class():
    y = labels_of([100, 40, 3], 0)
    counts = torch.bincount(y[balanced_draw(y, 0.05, seed=0)]).tolist()
    assert counts == [5, 2, 1]
    assert len(balanced_draw(y, 1.0, seed=0)) == 143


def test_seeds_differ_and_repeat():
    y = labels_of([50, 50], 0)
    first, again, other = (balanced_draw(y, 0.1, seed=seed).tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_nothing_is_left_out_of_classes_of_one_sample():
    y = torch.arange(4)
    for n_folds in (1, 3):
        order, folds = validation_folds(y, rate=0.2, n_folds=n_folds, seed=0)
        assert (order.tolist(), folds) == ([0, 1, 2, 3], [])
