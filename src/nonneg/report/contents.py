"""The contents of the page: each part of the atlas as values that JSON can hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from nonneg import metrics
from nonneg.estimators.hierarchy import coactivation_tree, column_cosines
from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.metrics.figures import figure_kind
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.report import feature_facts as coactivation
from nonneg.report.atlas_data import SelectionPoint, Training
from nonneg.report.feature_facts import FeatureFacts
from nonneg.report.maps import document_places, feature_places
from nonneg.report.page import packed_array, packed_image_sheets
from nonneg.report.samples import Samples, image_sheets
from nonneg.rows import unit_rows

SCALE = 32767
# About 16 MB of a page.
MAX_ENTRIES = 3_000_000


@dataclass(frozen=True, eq=False)
class Activations:
    """Active entries of unit rows, row after row.

    Args:
        starts: Where row i begins, ``(n + 1,)``.
        columns: Features, rising within a row ``(n_entries,)``.
        values: Signed strength times ``SCALE``, never 0 ``(n_entries,)``.
        kept_a_row: Only so many of the strongest entries of a row are kept; None if all are.
    """

    starts: NDArray[np.int32]
    columns: NDArray[np.uint16]
    values: NDArray[np.int16]
    kept_a_row: int | None


def activations(
    Z: FeatureLike, rows: IntArray | None = None, *, max_entries: int = MAX_ENTRIES
) -> Activations:
    """The active entries of some rows, each row scaled to length 1.

    Args:
        Z: Features ``(n, d)``, d below 65,536.
        rows: Which rows; all if left out.
        max_entries: If more entries are active, each row keeps its strongest, equally many.

    Example:
        >>> packed = activations([[3, 0, 4], [0, 0, 0]])
        >>> packed.starts.tolist(), packed.columns.tolist(), (packed.values / SCALE).round(3)
        ([0, 2, 2], [0, 2], array([0.6, 0.8]))
    """
    features = checked_features(Z)
    if features.n_features > np.iinfo(np.uint16).max:
        raise ValueError(
            f"the atlas shows at most {np.iinfo(np.uint16).max:,} features, "
            f"got {features.n_features:,}; keep some of them"
        )
    chosen = np.arange(features.n_samples) if rows is None else rows
    blocks = []
    for start in range(0, len(chosen), features.tile_rows):
        which = torch.from_numpy(chosen[start : start + features.tile_rows])
        dense = unit_rows(features.rows(which.to(features.device))).cpu().numpy()
        blocks.append(sparse.csr_array(np.where(np.abs(dense) > ACTIVE_THRESHOLD, dense, 0)))
    found = sparse.csr_array(sparse.vstack(blocks, format="csr"))
    kept = None
    if found.nnz > max_entries:
        kept = max(1, max_entries // len(chosen))
        found = _strongest(found, kept)
    values = np.rint(found.data * SCALE)
    values = np.where(values == 0, np.sign(found.data), values)  # weak, but not off
    return Activations(
        starts=found.indptr.astype(np.int32),
        columns=found.indices.astype(np.uint16),
        values=values.astype(np.int16),
        kept_a_row=kept,
    )


def _strongest(rows: sparse.csr_array, k: int) -> sparse.csr_array:
    """The k largest entries of each row by absolute value, in the order of their columns."""
    kept = np.zeros(rows.nnz, dtype=bool)
    for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        order = np.argsort(-np.abs(rows.data[start:stop]), kind="stable")[:k]
        kept[start + order] = True
    starts = np.concatenate([[0], np.cumsum(kept)])[rows.indptr]
    return sparse.csr_array((rows.data[kept], rows.indices[kept], starts), shape=rows.shape)


N_PARTNERS = 8
N_MIX = 6
# Cosines of more features than this would take more memory than they are worth, and a map of
# more could not be read.
MAX_COSINES = 4096
MAX_MAPPED = 1024
N_HEAT = 72
# Characters of all texts of one kind on a page; beyond, each is cut.
MAX_TEXT = 24_000_000
_NO_DATE = np.iinfo(np.int32).min


def side(
    samples: Samples,
    shown: IntArray,
    pair: IntArray | None = None,
    *,
    places: FloatArray | None = None,
) -> dict[str, Any]:
    """Samples of one kind: their activations and what can be seen of them.

    Args:
        samples: All of them.
        shown: Numbers of those that the page holds.
        pair: For each shown sample, the shown sample of the other kind that it belongs to, or -1.
        places: On the map, in the unit square ``(len(shown), 2)``.
    """
    texts, cut_at = shown_texts(samples, shown)
    found = activations(samples.features, shown, max_entries=MAX_ENTRIES)
    classes, numbers = samples.classes, samples.own_numbers[shown]
    return {
        "kind": samples.kind,
        "n_all": len(samples),
        "n": len(shown),
        "kept_a_row": found.kept_a_row,
        "starts": packed_array(found.starts, "int32"),
        "columns": packed_array(found.columns, "uint16"),
        "values": packed_array(found.values, "int16"),
        "numbers": None
        if np.array_equal(numbers, np.arange(len(shown)))
        else packed_array(numbers, "int32"),
        "labels": None if classes is None else packed_array(classes[shown], "int32"),
        "texts": texts,
        "cut_at": cut_at,
        "dates": None if samples.dates is None else _packed_days(samples.dates[shown]),
        "places": None if places is None else packed_array(np.rint(65535 * places), "uint16"),
        "ids": None if samples.ids is None else [str(samples.ids[i]) for i in shown],
        "image_sheets": None
        if samples.images is None
        else packed_image_sheets(image_sheets(samples.images, shown)),
        "pair": None if pair is None else packed_array(pair, "int32"),
    }


def shown_texts(
    samples: Samples, shown: IntArray, *, most: int | None = None
) -> tuple[list[str] | None, int | None]:
    """The texts that the page holds, and after how many characters they are cut, None if nowhere.

    Args:
        samples: All of them.
        shown: Numbers of those that the page holds.
        most: Characters of all together; left out, ``MAX_TEXT``.

    Example:
        >>> some = Samples(features=[[1], [1]], texts=["tea", "a long story"])
        >>> shown_texts(some, np.arange(2), most=9)
        (['tea', 'a long…'], 6)
    """
    if samples.texts is None:
        return None, None
    texts = [samples.texts[i] for i in shown]
    most = MAX_TEXT if most is None else most
    lengths = np.sort([len(text) for text in texts])
    if lengths.sum() <= most:
        return texts, None
    # If the i shortest stay whole, the others share what is left.
    before = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    shares = (most - before) // np.arange(len(lengths), 0, -1)
    cut_at = max(1, int(shares[np.argmax(lengths > shares)]))
    return [text if len(text) <= cut_at else f"{text[:cut_at]}…" for text in texts], cut_at


def _packed_days(dates: NDArray[np.datetime64]) -> dict[str, Any]:
    """Days since 1970, and the lowest number where there is none."""
    days = np.where(np.isnat(dates), _NO_DATE, dates.astype(np.int64))
    return packed_array(days, "int32")


def feature_table(facts: FeatureFacts, names: Sequence[str]) -> dict[str, Any]:
    """The data of each feature for the grid and the pages of single features."""
    classes, counts = _commonest(facts.class_counts)
    return {
        "names": list(names),
        "expected": packed_array(facts.expected, "float32"),
        "n_active": packed_array(facts.n_active, "int32"),
        "highest": packed_array(facts.highest, "float32"),
        "purity": packed_array(facts.purity, "float32"),
        "main_class": packed_array(facts.main_class, "int32"),
        "histogram": packed_array(facts.histogram, "int32"),
        "main_histogram": packed_array(facts.main_histogram, "int32"),
        "mix_class": packed_array(classes, "int32"),
        "mix_count": packed_array(counts, "int32"),
        "top": packed_array(facts.top, "int32"),
        "top_strength": packed_array(facts.top_strength, "float32"),
        "spread": packed_array(facts.spread, "int32"),
        "exceptions": packed_array(facts.exceptions, "int32"),
    }


def top_table(facts: FeatureFacts, names: Sequence[str], n_top: int = 12) -> dict[str, Any]:
    """The data of another run's features for a comparison: no activations, only the top."""
    return {
        "names": list(names),
        "expected": packed_array(facts.expected, "float32"),
        "n_active": packed_array(facts.n_active, "int32"),
        "purity": packed_array(facts.purity, "float32"),
        "top": packed_array(facts.top[:, :n_top], "int32"),
        "signed": facts.signed,
    }


@dataclass(frozen=True, eq=False)
class Company:
    """Which features fire together.

    Args:
        which: Numbers of alive features, strongest on average first ``(k,)``.
        cosines: Between them ``(k, k)``.
        mapped: The first of them, which have a place on the map ``(m,)``.
        places: In the unit square ``(m, 2)``.
    """

    which: IntArray
    cosines: NDArray[np.float32]
    mapped: IntArray
    places: FloatArray

    @classmethod
    def of(cls, Z: FeatureLike, facts: FeatureFacts) -> "Company":
        """The company of the features of ``Z``."""
        strongest = np.argsort(-facts.expected, kind="stable")
        which = strongest[facts.n_active[strongest] > 0][:MAX_COSINES]
        cosines = column_cosines(Z, which)
        mapped = which[:MAX_MAPPED]
        places = feature_places(cosines[: len(mapped), : len(mapped)])
        return cls(which, cosines, mapped, places)

    def sample_places(self, Z: FeatureLike) -> FloatArray:
        """Places of samples in the unit square, started at those of their features ``(n, 2)``."""
        start = np.full((np.shape(Z)[1], 2), np.nan)
        start[self.mapped] = self.places
        return document_places(Z, start=start)

    def tree(self) -> dict[str, Any]:
        """The features on the map, joined two by two, the most alike first.

        Feature i of the list is node i; join i makes node m + i of two nodes.
        """
        m = len(self.mapped)
        joins = coactivation_tree(self.cosines[:m, :m])
        return {
            "features": packed_array(self.mapped, "int32"),
            "joins": packed_array(joins[:, :2], "int32"),
            "cosines": packed_array(1 - joins[:, 2], "float32"),
        }


def space(
    Z: FeatureLike,
    facts: FeatureFacts,
    company: Company,
    rank: metrics.EffectiveRank,
    selection: Mapping[str, Sequence[SelectionPoint]],
) -> dict[str, Any]:
    """The geometry of the features: partners, heat map, map, spectrum, selection."""
    which, cosines = company.which, company.cosines
    found = coactivation.partners(cosines, which, len(facts.expected), N_PARTNERS)
    heat = which[: min(N_HEAT, len(which))]
    order = coactivation.telling_order(cosines[: len(heat), : len(heat)])
    per_sample = metrics.active_per_sample(Z).per_sample
    return {
        "partners": packed_array(found.numbers, "int32"),
        "partner_cosines": packed_array(found.cosines, "float32"),
        "heat": packed_array(heat[order], "int32"),
        "heat_cosines": packed_array(
            np.rint(255 * np.clip(cosines[np.ix_(order, order)], 0, 1)), "uint8"
        ),
        "map": packed_array(company.mapped, "int32"),
        "places": packed_array(company.places, "float32"),
        "active_per_sample": _counted(per_sample),
        "effective_rank": rank.value,
        "singular_values": packed_array(rank.singular_values[:512], "float32"),
        "selection": {
            name: [vars(point) for point in points] for name, points in selection.items() if points
        },
    }


def time_table(found: coactivation.OverTime) -> dict[str, Any]:
    """The strength of each feature over time."""
    return {
        "unit": found.unit,
        "periods": found.periods,
        "counts": packed_array(found.counts, "int32"),
        "means": packed_array(found.means, "float32"),
        "errors": packed_array(found.errors, "float32"),
        "change": packed_array(found.change, "float32"),
        "change_error": packed_array(found.change_error, "float32"),
        "is_sure": packed_array(found.is_sure, "uint8"),
    }


def training_charts(histories: Mapping[str, Training]) -> list[dict[str, Any]]:
    """One chart per quantity that any history has at least twice, one line per method."""
    charts = []
    for key in _QUANTITIES:
        lines = {
            name: [
                [record["epoch"], record[key]]
                for record in history.records
                if record.get(key) is not None
            ]
            for name, history in histories.items()
        }
        lines = {name: points for name, points in lines.items() if points}
        levels = {h.collapse[key] for h in histories.values() if key in h.collapse}
        if any(len(points) > 1 for points in lines.values()):
            collapse = max(levels, default=None)
            title = figure_kind(key).label
            charts.append({"key": key, "title": title, "lines": lines, "collapse": collapse})
    return charts


_QUANTITIES = (
    "loss",
    "progress_rate",
    "alive_features",
    "sparsity",
    "class_consistency",
    "effective_rank",
    "zero_row_rate",
)


def _commonest(counts: IntArray) -> tuple[IntArray, IntArray]:
    """The commonest classes of each feature's active samples, and their counts, ``(d, N_MIX)``."""
    d = counts.shape[1]
    classes, found = np.full((d, N_MIX), -1), np.zeros((d, N_MIX), dtype=np.int64)
    k = min(N_MIX, len(counts))
    order = np.argsort(-counts, axis=0, kind="stable")[:k].T
    classes[:, :k] = order
    found[:, :k] = np.take_along_axis(counts.T, order, axis=1)
    return classes, found


def _counted(per_sample: IntArray, n_bins: int = 40) -> dict[str, Any]:
    """A histogram of whole numbers in bins of equal, whole width."""
    highest = int(per_sample.max())
    width = max(1, -(-(highest + 1) // n_bins))
    counts = np.bincount(per_sample // width, minlength=highest // width + 1)
    return {
        "width": width,
        "counts": counts.tolist(),
        "mean": float(per_sample.mean()),
        "median": float(np.median(per_sample)),
    }


def per_feature(values: FloatArray | None) -> dict[str, Any] | None:
    """One number per feature, or None."""
    return None if values is None else packed_array(np.asarray(values), "float32")
