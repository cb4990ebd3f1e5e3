"""The headline of an atlas: readability and accuracies, each beside the level of chance."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from nonneg import metrics
from nonneg.evaluation.readability import class_keys, monosemanticity_figure, readability
from nonneg.evaluation.sections import precision_figure
from nonneg.metrics.figures import MIN_ACTIVE, Figure, Figures, shown_kind
from nonneg.metrics.inputs import FeatureLike
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.report.samples import random_draw, rows_of

# Retrieval takes a time that grows with the square of the samples.
_RETRIEVAL_SAMPLES = 5000
_K = 10

_ALL_CLASS_KEYS = class_keys(MIN_ACTIVE)
_READABILITY = (
    "alive_rate",
    "sparsity",
    "sparsity_alive",
    "active_per_sample",
    "correlation",
    "effective_rank",
)
# What the page shows of class consistency and purity.
CLASS_KEYS = (f"class_consistency_min{MIN_ACTIVE}", f"top{MIN_ACTIVE}_purity")
# What another set of labels changes.
LABEL_KEYS = (*_ALL_CLASS_KEYS, "precision_features")
# The figures of the page, in their order; others follow.
HEADLINE = (
    "alive_rate",
    "sparsity",
    "sparsity_alive",
    "active_per_sample",
    "alive_both",
    "active_per_caption",
    "caption_to_sample",
    "sample_to_caption",
    "agreement",
    *CLASS_KEYS,
    "monosemanticity",
    "correlation",
    "sepin_10",
    "effective_rank",
    "precision_features",
    "returned",
    "probe_hidden",
    "probe_features",
    "knn_features",
)


def headline(
    Z: FeatureLike,
    labels: IntArray | None = None,
    *,
    reference: FeatureLike | None = None,
    sepin: FloatArray | None = None,
    rank: metrics.EffectiveRank | None = None,
    known: Figures | None = None,
) -> Figures:
    """Readability of features; figures that need labels or a reference only where these are given.

    Args:
        Z: Features ``(n, d)``.
        labels: Class numbers ``(n,)``.
        reference: An embedding that is trusted to tell what is alike ``(n, width)``.
        sepin: SEP of each feature ``(d,)``.
        rank: The effective rank, where it is known already: it takes longest.
        known: Figures of an evaluation, which are not measured again.

    Example:
        >>> figures = headline([[1, 0, 0], [0, 1, 0]])
        >>> figures["sparsity"].value, figures["alive_rate"].beside["n_dead"]
        (0.6666666666666666, 1)
    """
    figures = dict(known or {})
    if not has_readability(figures, with_classes=labels is not None):
        figures = readability(Z, labels, rank=rank) | figures
    if labels is not None and "precision_features" not in figures and len(labels) > _K:
        some = random_draw(len(labels), _RETRIEVAL_SAMPLES, seed=0)
        found = metrics.precision_at_k(rows_of(Z, some), labels[some], _K)
        measured = precision_figure("precision_features", found, torch.from_numpy(labels[some]))
        figures["precision_features"] = _with_beside(measured, n_samples=len(some))
    if labels is not None and "precision_features" in figures:
        # By chance a neighbour is any sample.
        shares = np.bincount(labels) / len(labels)
        chance = float((shares**2).sum())
        figures["precision_features"] = _with_beside(figures["precision_features"], null=chance)
    if sepin is not None and "sepin_10" not in figures:
        largest = np.sort(sepin)[::-1][:10]
        figures["sepin_10"] = Figure.of("sepin_10", float(largest.mean()))
    if reference is not None and "monosemanticity" not in figures:
        figures["monosemanticity"] = monosemanticity_figure(Z, reference, None)
    return figures


def has_readability(figures: Figures, *, with_classes: bool) -> bool:
    """Whether an evaluation holds all that the page shows of readability."""
    return figures.keys() >= {*_READABILITY, *(CLASS_KEYS if with_classes else ())}


def _with_beside(figure: Figure, **more: float) -> Figure:
    return replace(figure, beside={**figure.beside, **more})


def as_table(by_method: Mapping[str, Figures], kind: str = "sample") -> list[dict[str, Any]]:
    """Rows for the page, in the order of ``HEADLINE``: a figure's title and its value by method.

    Args:
        by_method: Figures by the name of the method.
        kind: What a sample is called.
    """
    keys = list(dict.fromkeys(key for figures in by_method.values() for key in figures))
    first = [key for key in HEADLINE if key in keys]
    others = [key for key in keys if key not in HEADLINE and key not in _ALL_CLASS_KEYS]
    rows = []
    for key in first + others:
        cells = {name: figures[key] for name, figures in by_method.items() if key in figures}
        one = next(iter(cells.values()))
        shown = shown_kind(key, k=one.beside.get("k"))
        rows.append(
            {
                "key": key,
                "title": shown.label.replace("sample", kind).replace("Sample", kind.capitalize()),
                "help": shown.help.replace("sample", kind),
                "is_rate": one.is_rate,
                "higher_is_better": one.higher_is_better,
                "cells": {
                    name: {"value": cell.value, "beside": dict(cell.beside)}
                    for name, cell in cells.items()
                },
            }
        )
    return rows
