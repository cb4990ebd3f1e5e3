"""How does accuracy grow? One line a method, its seeds as a band, one panel a group of methods."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

Runs = Mapping[int, Sequence[tuple[float, float]]]


def learning_curves(
    panels: Mapping[str, Mapping[str, Runs]], *, x_label: str = "steps", y_label: str = "accuracy"
) -> Figure:
    """Lines of the mean over seeds, with a band from the lowest to the highest seed.

    Args:
        panels: By title, then by method, then by seed: points (x, y) in order. The seeds of a
            method have the same x.
        x_label: Of all panels.
        y_label: Of all panels.
    """
    figure = Figure(figsize=(4.6 * len(panels), 3.4), dpi=150, layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, (title, methods) in zip(axes, panels.items(), strict=True):
        for number, (method, runs) in enumerate(methods.items()):
            points = np.array([list(points) for points in runs.values()])  # (seeds, points, 2)
            x, y = points[0, :, 0], points[:, :, 1]
            style = "-" if number % 2 else "--"
            (line,) = axis.plot(x, y.mean(0), style, linewidth=1.6, label=method)
            axis.fill_between(
                x, y.min(0), y.max(0), color=line.get_color(), alpha=0.15, linewidth=0
            )
        axis.set(title=title, xlabel=x_label)
        axis.grid(visible=True, alpha=0.3)
        axis.legend(fontsize=8, loc="lower right")
    axes[0].set_ylabel(y_label)
    return figure
