"""What does a feature stand for? Its strongest samples, one row a feature, methods side by side."""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from nonneg import io as files
from nonneg.metrics.inputs import unit_rows


def top_samples(features: Tensor, n_top: int) -> Tensor:
    """The numbers of the strongest samples of each feature, int64 ``(n_features, n_top)``.

    Rows are scaled to length 1 first, as everywhere; signed features count by absolute value. Of
    equal samples the lower number comes first.
    """
    strength = unit_rows(features).abs()
    return strength.argsort(dim=0, descending=True, stable=True)[:n_top].T


def montage(
    images: Tensor, columns: dict[str, Tensor], *, n_features: int = 8, n_top: int = 10
) -> Figure:
    """The top samples of each method's most expected features, one row a feature.

    Args:
        images: uint8 or [0, 1] ``(n, c, h, w)``.
        columns: For each method its features ``(n, d)``; one block of columns each.
        n_features: Rows.
        n_top: Samples a row.
    """
    figure = Figure(figsize=(0.55 * n_top * len(columns), 0.58 * n_features + 0.6), dpi=150)
    axes = figure.subplots(1, len(columns), squeeze=False)[0]
    for axis, (method, features) in zip(axes, columns.items(), strict=True):
        chosen = _most_expected(features, n_features)
        numbers = top_samples(features[:, chosen], n_top)  # (n_features, n_top)
        axis.imshow(_sheet(images, numbers), cmap="gray", interpolation="nearest")
        axis.set_title(method, fontsize=11)
        axis.set_xticks([])
        axis.set_yticks(
            (np.arange(len(chosen)) + 0.5) * (images.shape[-2] + 1),
            [f"{int(feature)}" for feature in chosen],
            fontsize=7,
        )
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    axes[0].set_ylabel("feature", fontsize=8)
    figure.tight_layout()
    return figure


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as PNG or SVG (by its ending), whole or not at all."""
    import io

    buffer = io.BytesIO()
    figure.savefig(buffer, format=Path(path).suffix.lstrip("."), bbox_inches="tight")
    files.write_bytes(Path(path), buffer.getvalue())


def _most_expected(features: Tensor, n: int) -> Tensor:
    """The n features with the largest mean absolute value over unit rows, strongest first."""
    strength = unit_rows(features).abs().mean(0)
    return strength.argsort(descending=True, stable=True)[:n]


def _sheet(images: Tensor, numbers: Tensor) -> np.ndarray:
    """Images laid out in a grid with a white line between them, ``(rows·h, columns·w[, 3])``."""
    pixels = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    chosen = pixels[numbers]  # (rows, columns, c, h, w)
    padded = torch.nn.functional.pad(chosen, (0, 1, 0, 1), value=1.0)
    rows, columns, channels, height, width = padded.shape
    sheet = padded.permute(0, 3, 1, 4, 2).reshape(rows * height, columns * width, channels)
    return (sheet[..., 0] if channels == 1 else sheet).numpy()
