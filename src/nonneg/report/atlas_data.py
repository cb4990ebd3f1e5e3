"""The data of an atlas: samples with their features, and all that is shown beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from nonneg.metrics.figures import Figures
from nonneg.metrics.inputs import FeatureLike
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.report.samples import Samples, as_matrix, finite_rows, rows_of


@dataclass(frozen=True)
class SelectionPoint:
    """The performance of a selection of features.

    Args:
        task: ``"probe"``, ``"retrieval"`` or ``"transfer"``.
        ranking: By what features were chosen: ``"ea_rectified"``, ``"ea_signed"``, ``"random"``,
            or ``"all"``.
        n_features: How many.
        value: Accuracy, or precision at 10.
        std: Over random draws; None where there is one choice only.
    """

    task: str
    ranking: str
    n_features: int
    value: float
    std: float | None = None


@dataclass(frozen=True)
class Training:
    """The history of a run.

    Args:
        records: One per epoch, oldest first, with ``epoch`` and any of ``loss``,
            ``alive_features``, ``sparsity``, ``class_consistency``, ``effective_rank``.
        collapse: Level of a quantity at which a run counts as collapsed, by its name.
    """

    records: Sequence[Mapping[str, Any]]
    collapse: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunInfo:
    """What is known of a run beyond its features.

    Args:
        about: Sentences: what was trained on what, and what is shown.
        figures: Figures that are known already, by the name of the method on the page; these are
            shown, and not measured again.
        selection: The selection result.
        training: Histories by method.
        notes: What could not be shown, and why.
    """

    about: Sequence[str] = ()
    figures: Mapping[str, Figures] = field(default_factory=dict)
    selection: Sequence[SelectionPoint] = ()
    training: Mapping[str, Training] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Atlas:
    """Everything that a page is made from.

    Args:
        samples: With their features ``(n, d)``.
        title: Of the page.
        method: What these features are called beside others.
        against: Features ``(n, d2)`` of another method for the same samples.
        against_method: What those are called.
        other_seed: Features ``(n, d3)`` of another run for the same samples; each feature's
            partner there is shown.
        captions: A second kind of samples with the same d features, such as texts for images.
        caption_of: For each caption the number of its sample.
        sepin: SEP of each feature ``(d,)``.
        against_sepin: The same of the other method ``(d2,)``.
        reference: An embedding that is trusted to tell what is alike ``(n, width)``, for
            monosemanticity.

    Raises:
        ValueError: If lengths do not fit.

    Example:
        >>> Z = [[1, 0], [0, 1]]
        >>> Atlas(samples=Samples(features=Z), against=[[1, 2]])
        Traceback (most recent call last):
        ...
        ValueError: against has 1 rows for 2 samples; give the same samples in the same order
    """

    samples: Samples
    title: str = "Features"
    method: str = "features"
    against: FeatureLike | None = None
    against_method: str = "other"
    other_seed: FeatureLike | None = None
    captions: Samples | None = None
    caption_of: IntArray | None = None
    sepin: FloatArray | None = None
    against_sepin: FloatArray | None = None
    reference: FeatureLike | None = None
    names: Sequence[str] | None = None
    run_info: RunInfo = field(default_factory=RunInfo)

    def __post_init__(self) -> None:
        n, d = len(self.samples), self.samples.n_features
        for name in _BESIDE:
            matrix = getattr(self, name)
            if matrix is None:
                continue
            matrix = as_matrix(matrix)
            object.__setattr__(self, name, matrix)
            if len(matrix.shape) != 2:
                raise ValueError(f"{name} has shape {tuple(matrix.shape)}; give one row per sample")
            if matrix.shape[0] != n:
                raise ValueError(
                    f"{name} has {matrix.shape[0]} rows for {n} samples; "
                    "give the same samples in the same order"
                )
        if self.against is not None and self.method == self.against_method:
            raise ValueError(f"both methods are called {self.method!r}; name them apart")
        d2 = 0 if self.against is None else self.against.shape[1]  # type: ignore[union-attr]
        for name, width in (("sepin", d), ("against_sepin", d2)):
            given = getattr(self, name)
            if given is not None and len(given) != width:
                raise ValueError(
                    f"{name} has {len(given)} numbers for {width} features; give one each"
                )
        if self.names is not None and len(self.names) != d:
            raise ValueError(f"names has {len(self.names)} entries for {d} features; give one each")
        self._check_captions(n, d)

    def _check_captions(self, n: int, d: int) -> None:
        captions = self.captions
        of = None if self.caption_of is None else np.asarray(self.caption_of)
        object.__setattr__(self, "caption_of", of)
        if captions is not None and captions.n_features != d:
            raise ValueError(
                f"the captions have {captions.n_features} features, the samples {d}; "
                "both must come from one model"
            )
        if of is None:
            return
        n_captions = 0 if captions is None else len(captions)
        if of.ndim != 1 or of.dtype.kind not in "iu":
            raise ValueError(
                f"caption_of holds {of.dtype} of shape {of.shape}; "
                "give one whole number per caption"
            )
        if len(of) != n_captions:
            raise ValueError(
                f"caption_of has {len(of)} numbers for {n_captions} captions; give one each"
            )
        if of.min() < 0 or of.max() >= n:
            raise ValueError(
                f"caption_of holds numbers from {of.min()} to {of.max()}; "
                f"samples are numbered from 0 to {n - 1}"
            )

    def finite(self) -> Self:
        """The atlas without samples that have NaN or infinite features, which a note counts.

        Raises:
            ValueError: If none is left.
        """
        captions, of, notes = self.captions, self.caption_of, list(self.run_info.notes)
        if captions is not None and not captions.finite_rows().all():
            fine = np.flatnonzero(captions.finite_rows())
            notes.append(_left_out(len(captions) - len(fine), len(captions), "captions"))
            captions, of = captions.take(fine), None if of is None else of[fine]
        changed: dict[str, Any] = {}
        matrices = [getattr(self, name) for name in _BESIDE]
        masks = [finite_rows(matrix) for matrix in matrices if matrix is not None]
        mask = np.logical_and.reduce([self.samples.finite_rows(), *masks])
        n = len(self.samples)
        if not mask.any():
            raise ValueError(f"all {n:,} samples have NaN or infinite features; nothing to show")
        if not mask.all():
            numbers = np.flatnonzero(mask)
            notes.append(_left_out(n - len(numbers), n, "samples"))
            changed = {
                name: rows_of(matrix, numbers)
                for name, matrix in zip(_BESIDE, matrices, strict=True)
                if matrix is not None
            }
            changed["samples"] = self.samples.take(numbers)
            if captions is not None and of is not None:
                kept = np.flatnonzero(mask[of])
                captions, of = captions.take(kept), (np.cumsum(mask) - 1)[of[kept]]
        return replace(
            self,
            captions=captions,
            caption_of=of,
            run_info=replace(self.run_info, notes=notes),
            **changed,
        )


# What has one row per sample.
_BESIDE = ("against", "other_seed", "reference")


def _left_out(n: int, n_all: int, what: str) -> str:
    return f"{n:,} of {n_all:,} {what} have NaN or infinite features and are left out."
