"""Which samples carry the same label? With labels at hand, two samples of a class are a pair."""

import torch
from torch import Tensor

from nonneg.pairs.protocol import Batch


class LabelPairs:
    """Each sample and another one of its class, drawn anew every epoch.

    Args:
        labels: Class numbers, whole numbers of any sign ``(n,)``. A sample that is alone in its
            class is paired with itself; ``n_alone`` counts them.

    Example:
        >>> LabelPairs(torch.tensor([5, 2, 5, 5, 9])).n_alone
        2
    """

    def __init__(self, labels: Tensor) -> None:
        if labels.ndim != 1 or labels.dtype.is_floating_point:
            raise ValueError(
                f"labels must be whole numbers of shape (n,), got {labels.dtype} of shape "
                f"{tuple(labels.shape)}"
            )
        _, numbers, sizes = torch.unique(labels.cpu(), return_inverse=True, return_counts=True)
        if int(sizes.max()) < 2:
            raise ValueError(
                "no two samples have the same label, so there is no pair to learn from"
            )
        self.n_alone = int((sizes == 1).sum())
        # All samples, class after class; each class is a stretch of this list.
        self._members = numbers.argsort(stable=True)
        self._place = torch.empty_like(self._members)
        self._place[self._members] = torch.arange(len(self._members))
        self._size = sizes[numbers]
        self._start = (sizes.cumsum(0) - sizes)[numbers]

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The batch itself, and for each sample one of the others of its class."""
        indices = batch.indices.cpu()
        size, start = self._size[indices], self._start[indices]
        others = (size - 1).clamp(min=1).to(batch.indices.device)
        # From 1 to size - 1 places further round the class: never back to the sample itself.
        step = 1 + batch.draws.integers(others).cpu()
        place = start + (self._place[indices] - start + step) % size
        return batch.inputs, batch.fetch(self._members[place].to(batch.indices.device))
