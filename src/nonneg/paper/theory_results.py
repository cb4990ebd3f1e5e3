"""The results of the theory's studies: a table of solvers, sentences, numbers and figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from nonneg.factorization.checking import FloatArray
from nonneg.factorization.comparison import Outcome
from nonneg.io import write_bytes, write_json
from nonneg.paper.theory import DEGREES, GROWN, N_CLASSES, SIZES, WIDTHS, Theory, over_seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def solver_table(name: str, outcomes: list[Outcome], n_seeds: int) -> Table:
    """The solvers of one kind of world side by side, one row per solver."""
    table = Table(
        title=f"{name}: {outcomes[0].n_samples} samples, {N_CLASSES} classes, "
        + (f"mean ± std of {n_seeds} seeds" if n_seeds > 1 else "one seed"),
        title_justify="left",
    )
    table.add_column("")
    columns = {
        "error ‖Ā − FFᵀ‖²": ("error", ".1e"),
        "CPU seconds": ("seconds", ".2f"),
        "MB": ("megabytes", ".2f"),
        "cosine with φ": ("cosine", ".4f"),
        "correlation": ("correlation", ".4f"),
        "distance to φ": ("distance", ".3f"),
    }
    for title in columns:
        table.add_column(title, justify="right")
    for method in dict.fromkeys(found.method for found in outcomes):
        values = (over_seeds(outcomes, method, field) for field, _ in columns.values())
        cells = (
            f"{value.mean():{form}}" + (f" ± {value.std():{form}}" if n_seeds > 1 else "")
            for value, (_, form) in zip(values, columns.values(), strict=True)
        )
        table.add_row(method, *cells)
    return table


def sentences(found: Theory) -> list[str]:
    """What the other studies found, one line each."""
    seen, new = np.array(found.held_out).mean(axis=0)
    rotation = found.rotation
    change = max(float(np.ptp(study.signed_loss)) for study in rotation)
    rise = np.mean([study.rectified_loss[-1] - study.lowest for study in rotation])
    before, after = np.mean(
        [(study.signed_consistency[0], study.signed_consistency[-1]) for study in rotation], axis=0
    )
    one, best = (np.array(found.starts) > 0.99).sum(axis=0)
    digits = found.digits
    purity = {name: np.mean([study.purity[name] for study in digits]) for name in ("CL", "NCL")}
    error = {name: np.mean([study.error[name] for study in digits]) for name in ("CL", "NCL")}
    return [
        f"new samples (encoder only): cosine with φ {new:.4f} on held-out samples, "
        f"{seen:.4f} on seen ones",
        f"starts, worlds without overlap: projected gradient finds all classes from one start in "
        f"{one} of {len(found.starts)}, from the best of 3 starts in {best}",
        f"rotation by 90°: the signed loss changes by {change:.0e} and class consistency falls "
        f"from {before:.2f} to {after:.2f}; rectified, the loss rises by {rise:.2f}",
        f"digits, {digits[0].n_views:,} views, 40 features: purity of the top 20 views "
        f"CL {purity['CL']:.3f}, NCL {purity['NCL']:.3f}; error {error['CL']:.1f}, "
        f"{error['NCL']:.1f}",
    ]


def write_results(found: Theory, out: Path) -> None:
    """Write all numbers as ``theory.json`` and the figures beside it."""
    # Imported on use: nothing else here needs matplotlib.
    from nonneg.report.theory_figures import small_png

    write_json(out / "theory.json", found.record())
    for name, figure in _figures(found).items():
        write_bytes(out / f"theory-{name}.png", small_png(figure))


def _figures(found: Theory) -> "dict[str, Figure]":
    from nonneg.report import theory_figures as draw

    example, rotation = found.example, found.rotation
    return {
        "posterior": draw.posterior_figure(
            example.normalized,
            {**example.features, "posterior φ": example.phi},
            {
                name: f"error {example.error[name]:.0e}\ncosine {example.cosine[name]:.3f}"
                for name in example.features
            },
        ),
        "rotation": draw.rotation_figure(
            DEGREES,
            {
                "signed": np.array([study.signed_loss for study in rotation]),
                "rectified": np.array([study.rectified_loss for study in rotation]),
            },
            np.array([study.signed_consistency for study in rotation]),
            lowest=np.array([study.lowest for study in rotation]),
        ),
        "anchors": _anchor_figure(found),
        "width": draw.width_figure(
            WIDTHS,
            {
                "classes, best feature each": _per_seed(found.widths, "cosine"),
                "features, nearest class each": _per_seed(found.widths, "nearest"),
            },
            _per_seed(found.widths, "error"),
            n_classes=N_CLASSES,
        ),
        "growth": draw.growth_figure(
            SIZES,
            {
                label: {
                    method: over_seeds(found.growth, method, field).tolist() for method in GROWN
                }
                for label, field in (
                    ("CPU seconds", "seconds"),
                    ("peak memory (MB)", "megabytes"),
                    ("matched cosine with φ", "cosine"),
                )
            },
        ),
    }


def _anchor_figure(found: Theory) -> "Figure":
    from nonneg.report import theory_figures as draw

    methods = {"NCL": "NCL (optimum)", "CL": "CL (optimum)", "random": "random features"}
    scores = {
        score: {
            label: np.array(
                [[getattr(study, score)[name] for study in row] for row in found.anchors]
            ).T
            for name, label in methods.items()
        }
        for score in ("cosine", "correlation")
    }
    purity = _per_seed(found.anchors, "purity").mean(axis=0)
    return draw.anchor_figure(purity, scores["cosine"], scores["correlation"])


def _per_seed(rows: Sequence[Sequence[object]], name: str) -> FloatArray:
    """One number of every study, ``(n_seeds, len(rows))``."""
    return np.array([[getattr(study, name) for study in row] for row in rows]).T
