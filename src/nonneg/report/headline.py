"""Which figures stand at the top? Readability, each beside what chance would give."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nonneg import metrics
from nonneg.evaluation.figure import Figure, Figures
from nonneg.metrics.inputs import FeatureLike
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.report.feature_facts import MIN_ACTIVE
from nonneg.report.samples import drawn, rows_of

# Retrieval takes a time that grows with the square of the samples.
_RETRIEVAL_SAMPLES = 5000

# What the page calls a figure, and how it explains it; others keep their own names.
TITLES: dict[str, tuple[str, str]] = {
    "alive_rate": ("Alive features", "active for at least one sample"),
    "sparsity": ("Sparsity", "share of entries that are zero"),
    "sparsity_alive": ("Sparsity of alive features", "dead features cannot raise it"),
    "active_per_sample": ("Active features per sample", "mean"),
    "alive_both": (
        "Features alive on both sides",
        "active for at least one sample and at least one caption",
    ),
    "active_per_caption": ("Active features per caption", "mean"),
    "caption_to_sample": (
        "Captions that find their sample",
        "it is among the ten with the largest cosine",
    ),
    "sample_to_caption": (
        "Samples that find a caption of theirs",
        "one is among the ten with the largest cosine",
    ),
    "agreement": (
        "Agreement of both sides",
        "cosine of a feature over captions with itself over their samples; mean of features",
    ),
    f"class_consistency_min{MIN_ACTIVE}": (
        f"Class consistency (≥ {MIN_ACTIVE} active)",
        f"share of the commonest class among a feature's active samples; features with at least "
        f"{MIN_ACTIVE} of them",
    ),
    "top_purity": (
        f"Purity of the top {MIN_ACTIVE}",
        f"share of the commonest class among a feature's {MIN_ACTIVE} strongest samples",
    ),
    "monosemanticity": (
        "Monosemanticity",
        "how alike the samples of a feature are in the reference embedding",
    ),
    "correlation": ("Feature correlation", "mean absolute cosine between two alive features"),
    "sepin_10": (
        "SEPIN@10",
        "information in nats that only one feature holds, mean of the ten features with most",
    ),
    "effective_rank": ("Effective rank", "directions that the features use"),
    "precision_at_10": (
        "Precision at 10",
        "share of a sample's ten nearest neighbours that have its class",
    ),
    "returned": ("Features that return", "cosine of at least 0.8 with a feature of another seed"),
    "probe_hidden": ("Linear probe, hidden layer", "accuracy on the test set"),
    "probe_features": ("Linear probe, features", "accuracy on the test set"),
    "knn_features": ("k-NN, features", "accuracy on the test set"),
}


def headline(
    Z: FeatureLike,
    labels: IntArray | None = None,
    *,
    reference: FeatureLike | None = None,
    sepin: FloatArray | None = None,
    rank: metrics.EffectiveRank | None = None,
) -> Figures:
    """Readability of features, the figures with labels and a reference only where these are given.

    Args:
        Z: Features ``(n, d)``.
        labels: Class numbers ``(n,)``.
        reference: An embedding that is trusted to tell what is alike ``(n, width)``.
        sepin: SEP of each feature ``(d,)``.
        rank: The effective rank, where it is known already: it takes longest.

    Example:
        >>> figures = headline([[1, 0, 0], [0, 1, 0]])
        >>> figures["sparsity"].value, figures["alive_rate"].beside["n_dead"]
        (0.6666666666666666, 1)
    """
    sparsity = metrics.sparsity(Z)
    n_features = sparsity.n_alive + sparsity.n_dead
    figures = {
        "alive_rate": Figure(
            sparsity.n_alive / n_features,
            higher_is_better=True,
            is_rate=True,
            beside={
                "n_alive": sparsity.n_alive,
                "n_dead": sparsity.n_dead,
                "n_zero_rows": sparsity.n_zero_rows,
            },
        ),
        "sparsity": Figure(sparsity.value, is_rate=True),
        "sparsity_alive": Figure(sparsity.value_alive, is_rate=True),
        "active_per_sample": Figure(metrics.active_per_sample(Z).value),
        "correlation": Figure(metrics.feature_correlation(Z).value, higher_is_better=False),
        "effective_rank": Figure((rank or metrics.effective_rank(Z)).value),
    }
    if labels is not None:
        figures |= _with_labels(Z, labels)
    if sepin is not None:
        largest = np.sort(sepin)[::-1][:10]
        figures["sepin_10"] = Figure(float(largest.mean()), higher_is_better=True)
    if reference is not None:
        found = metrics.monosemanticity(Z, reference)
        figures["monosemanticity"] = Figure(
            found.value,
            higher_is_better=True,
            beside={"null": found.null, "n_features": found.averaged_over},
        )
    return figures


def as_table(by_method: Mapping[str, Figures], kind: str = "sample") -> list[dict[str, Any]]:
    """Rows for the page, in the order of ``TITLES``: a figure's title and its value by method.

    Args:
        by_method: Figures of each method; a row has those methods that have the figure.
        kind: What a sample is called.
    """
    keys = dict.fromkeys(key for figures in by_method.values() for key in figures)
    order = list(TITLES)
    rows = []
    for key in sorted(keys, key=lambda k: order.index(k) if k in TITLES else len(order)):
        title, explanation = TITLES.get(key, (key.replace("_", " "), ""))
        cells = {name: figures[key] for name, figures in by_method.items() if key in figures}
        one = next(iter(cells.values()))
        rows.append(
            {
                "key": key,
                "title": title.replace("sample", kind).replace("Sample", kind.capitalize()),
                "help": explanation.replace("sample", kind),
                "is_rate": one.is_rate,
                "higher_is_better": one.higher_is_better,
                "cells": {
                    name: {"value": cell.value, "beside": dict(cell.beside)}
                    for name, cell in cells.items()
                },
            }
        )
    return rows


def _with_labels(Z: FeatureLike, labels: IntArray) -> Figures:
    n = len(labels)
    m = min(MIN_ACTIVE, n)
    consistency = metrics.class_consistency(
        Z, labels, min_active=m, n_permutations=20, n_bootstrap=200, random_state=0
    )
    purity = metrics.top_purity(Z, labels, m, n_permutations=20, random_state=0)
    low, high = consistency.interval or (None, None)
    some = drawn(n, _RETRIEVAL_SAMPLES, seed=0)
    k = min(10, len(some) - 1)
    shares = np.bincount(labels[some]) / len(some)
    figures = {
        f"class_consistency_min{MIN_ACTIVE}": Figure(
            consistency.value,
            higher_is_better=True,
            is_rate=True,
            beside={
                "null": consistency.null,
                "low": low,
                "high": high,
                "n_features": consistency.averaged_over,
            },
        ),
        "top_purity": Figure(
            purity.value,
            higher_is_better=True,
            is_rate=True,
            beside={"null": purity.null, "n_features": purity.averaged_over},
        ),
    }
    if k == 10:
        found = metrics.precision_at_k(rows_of(Z, some), labels[some], k)
        figures["precision_at_10"] = Figure(
            found.value,
            higher_is_better=True,
            is_rate=True,
            beside={"null": float((shares**2).sum()), "n_samples": len(some)},
        )
    return figures
