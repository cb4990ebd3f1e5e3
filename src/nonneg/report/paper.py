"""Which figures does an atlas give for a paper? Those that its data allows, as PNG and SVG."""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.report.atlas import Atlas
from nonneg.report.coactivation import column_cosines, telling_order
from nonneg.report.feature_facts import feature_facts
from nonneg.report.figures import correlation_matrices, property_bars, selection_curve, sepin_curve
from nonneg.report.headline import headline
from nonneg.report.montage import montage, save_figure
from nonneg.report.samples import drawn

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


def paper_figures(atlas: Atlas) -> dict[str, Figure]:
    """Figures by name: montage, properties, correlation, selection, sepin, where there is data."""
    methods = _methods(atlas)
    classes = atlas.samples.classes
    figures = {
        "properties": property_bars({name: headline(Z, classes) for name, Z in methods.items()}),
        "correlation": correlation_matrices({name: _ordered(Z) for name, Z in methods.items()}),
    }
    if atlas.samples.images is not None:
        figures["montage"] = _montage(atlas, methods)
    if atlas.story.selection:
        figures["selection"] = selection_curve(atlas.story.selection)
    sepin = {atlas.against_method: atlas.against_sepin, atlas.method: atlas.sepin}
    known = {name: np.asarray(values) for name, values in sepin.items() if values is not None}
    if known:
        figures["sepin"] = sepin_curve(known)
    return figures


def _methods(atlas: Atlas) -> dict[str, FeatureLike]:
    methods = {} if atlas.against is None else {atlas.against_method: atlas.against}
    return {**methods, atlas.method: atlas.samples.features}


def _ordered(Z: FeatureLike) -> np.ndarray:
    """Cosines of the most expected alive features, alike ones side by side."""
    facts = feature_facts(Z, n_top=1)
    order = np.argsort(-facts.expected, kind="stable")
    cosines = column_cosines(Z, order[facts.n_active[order] > 0][:_N_CORRELATED])
    telling = telling_order(cosines)
    return cosines[np.ix_(telling, telling)]


def _montage(atlas: Atlas, methods: dict[str, FeatureLike]) -> Figure:
    images = atlas.samples.images
    assert images is not None
    some = drawn(len(atlas.samples), _MONTAGE_SAMPLES, seed=0)
    pixels = torch.from_numpy(np.array(images(some) if callable(images) else images[some]))
    if pixels.ndim == 3:
        pixels = pixels[:, None]
    elif pixels.shape[1] not in (1, 3):
        pixels = pixels.permute(0, 3, 1, 2)
    rows = torch.from_numpy(some)
    return montage(pixels, {name: checked_features(Z).rows(rows) for name, Z in methods.items()})
