"""Do near samples share a class? The k-nearest-neighbour classifier on cosine."""

from torch import Tensor

from nonneg.losses.rows import unit_rows


def knn_accuracy(
    train: Tensor, train_labels: Tensor, test: Tensor, test_labels: Tensor, *, k: int = 20
) -> float:
    """Share of test samples whose k nearest training samples vote for their class.

    Each neighbour votes with its cosine; of classes with equal votes the lowest number wins.

    Args:
        train: ``(n, d)``.
        train_labels: Class numbers ``(n,)``.
        test: ``(m, d)``.
        test_labels: ``(m,)``.
        k: Number of voters, at most n.

    Example:
        >>> import torch
        >>> train, labels = torch.eye(2), torch.tensor([0, 1])
        >>> knn_accuracy(train, labels, torch.tensor([[0.9, 0.1]]), torch.tensor([0]), k=1)
        1.0
    """
    if not 1 <= k <= len(train):
        raise ValueError(f"k must be between 1 and the {len(train)} training samples, got {k}")
    gallery, n_classes = unit_rows(train), int(train_labels.max()) + 1
    n_right = 0
    for queries, labels in zip(test.split(1024), test_labels.split(1024), strict=True):
        cosine, nearest = (unit_rows(queries) @ gallery.T).topk(k, dim=1)
        votes = cosine.new_zeros(len(queries), n_classes)
        votes.scatter_add_(1, train_labels[nearest], cosine)
        n_right += int((votes.argmax(1) == labels).sum())
    return n_right / len(test)
