"""The head of a fitted estimator as plain layers, which other programs have too."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nonneg.backbones.simple import Frozen, Projection
from nonneg.encoder import Encoder

_UNFOLDED = "; export its features instead, with nonneg export RUN DATA --to jsonl"


class Layer(NamedTuple):
    """A linear map ``x W^T + b``, then a rectifier or nothing; float32."""

    weight: Tensor
    """``(n_out, n_in)``."""
    bias: Tensor
    """``(n_out,)``."""
    is_rectified: bool


class FoldedHead(NamedTuple):
    """Vectors to features: a linear map, rows scaled to length 1, linear maps, the largest kept."""

    first: Layer
    then: tuple[Layer, ...]
    max_active: int | None

    def __call__(self, vectors: Tensor) -> Tensor:
        """What the layers compute of vectors ``(n, d)``: the features ``(n, n_features)``."""
        rows = nn.functional.normalize(_applied(self.first, vectors), dim=1)
        for layer in self.then:
            rows = _applied(layer, rows)
        if self.max_active is None or self.max_active >= rows.shape[1]:
            return rows
        kept = rows.topk(self.max_active, dim=1)
        return torch.zeros_like(rows).scatter(1, kept.indices, kept.values)


@torch.no_grad()
def folded_head(encoder: Encoder) -> FoldedHead:
    """The encoder of an ``NCL``, or of one side of a ``CrossNCL``, as plain layers.

    Centre and axes become one linear map, batch normalisation a part of the map before it, and the
    length that rows are scaled to a part of the map behind. Features are the same up to rounding.

    Raises:
        ValueError: Something in it is no such layer: a threshold, a merged feature, another
            transform, or another backbone.
    """
    projection = encoder.backbone.frozen if isinstance(encoder.backbone, Frozen) else None
    if not isinstance(projection, Projection):
        raise ValueError(f"only encoders of fitted vectors fold into linear layers{_UNFOLDED}")
    _check_folds(encoder)
    first = Layer(projection.axes.T.clone(), -(projection.center @ projection.axes), False)
    scale = projection.stretch * projection.hidden_size**0.5
    layers: list[Layer] = []
    parts: list[nn.Module] = list(encoder.projector)
    for part in parts:
        if isinstance(part, nn.Linear):
            weight = part.weight * scale if not layers else part.weight
            layers.append(Layer(weight.clone(), part.bias.clone(), False))
        elif isinstance(part, nn.BatchNorm1d):
            layers[-1] = _normalised(layers[-1], part)
        elif isinstance(part, nn.ReLU):
            layers[-1] = layers[-1]._replace(is_rectified=True)
        elif not isinstance(part, nn.Identity):
            raise ValueError(f"a {type(part).__name__} folds into no linear layer{_UNFOLDED}")
    last = layers[-1]
    hidden = list(encoder.curation.hidden)
    last.weight[hidden], last.bias[hidden] = 0.0, 0.0
    layers[-1] = last._replace(is_rectified=True)
    return FoldedHead(first, tuple(layers), encoder.settings.max_active)


def _check_folds(encoder: Encoder) -> None:
    settings = encoder.settings
    reasons = {
        f"the transform {settings.nonnegative!r}": settings.nonnegative not in ("relu", "rep_relu"),
        f"its threshold of {settings.threshold or 0:.3g}, from target_active,": settings.threshold,
        "a gate": encoder.gate is not None,
        "a merged feature": encoder.curation.merged,
    }
    for reason, is_there in reasons.items():
        if is_there:
            raise ValueError(f"{reason} folds into no linear layer{_UNFOLDED}")


def _normalised(layer: Layer, norm: nn.BatchNorm1d) -> Layer:
    """A linear map with the batch normalisation behind it, as in evaluation."""
    statistics: Any = (norm.running_mean, norm.running_var)
    mean, variance = statistics
    factor = norm.weight / (variance + norm.eps).sqrt()
    return Layer(layer.weight * factor[:, None], (layer.bias - mean) * factor + norm.bias, False)


def _applied(layer: Layer, rows: Tensor) -> Tensor:
    found = nn.functional.linear(rows, layer.weight, layer.bias)
    return found.relu() if layer.is_rectified else found
