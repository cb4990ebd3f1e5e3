"""What goes into a paper? Properties, selection, correlation and SEPIN, arrays in, figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray

from nonneg.evaluation.figure import Figure, Figures
from nonneg.metrics.results import FloatArray
from nonneg.report.feature_facts import MIN_ACTIVE
from nonneg.report.story import SelectionPoint
from nonneg.report.theory_figures import COLOURS, MARKERS

_PROPERTIES = {
    f"class_consistency_min{MIN_ACTIVE}": f"class consistency\n(≥ {MIN_ACTIVE} active)",
    "class_consistency": "class consistency\n(all alive)",
    "sparsity": "sparsity",
    "correlation": "feature correlation",
}
_RANKINGS = {
    "ea_rectified": "expected activation",
    "ea_signed": "expected activation of signed scores",
    "random": "random",
}
_TASKS = {"probe": "linear probe", "retrieval": "precision at 10", "transfer": "transfer"}


def property_bars(by_method: Mapping[str, Figures]) -> Drawing:
    """Class consistency, sparsity and correlation as bars, one a method; chance as a line.

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
        axis.set_title(_PROPERTIES[key], fontsize=10)
        axis.set_xticks(range(len(by_method)), list(by_method))
        axis.set_ylim(0, 1.08)
        _tidy(axis)
    return figure


def selection_curve(points: Sequence[SelectionPoint]) -> Drawing:
    """What is kept with some of the features, one panel a task, one line a ranking.

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
