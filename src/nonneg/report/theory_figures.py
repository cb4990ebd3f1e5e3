"""Figures of the theory's studies: arrays in, a matplotlib figure out."""

import io
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

FloatArray = NDArray[np.float64]

# Okabe and Ito's colours, told apart by colour-blind readers too; markers and dashes say the same.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def posterior_figure(
    normalized: FloatArray, factors: Mapping[str, FloatArray], captions: Mapping[str, str]
) -> Figure:
    """The normalised joint, and the features that reproduce it, as heat maps.

    Args:
        normalized: Ā ``(n, n)``, samples in a telling order.
        factors: For each title features ``(n, d)`` in the same order; one colour scale for all.
        captions: Text below the panel of each title.
    """
    figure = Figure(figsize=(8, 3.6), dpi=100, layout="constrained")
    axes = figure.subplots(1, 1 + len(factors), width_ratios=[2.2] + [1] * len(factors))
    # A few strong pairs would leave all others white.
    axes[0].imshow(
        normalized, cmap="Greys", vmin=0, vmax=np.quantile(normalized, 0.99), aspect="auto"
    )
    axes[0].set(title="what is given: Ā", xlabel="sample", ylabel="sample")
    limit = max(float(np.abs(features).max()) for features in factors.values())
    for axis, (title, features) in zip(axes[1:], factors.items(), strict=True):
        drawn = axis.imshow(features, cmap="PuOr_r", vmin=-limit, vmax=limit, aspect="auto")
        axis.set(title=title, xlabel=f"feature\n{captions.get(title, '')}", yticks=[])
        axis.set_xticks(range(features.shape[1]), range(1, features.shape[1] + 1))
    figure.colorbar(drawn, ax=axes[-1], label="value of a feature")
    return figure


def rotation_figure(
    degrees: FloatArray,
    losses: Mapping[str, FloatArray],
    consistency: FloatArray,
    *,
    lowest: FloatArray,
) -> Figure:
    """Loss above its minimum, and class consistency, as features are rotated.

    Args:
        degrees: ``(k,)``.
        losses: For each kind of features ``(n_seeds, k)``.
        consistency: Of the signed features ``(n_seeds, k)``.
        lowest: The minimum of the loss for each seed ``(n_seeds,)``.
    """
    figure = Figure(figsize=(8, 3.4), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, (name, loss) in enumerate(losses.items()):
        _mean_and_spread(left, degrees, loss - lowest[:, None], name, number)
    left.set(xlabel="rotation (degrees)", ylabel="loss above its minimum")
    left.legend(frameon=False)
    _mean_and_spread(right, degrees, consistency, "signed", 0)
    right.set(
        xlabel="rotation (degrees)", ylabel="class consistency of signed features", ylim=(0, 1.05)
    )
    _tidy(left, right)
    return figure


def anchor_figure(
    purity: FloatArray,
    cosine: Mapping[str, FloatArray],
    correlation: Mapping[str, FloatArray],
) -> Figure:
    """How well the posteriors are found as anchors vanish, mean and spread over seeds.

    Args:
        purity: Mean over seeds ``(k,)``.
        cosine: For each method ``(n_seeds, k)``.
        correlation: The same.
    """
    figure = Figure(figsize=(8, 3.4), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axis, measured, name in (
        (left, cosine, "matched cosine with φ"),
        (right, correlation, "matched correlation with φ"),
    ):
        for number, (method, values) in enumerate(measured.items()):
            _mean_and_spread(axis, purity, values, method, number)
        axis.set(xlabel="purest sample of a class, P(c|x)", ylabel=name, ylim=(0, 1.05))
        axis.invert_xaxis()
    left.legend(frameon=False, loc="lower left")
    left.text(1.0, 1.08, "anchors", fontsize=9, ha="center", va="bottom")
    right.text(1.0, 1.08, "anchors", fontsize=9, ha="center", va="bottom")
    _tidy(left, right)
    return figure


def width_figure(
    widths: Sequence[int],
    scores: Mapping[str, FloatArray],
    error: FloatArray,
    *,
    n_classes: int,
) -> Figure:
    """What is found with fewer and more features than classes.

    Args:
        widths: Numbers of features ``(k,)``.
        scores: For each score ``(n_seeds, k)``.
        error: ``||Ā - F Fᵀ||²`` ``(n_seeds, k)``.
        n_classes: Marked by a line.
    """
    figure = Figure(figsize=(8, 3.4), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2)
    positions = np.asarray(widths, dtype=np.float64)
    for number, (name, values) in enumerate(scores.items()):
        _mean_and_spread(left, positions, values, name, number)
    left.set(xlabel="number of features", ylabel="cosine", ylim=(0, 1.05))
    left.legend(frameon=False, loc="lower right")
    _mean_and_spread(right, positions, error, "NCL", 0)
    right.set(xlabel="number of features", ylabel="error ||Ā − FFᵀ||²", ylim=(0, None))
    for axis in (left, right):
        axis.axvline(n_classes, color="0.6", linestyle=":", linewidth=1)
        axis.set_xticks(widths)
    right.text(n_classes + 0.15, right.get_ylim()[1] * 0.9, f"{n_classes} classes", fontsize=9)
    _tidy(left, right)
    return figure


def growth_figure(
    n_samples: Sequence[int], panels: Mapping[str, Mapping[str, Sequence[float]]]
) -> Figure:
    """What each method costs and reaches as the world grows, both axes logarithmic.

    Args:
        n_samples: Sizes of the world ``(k,)``.
        panels: For each axis label, for each method one number per size.
    """
    figure = Figure(figsize=(8, 3.9), dpi=100, layout="constrained")
    axes = figure.subplots(1, len(panels))
    for axis, (label, methods) in zip(axes, panels.items(), strict=True):
        for number, (method, values) in enumerate(methods.items()):
            axis.plot(
                n_samples,
                values,
                color=COLOURS[number],
                marker=MARKERS[number],
                markersize=5,
                label=method,
            )
        axis.set(xscale="log", xlabel="samples in the world", ylabel=label)
        if min(min(values) for values in methods.values()) > 0 and "cosine" not in label:
            axis.set_yscale("log")
        axis.set_xticks(n_samples, [f"{n:,}" for n in n_samples])
        axis.minorticks_off()
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    _tidy(*axes)
    return figure


def small_png(figure: Figure) -> bytes:
    """The figure as a PNG with a palette, about half of the usual size."""
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png")
    image = Image.open(drawn).convert("RGB")
    # Refined by k-means: the plain palette turns the rare dark violet into grey.
    palette = image.quantize(256, kmeans=2, dither=Image.Dither.NONE)
    palette.save(small, format="png", optimize=True)
    return small.getvalue()


def _mean_and_spread(
    axis: Axes, positions: FloatArray, values: FloatArray, label: str, number: int
) -> None:
    """A line through the means over rows, and a band of one standard deviation."""
    mean, spread = values.mean(axis=0), values.std(axis=0)
    axis.plot(
        positions,
        mean,
        color=COLOURS[number],
        marker=MARKERS[number],
        markersize=4,
        linestyle=("-", "--", ":")[number % 3],
        label=label,
    )
    axis.fill_between(positions, mean - spread, mean + spread, color=COLOURS[number], alpha=0.15)


def _tidy(*axes: Axes) -> None:
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(visible=True, color="0.92")
        axis.set_axisbelow(True)
