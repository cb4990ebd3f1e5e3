import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg.evaluation import neighbours
from nonneg.evaluation.neighbours import knn_accuracy, knn_probe


def slow_knn(train, train_labels, test, test_labels, k):
    def cosine(u, v):
        lengths = math.hypot(*u) * math.hypot(*v)
        return sum(a * b for a, b in zip(u, v, strict=True)) / lengths if lengths else 0.0

    right = 0
    for query, label in zip(test, test_labels, strict=True):
        near = sorted(((cosine(query, t), -i) for i, t in enumerate(train)), reverse=True)[:k]
        votes = {}
        for similarity, minus_i in near:
            voted = train_labels[-minus_i]
            votes[voted] = votes.get(voted, 0.0) + similarity
        right += max(sorted(votes), key=lambda c: votes[c]) == label
    return right / len(test)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), k=st.integers(1, 12))
def test_agrees_with_loops(seed, k):
    generator = torch.Generator().manual_seed(seed)
    train = torch.rand(12, 3, generator=generator, dtype=torch.float64)
    test = torch.rand(9, 3, generator=generator, dtype=torch.float64)
    y, test_y = (
        torch.randint(3, (12,), generator=generator),
        torch.randint(3, (9,), generator=generator),
    )
    expected = slow_knn(train.tolist(), y.tolist(), test.tolist(), test_y.tolist(), k)
    assert knn_accuracy(train, y, test, test_y, k=k) == pytest.approx(expected)


@pytest.mark.parametrize("k", [0, 4])
def test_k_must_fit(k):
    x, y = torch.eye(3), torch.arange(3)
    with pytest.raises(
        ValueError, match=f"^k must be between 1 and the 3 training samples, got {k}$"
    ):
        knn_accuracy(x, y, x, y, k=k)


def test_rows_of_zeros_neither_find_nor_are_found():
    train, y = torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1])
    result = knn_probe(train, y, torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([0, 1]), k=2)
    assert (result.value, result.n_zero_test, result.n_zero_train) == (0.5, 1, 1)
    nothing = knn_probe(torch.zeros(2, 2), y, torch.eye(2), y, k=1)
    assert (nothing.value, nothing.n_zero_train) == (0.0, 2)


def test_negative_cosines_do_not_elect_a_class_without_voters():
    train = torch.tensor([[-1.0, 0.1], [-1.0, 0.2], [-1.0, -9.0]])
    # The third sample is no voter; its class had 0 votes, the others' fewer.
    result = knn_probe(train, [1, 1, 0], torch.tensor([[1.0, 9.0]]), [1], k=2)
    assert result.value == 1.0
    opposite = torch.tensor([[-1.0, 0.0]] * 2 + [[-2.0, -0.1]])
    assert knn_probe(opposite, [1, 1, 0], torch.tensor([[1.0, 0.0]]), [0], k=1).value == 1.0
    assert knn_probe(opposite, [1, 1, 0], torch.tensor([[1.0, 0.1]]), [1], k=2).value == 1.0


def test_equal_votes_go_to_the_lower_class_and_equal_cosines_to_the_first():
    train = torch.tensor([[1.0, 1.0], [1.0, -1.0], [3.0, 3.0]])
    query = torch.tensor([[1.0, 0.0]])
    assert knn_accuracy(train, [7, 2, 7], query, [2], k=2) == 1.0
    assert knn_accuracy(train, [7, 2, 9], query, [7], k=1) == 1.0


def test_many_queries_in_small_parts(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    train, test = (torch.rand(n, 5, generator=generator) for n in (40, 30))
    y, test_y = (torch.randint(3, (n,), generator=generator) for n in (40, 30))
    whole = knn_probe(train, y, test, test_y, k=3)
    monkeypatch.setattr(neighbours, "_GATHERED_ENTRIES", 60)
    assert knn_probe(train, y, test, test_y, k=3) == whole


def test_wrong_inputs_are_named():
    x, y = torch.eye(3), torch.arange(3)
    with pytest.raises(ValueError, match=r"^train has 3 features, test has 2$"):
        knn_accuracy(x, y, x[:, :2], y, k=1)
    with pytest.raises(ValueError, match=r"^test labels has 2 labels for 3 samples$"):
        knn_accuracy(x, y, x, y[:2], k=1)
    with pytest.raises(ValueError, match=r"^test holds nan in row 0, column 0;"):
        knn_accuracy(x, y, x * torch.nan, y, k=1)
    with pytest.raises(ValueError, match=r"^train is empty"):
        knn_accuracy(x[:0], y[:0], x, y, k=1)
