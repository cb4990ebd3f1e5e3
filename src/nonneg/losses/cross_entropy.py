"""Non-negative cross entropy: classifiers in which evidence only ever counts for a class."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.head.nonnegative import NonNegative
from nonneg.rows import at_least_float32


def non_negative_cross_entropy(features: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """The mean cross entropy of ``softmax_c( relu(f) · relu(w_c) )``, without bias, in nats.

    Both sides are rectified (Wang et al. 2024, section on supervised learning), so a feature can
    speak for a class or say nothing, but never against it.

    Args:
        features: ``(n, d)``, signed or not.
        weight: ``(n_classes, d)``, signed or not.
        target: Class numbers, int64 ``(n,)``.

    Example:
        Features that say nothing leave all classes equal: the loss is log 4.

        >>> silent = -torch.ones(3, 5)
        >>> non_negative_cross_entropy(silent, torch.ones(4, 5), torch.tensor([0, 1, 3]))
        tensor(1.3863)
    """
    with torch.autocast(features.device.type, enabled=False):
        features, weight = at_least_float32(features), at_least_float32(weight)
        return F.cross_entropy(F.relu(features) @ F.relu(weight).T, target)


class NonNegativeClassifier(nn.Module):
    """A linear layer without bias whose inputs and weights are made non-negative.

    All weights start equal: all classes are equally likely, the gradient of a weight is that of
    its feature and class alone, and no weight is at zero, where ReLU would keep it. Logits are
    multiplied by a fixed number: differences between classes have to grow out of weights that are
    bounded below, and without it they grow slowly.

    Args:
        in_features: Columns of the input, d.
        n_classes: At least two.
        inputs: The transform of the input, a key of ``nonneg.head.TRANSFORMS``.
        weights: The transform of the weights.
        scale: What logits are multiplied by.

    Example:
        >>> NonNegativeClassifier(5, 3)(torch.rand(2, 5)).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        *,
        inputs: str = "relu",
        weights: str = "relu",
        scale: float = 4.0,
    ) -> None:
        super().__init__()
        if n_classes < 2:
            raise ValueError(f"a classifier needs at least two classes, got {n_classes}")
        self.inputs, self.weights, self.scale = NonNegative(inputs), NonNegative(weights), scale
        self.weight = nn.Parameter(torch.full((n_classes, in_features), in_features**-0.5))

    def forward(self, features: Tensor) -> Tensor:
        """Logits ``(n, n_classes)`` of features ``(n, d)``."""
        return self.scale * F.linear(self.inputs(features), self.weights(self.weight))
