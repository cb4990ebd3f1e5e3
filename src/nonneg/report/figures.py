"""Figures for papers: properties, selection, correlation, SEPIN, montages, curves, dots."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray
from torch import Tensor

from nonneg import io as files
from nonneg.estimators.hierarchy import column_cosines
from nonneg.metrics.figures import MIN_ACTIVE, Figure, Figures, figure_kind
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import FloatArray
from nonneg.report.atlas_data import Atlas, SelectionPoint
from nonneg.report.feature_facts import feature_facts, telling_order
from nonneg.report.headline import headline
from nonneg.report.samples import random_draw
from nonneg.report.theory_figures import COLOURS, MARKERS
from nonneg.rows import unit_rows


def top_samples(features: Tensor, n_top: int) -> Tensor:
    """The numbers of the strongest samples of each feature, int64 ``(n_features, n_top)``.

    Rows are scaled to length 1 first, as everywhere; signed features count by absolute value. Of
    equal samples the lower number comes first.
    """
    strength = unit_rows(features).abs()
    return strength.argsort(dim=0, descending=True, stable=True)[:n_top].T


def montage(
    images: Tensor, columns: dict[str, Tensor], *, n_features: int = 8, n_top: int = 10
) -> Drawing:
    """The top samples of the features that are strongest on average, one row per feature.

    Args:
        images: uint8 or [0, 1] ``(n, c, h, w)``.
        columns: For each method its features ``(n, d)``; one block of columns each.
        n_features: Rows.
        n_top: Samples per row.
    """
    figure = Drawing(figsize=(0.55 * n_top * len(columns), 0.58 * n_features + 0.6), dpi=150)
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


def save_figure(figure: Drawing, path: str | Path) -> None:
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


Runs = Mapping[int, Sequence[tuple[float, float]]]


def learning_curves(
    panels: Mapping[str, Mapping[str, Runs]], *, x_label: str = "steps", y_label: str = "accuracy"
) -> Drawing:
    """Lines of the mean over seeds, with a band from the lowest to the highest seed.

    Args:
        panels: By title, then by method, then by seed: points (x, y) in order. The seeds of a
            method have the same x.
        x_label: Of all panels.
        y_label: Of all panels.
    """
    figure = Drawing(figsize=(4.6 * len(panels), 3.4), dpi=150, layout="constrained")
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


Values = Mapping[str, Sequence[float]]


def seed_dots(panels: Mapping[str, Values], *, nonnegative: Container[str] = ()) -> Drawing:
    """One panel per figure, one row per method: a dot per seed, and a bar at their mean.

    Args:
        panels: By title, then by method: a value per seed. A method that lacks a figure has an
            empty row there.
        nonnegative: Methods with non-negative features, which get the colour of NCL.
    """
    methods = list(dict.fromkeys(method for values in panels.values() for method in values))
    size = (1.6 + 2.3 * len(panels), 0.9 + 0.26 * len(methods))
    figure = Drawing(figsize=size, dpi=120, layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, (title, values) in zip(axes, panels.items(), strict=True):
        for row, method in enumerate(methods):
            found = list(values.get(method, ()))
            if not found:
                continue
            colour = COLOURS[int(method in nonnegative)]
            axis.plot(found, [row] * len(found), "o", color=colour, markersize=4, alpha=0.6)
            mean = float(np.mean(found))
            axis.plot([mean, mean], [row - 0.32, row + 0.32], color=colour, linewidth=2)
        axis.set_title(fill(title, 30), fontsize=9)
        axis.set_yticks(range(len(methods)), methods, fontsize=8)
        axis.set_ylim(len(methods) - 0.4, -0.6)
        axis.margins(x=0.12)
        axis.tick_params(axis="x", labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(visible=True, axis="x", color="0.92")
        axis.set_axisbelow(True)
    return figure


_PROPERTIES = (
    f"class_consistency_min{MIN_ACTIVE}",
    "class_consistency",
    "sparsity",
    "correlation",
)
_TITLE_WIDTH = 19  # letters that fit above one panel of bars
_RANKINGS = {
    "ea_rectified": "expected activation",
    "ea_signed": "expected activation of signed scores",
    "random": "random",
}
_TASKS = {"probe": "linear probe", "retrieval": "precision at 10", "transfer": "transfer"}


def property_bars(by_method: Mapping[str, Figures]) -> Drawing:
    """Class consistency, sparsity and correlation as bars, one per method; chance as a line.

    Args:
        by_method: Figures such as ``headline`` gives them; a property that no method has is left
            out.
    """
    known = [
        key
        for key in _PROPERTIES
        if any(_value(f.get(key)) is not None for f in by_method.values())
    ]
    figure = Drawing(figsize=(2.4 * max(1, len(known)), 2.8), dpi=150, layout="constrained")
    axes = figure.subplots(1, max(1, len(known)), squeeze=False)[0]
    for axis, key in zip(axes, known, strict=False):
        for place, (method, figures) in enumerate(by_method.items()):
            _bar(axis, place, method, figures.get(key))
        axis.set_title(fill(figure_kind(key).title, _TITLE_WIDTH), fontsize=10)
        axis.set_xticks(range(len(by_method)), list(by_method))
        axis.set_ylim(0, 1.08)
        _tidy(axis)
    return figure


def selection_curve(points: Sequence[SelectionPoint]) -> Drawing:
    """The performance of selected features, one panel per task, one line per ranking.

    Args:
        points: At least one; random choices have a bar of one standard deviation.
    """
    tasks = [task for task in _TASKS if any(point.task == task for point in points)]
    figure = Drawing(figsize=(3.4 * len(tasks), 3), dpi=150, layout="constrained")
    axes = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axis, task in zip(axes, tasks, strict=True):
        mine = [point for point in points if point.task == task]
        whole = [point for point in mine if point.ranking == "all"]
        for number, (ranking, name) in enumerate(_RANKINGS.items()):
            line = sorted(
                [point for point in mine if point.ranking == ranking] + whole,
                key=lambda point: point.n_features,
            )
            if len(line) > len(whole):
                axis.errorbar(
                    [point.n_features for point in line],
                    [point.value for point in line],
                    yerr=[point.std or 0 for point in line],
                    color=COLOURS[number],
                    marker=MARKERS[number],
                    markersize=4,
                    linestyle=("-", "--", ":")[number],
                    capsize=2,
                    label=name,
                )
        sizes = sorted({point.n_features for point in mine})
        axis.set(xscale="log", xlabel="features kept", title=_TASKS[task])
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=30)
        axis.minorticks_off()
        _tidy(axis)
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def correlation_matrices(by_method: Mapping[str, NDArray[np.floating]]) -> Drawing:
    """Absolute cosines between features as heat maps on one scale.

    Args:
        by_method: Square matrices ``(k, k)`` in a telling order.
    """
    n = len(by_method)
    figure = Drawing(figsize=(3.1 * n + 0.5, 3.1), dpi=150, layout="constrained")
    axes = figure.subplots(1, n, squeeze=False)[0]
    for axis, (method, cosines) in zip(axes, by_method.items(), strict=True):
        drawn = axis.imshow(cosines, cmap="cividis", vmin=0, vmax=1, interpolation="nearest")
        axis.set(title=method, xlabel="feature", ylabel="feature", xticks=[], yticks=[])
    figure.colorbar(drawn, ax=axes[-1], label="absolute cosine")
    return figure


def sepin_curve(by_method: Mapping[str, FloatArray]) -> Drawing:
    """SEPIN@k: the mean of the k largest SEP, over k.

    Args:
        by_method: SEP of each feature ``(d,)`` in nats.
    """
    figure = Drawing(figsize=(4, 3), dpi=150, layout="constrained")
    axis = figure.subplots()
    for number, (method, values) in enumerate(by_method.items()):
        ordered = np.sort(values)[::-1]
        k = np.arange(1, len(ordered) + 1)
        axis.plot(
            k,
            np.cumsum(ordered) / k,
            color=COLOURS[number],
            linestyle=("-", "--", ":")[number % 3],
            label=method,
        )
    axis.set(xscale="log", xlabel="k", ylabel="SEPIN@k (nats)")
    axis.legend(frameon=False)
    _tidy(axis)
    return figure


def _bar(axis: Axes, place: int, method: str, figure: Figure | None) -> None:
    value = _value(figure)
    if figure is None or value is None:
        axis.text(place, 0.02, "not measured", ha="center", fontsize=7, rotation=90)
        return
    low, high, chance = (figure.beside.get(key) for key in ("low", "high", "null"))
    errors = None
    if isinstance(low, float) and isinstance(high, float):
        errors = [[max(0.0, value - low)], [max(0.0, high - value)]]
    axis.bar(place, value, 0.6, color=COLOURS[place], yerr=errors, capsize=3, label=method)
    axis.text(place, value + 0.03, f"{value:.2f}", ha="center", fontsize=8)
    if isinstance(chance, float):
        axis.hlines(chance, place - 0.3, place + 0.3, color="black", linestyle=":", linewidth=1.5)


def _value(figure: Figure | None) -> float | None:
    return None if figure is None else figure.value


def _tidy(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(visible=True, axis="y", color="0.92")
    axis.set_axisbelow(True)


# A montage needs no more to find strong samples.
_MONTAGE_SAMPLES = 10_000
_N_CORRELATED = 64


def write_figures(folder: str | Path, atlas: Atlas) -> list[Path]:
    """Write every figure that the atlas has data for; the files, PNG and SVG of each.

    Args:
        folder: Made if it is not there.
        atlas: The same as for the page.
    """
    atlas = atlas.finite()
    written = []
    for name, figure in paper_figures(atlas).items():
        for ending in ("png", "svg"):
            path = Path(folder) / f"{name}.{ending}"
            save_figure(figure, path)
            written.append(path)
    return written


def paper_figures(atlas: Atlas) -> dict[str, Drawing]:
    """Figures by name: montage, properties, correlation, selection, sepin, where there is data."""
    methods = _methods(atlas)
    classes = atlas.samples.classes
    figures = {
        "properties": property_bars(
            {
                name: headline(Z, classes, known=atlas.run_info.figures.get(name))
                for name, Z in methods.items()
            }
        ),
        "correlation": correlation_matrices({name: _ordered(Z) for name, Z in methods.items()}),
    }
    if atlas.samples.images is not None:
        figures["montage"] = _montage(atlas, methods)
    if atlas.run_info.selection:
        figures["selection"] = selection_curve(atlas.run_info.selection)
    sepin = {atlas.against_method: atlas.against_sepin, atlas.method: atlas.sepin}
    known = {name: np.asarray(values) for name, values in sepin.items() if values is not None}
    if known:
        figures["sepin"] = sepin_curve(known)
    return figures


def _methods(atlas: Atlas) -> dict[str, FeatureLike]:
    methods = {} if atlas.against is None else {atlas.against_method: atlas.against}
    return {**methods, atlas.method: atlas.samples.features}


def _ordered(Z: FeatureLike) -> np.ndarray:
    """Cosines of the alive features strongest on average, similar ones side by side."""
    facts = feature_facts(Z, n_top=1)
    order = np.argsort(-facts.expected, kind="stable")
    cosines = column_cosines(Z, order[facts.n_active[order] > 0][:_N_CORRELATED])
    telling = telling_order(cosines)
    return cosines[np.ix_(telling, telling)]


def _montage(atlas: Atlas, methods: dict[str, FeatureLike]) -> Drawing:
    images = atlas.samples.images
    assert images is not None
    some = random_draw(len(atlas.samples), _MONTAGE_SAMPLES, seed=0)
    pixels = torch.from_numpy(np.array(images(some) if callable(images) else images[some]))
    if pixels.ndim == 3:
        pixels = pixels[:, None]
    elif pixels.shape[1] not in (1, 3):
        pixels = pixels.permute(0, 3, 1, 2)
    rows = torch.from_numpy(some)
    return montage(pixels, {name: checked_features(Z).rows(rows) for name, Z in methods.items()})
