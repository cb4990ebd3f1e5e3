import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg.evaluation import knn_accuracy


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
