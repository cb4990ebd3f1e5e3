"""The k-nearest-neighbour classifier on cosine."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nonneg.metrics.inputs import FeatureLike, Features, LabelLike, checked_features, checked_labels
from nonneg.metrics.retrieval import nearest, nonzero_rows
from nonneg.rows import unit_rows

_GATHERED_ENTRIES = 1 << 22
# Votes that differ by less than 2^-40 are equal, and the lower class number wins.
_EQUAL = 2.0**40


@dataclass(frozen=True)
class KnnResult:
    """The accuracy of a k-nearest-neighbour classifier.

    Args:
        value: Share of test samples that it gets right.
        k: Voters per sample.
        n_test: Test samples.
        n_zero_test: Test samples of zeros only; they have no neighbours and count as wrong.
        n_zero_train: Training samples of zeros only; they are nobody's neighbours.
    """

    value: float
    k: int
    n_test: int
    n_zero_test: int
    n_zero_train: int

    def __float__(self) -> float:
        return self.value


def knn_accuracy(
    train: FeatureLike,
    train_labels: LabelLike,
    test: FeatureLike,
    test_labels: LabelLike,
    *,
    k: int = 20,
) -> float:
    """The accuracy of :func:`knn_probe` alone.

    Example:
        >>> knn_accuracy([[1, 0], [0, 1]], [0, 1], [[0.9, 0.1]], [0], k=1)
        1.0
    """
    return knn_probe(train, train_labels, test, test_labels, k=k).value


def knn_probe(
    train: FeatureLike,
    train_labels: LabelLike,
    test: FeatureLike,
    test_labels: LabelLike,
    *,
    k: int = 20,
) -> KnnResult:
    """Share of test samples whose k nearest training samples vote for their class.

    Each neighbour votes with its cosine; of classes with equal votes the lowest number wins. Of
    equally near samples the first ones vote. A class without a voter never wins, also where all
    cosines are negative.

    Args:
        train: ``(n, d)``.
        train_labels: Class numbers ``(n,)``.
        test: ``(m, d)``.
        test_labels: ``(m,)``; a class that no training sample has counts as wrong.
        k: Number of voters, at most n.

    Example:
        >>> knn_probe([[1, 0], [0, 1]], [0, 1], [[0.9, 0.1], [0, 0]], [0, 0], k=1)
        KnnResult(value=0.5, k=1, n_test=2, n_zero_test=1, n_zero_train=0)
    """
    gallery, queries = checked_features(train, "train"), checked_features(test, "test")
    labels = torch.from_numpy(checked_labels(train_labels, gallery.n_samples, "train labels"))
    expected = torch.from_numpy(checked_labels(test_labels, queries.n_samples, "test labels"))
    if queries.n_features != gallery.n_features:
        raise ValueError(f"train has {gallery.n_features} features, test has {queries.n_features}")
    if not 1 <= k <= gallery.n_samples:
        raise ValueError(
            f"k must be between 1 and the {gallery.n_samples} training samples, got {k}"
        )
    findable = nonzero_rows(gallery)
    found = nearest(queries, gallery, findable, k, leave_one_out=False)  # (m, k), -1 for nobody
    classes, targets = labels.unique(return_inverse=True)
    step = max(1, _GATHERED_ENTRIES // (k * gallery.n_features))
    winners = [
        _winners(queries, gallery, found, here, targets, len(classes))
        for here in torch.arange(queries.n_samples).split(step)
    ]
    is_right = (classes[torch.cat(winners)] == expected) & (found[:, 0] >= 0)
    return KnnResult(
        value=float(is_right.double().mean()),
        k=k,
        n_test=queries.n_samples,
        n_zero_test=queries.n_samples - len(nonzero_rows(queries)),
        n_zero_train=gallery.n_samples - len(findable),
    )


def _winners(
    queries: Features, gallery: Features, found: Tensor, here: Tensor, targets: Tensor, c: int
) -> Tensor:
    """The class that wins the votes for some queries, as a number from 0 to c-1."""
    voters = found[here]  # (b, k)
    known = gallery.rows(voters.clamp(min=0).flatten().to(gallery.device))
    known = unit_rows(known.double()).view(*voters.shape, gallery.n_features)
    query = unit_rows(queries.rows(here.to(queries.device)).double()).to(known.device)
    cosine = (known @ query[:, :, None])[:, :, 0].cpu()
    # Missing voters vote for a class of their own, which is then left out.
    voted = targets[voters.clamp(min=0)].masked_fill(voters < 0, c)
    votes = cosine.new_zeros(len(here), c + 1).scatter_add_(1, voted, cosine)
    n_voters = cosine.new_zeros(len(here), c + 1).scatter_add_(1, voted, torch.ones_like(cosine))
    votes = (votes * _EQUAL).round_().masked_fill_(n_voters == 0, -torch.inf)
    return votes[:, :c].argmax(dim=1)
