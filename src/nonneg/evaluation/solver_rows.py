"""What does a solver ask of its samples? Two products and a Gram matrix, dense or sparse."""

from dataclasses import dataclass
from typing import Protocol

import torch
from scipy import sparse
from torch import Tensor

# Times as many rows as columns make a Gram matrix that is good enough to precondition with.
_GRAM_ROWS = 8


class Rows(Protocol):
    """Standardised samples ``(n, n_kept)`` as a solver needs them."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of kept columns."""

    def part(self, which: slice | Tensor) -> "Rows":
        """Some of the samples; a slice of dense rows shares their memory."""

    def logits(self, weight: Tensor, bias: Tensor) -> Tensor:
        """The samples times weights ``(c, n_kept)`` plus a bias ``(c,)``: ``(n, c)``."""

    def gradient(self, residual: Tensor) -> Tensor:
        """A residual ``(n, c)``, transposed, times the samples: ``(c, n_kept)``."""

    def gram(self) -> Tensor:
        """Mean product of columns over the first samples, float64 ``(n_kept, n_kept)``."""


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Standardised samples in memory."""

    values: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of kept columns."""
        return self.values.shape[0], self.values.shape[1]

    def part(self, which: slice | Tensor) -> "DenseRows":
        """Some of the samples."""
        return DenseRows(self.values[which])

    def logits(self, weight: Tensor, bias: Tensor) -> Tensor:
        """The samples times weights plus a bias."""
        return torch.addmm(bias, self.values, weight.T)

    def gradient(self, residual: Tensor) -> Tensor:
        """The residual, transposed, times the samples."""
        # The other order, values.T @ residual, took twelve times as long for ten classes.
        return residual.T @ self.values

    def gram(self) -> Tensor:
        """Mean product of columns over the first samples."""
        some = self.values[: _GRAM_ROWS * self.shape[1]]
        return (some.T @ some).double() / max(1, len(some))


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Scaled samples that keep their zeros; the mean is taken off in the products.

    Args:
        values: Scaled, not centred, ``(n, n_kept)``.
        shift: The mean in units of the scale, ``(n_kept,)``, of the type of the values.
    """

    values: sparse.csr_array
    shift: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of kept columns."""
        return int(self.values.shape[0]), len(self.shift)

    def part(self, which: slice | Tensor) -> "SparseRows":
        """Some of the samples."""
        index = which if isinstance(which, slice) else which.numpy()
        return SparseRows(sparse.csr_array(self.values[index]), self.shift)

    def logits(self, weight: Tensor, bias: Tensor) -> Tensor:
        """The samples times weights plus a bias."""
        product = torch.from_numpy(self.values @ weight.T.contiguous().numpy())
        return product.add_(bias - weight @ self.shift)

    def gradient(self, residual: Tensor) -> Tensor:
        """The residual, transposed, times the samples."""
        product = torch.from_numpy(self.values.T @ residual.numpy()).T
        return product - torch.outer(residual.sum(dim=0), self.shift)

    def gram(self) -> Tensor:
        """Mean product of columns over the first samples."""
        some = torch.from_numpy(self.values[: _GRAM_ROWS * self.shape[1]].toarray())
        return DenseRows(some - self.shift).gram()
