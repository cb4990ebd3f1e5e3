"""The vocabulary of figures: title, direction and unit of each key, and a figure with its value.

One table holds the title, the direction, the unit and the explanation of every figure; all code
that measures, compares or shows figures reads it, so that a figure has one name everywhere.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

# Of class consistency and purity: features with fewer active samples do not count.
MIN_ACTIVE = 20


@dataclass(frozen=True)
class FigureKind:
    """What a figure is.

    Args:
        title: Its name for a reader, in the middle of a sentence.
        higher_is_better: The direction; None where neither end is the good one.
        is_rate: In [0, 1] and shown in percent.
        unit: Of its value; empty for a number without one, and for a rate.
        help: What is counted, in a few words.
    """

    title: str
    higher_is_better: bool | None = None
    is_rate: bool = False
    unit: str = ""
    help: str = ""

    @property
    def heading(self) -> str:
        """The title with the unit that a column of numbers has.

        Example:
            >>> figure_kind("sparsity").heading, figure_kind("step_ms").heading
            ('sparsity, %', 'step, ms')
        """
        return self.headed(self.title)

    def headed(self, title: str) -> str:
        """Another title, such as a shorter one, with the same unit."""
        unit = "%" if self.is_rate else self.unit
        return f"{title}, {unit}" if unit else title

    @property
    def label(self) -> str:
        """The title as a line of its own, such as the row of a table, begins with it.

        Example:
            >>> figure_kind("sparsity").label, figure_kind("knn_hidden").label
            ('Sparsity', 'k-NN (hidden)')
        """
        is_word = self.title[:2].isalpha() and self.title[:2].islower()
        return self.title[0].upper() + self.title[1:] if is_word else self.title


def _rate(title: str, help_: str = "", *, higher: bool | None = True) -> FigureKind:
    return FigureKind(title, higher, is_rate=True, help=help_)


def _score(title: str, help_: str = "", *, higher: bool | None = True) -> FigureKind:
    return FigureKind(title, higher, help=help_)


_ON_TEST = "accuracy on the test set"
_COMMONEST = "share of the commonest class among a feature's"
_SAME_CLASS = "share of a sample's nearest neighbours that have its class"
_SAME_CLASS_FIRST = "share of samples whose nearest neighbour has their class"
_KEPT = "share of a sample's nearest by the vectors that are among its nearest by the features"

FIGURES: dict[str, FigureKind] = {
    # Readability.
    "alive_rate": _rate("alive features", "active for at least one sample"),
    "sparsity": _rate("sparsity", "share of entries that are zero", higher=None),
    "sparsity_alive": _rate(
        "sparsity over alive features", "dead features cannot raise it", higher=None
    ),
    "active_per_sample": _score("active features per sample", "mean", higher=None),
    "class_consistency": _score(
        "class consistency (all alive)", f"{_COMMONEST} active samples; all alive features"
    ),
    "class_entropy": FigureKind(
        "class entropy", False, unit="nats", help="of the classes of a feature's active samples"
    ),
    "correlation": _score(
        "feature correlation", "mean absolute cosine between two alive features", higher=False
    ),
    "effective_rank": _score("effective rank", "directions that the features use", higher=None),
    "monosemanticity": _score(
        "monosemanticity", "how alike the samples of a feature are in the reference embedding"
    ),
    "info_nce": FigureKind("InfoNCE", False, unit="nats"),
    "returned": _rate(
        "features that return", "cosine of at least 0.8 with a feature of another seed"
    ),
    # Accuracies and retrieval.
    "classifier": _rate("classifier", _ON_TEST),
    "probe_hidden": _rate("linear probe (hidden)", _ON_TEST),
    "probe_features": _rate("linear probe (features)", _ON_TEST),
    "knn_hidden": _rate("k-NN (hidden)", _ON_TEST),
    "knn_features": _rate("k-NN (features)", _ON_TEST),
    "precision_hidden": _rate("precision@k (hidden)", _SAME_CLASS),
    "precision_features": _rate("precision@k (features)", _SAME_CLASS),
    "map_hidden": _rate("mAP@k (hidden)"),
    "map_features": _rate("mAP@k (features)"),
    "transfer_hidden": _rate("probe on another set (hidden)"),
    "transfer_features": _rate("probe on another set (features)"),
    "fine_tune": _rate("fine-tuned", _ON_TEST),
    "robust_corruption": _rate("probe, corrupted"),
    "robust_sketch": _rate("probe, sketched"),
    "robust_stylised": _rate("probe, stylised"),
    # Features beside the vectors they were made of.
    "beside_active": _score("active numbers per sample", "mean", higher=None),
    "beside_bytes": FigureKind(
        "size of a sample", False, unit="bytes", help="4 per number, 8 per active one if less"
    ),
    "beside_train_precision": _rate("precision@k, among train", _SAME_CLASS),
    "beside_train_nearest": _rate("1-NN, among train", _SAME_CLASS_FIRST),
    "beside_train_kept": _rate("vectors' nearest kept, among train", _KEPT),
    "beside_test_precision": _rate("precision@k, among test", _SAME_CLASS),
    "beside_test_nearest": _rate("1-NN, among test", _SAME_CLASS_FIRST),
    "beside_test_kept": _rate("vectors' nearest kept, among test", _KEPT),
    # Known factors.
    "dci_disentanglement": _score("DCI disentanglement"),
    "dci_completeness": _score("DCI completeness"),
    "dci_informativeness": _score("DCI informativeness"),
    "mig": _score("MIG"),
    "sap": _score("SAP"),
    "factor_vae": _score("FactorVAE score"),
    "beta_vae": _score("BetaVAE score"),
    # Samples with captions.
    "alive_both": _rate(
        "features alive on both sides", "active for at least one sample and at least one caption"
    ),
    "active_per_caption": _score("active features per caption", "mean", higher=None),
    "caption_to_sample": _rate(
        "captions that find their sample", "it is among the ten with the largest cosine"
    ),
    "sample_to_caption": _rate(
        "samples that find a caption of theirs", "one is among the ten with the largest cosine"
    ),
    "agreement": _score(
        "agreement of both sides",
        "cosine of a feature over captions with itself over their samples; mean of features",
    ),
    # Over training.
    "loss": _score("loss", higher=False),
    "progress_rate": _rate("way from ceiling to floor of the loss"),
    "alive_features": _score("alive features"),
    "zero_row_rate": _rate("samples with no active feature", higher=False),
    "accuracy": _rate("accuracy on held-out samples"),
    "step_ms": FigureKind("step", False, unit="ms"),
    "images_per_second": FigureKind("speed", True, unit="samples/s"),
    # The table of other kinds of data.
    "vectors_precision": _rate("CLINC150: precision@10"),
    "vectors_nearest": _rate("CLINC150: nearest neighbour has the same intent"),
    "vectors_purity": _score("CLINC150: top-20 purity"),
    "vectors_active": _score("CLINC150: active features per text", higher=False),
    "vectors_alive": _score("CLINC150: alive features", higher=None),
    "cross_agree": _rate("Flickr8k: top captions fit top images"),
    "cross_active_images": _score("Flickr8k: active features per image", higher=None),
    "cross_active_captions": _score("Flickr8k: active features per caption", higher=None),
    "graph_match": _score("50 planted communities: matched cosine"),
}

_RANKED_BY = {
    "random": "at random",
    "ea_signed": "by EA of signed scores",
    "ea_rectified": "by EA of rectified features",
}


def _selection(task: str, kept: str) -> FigureKind:
    if kept == "all":
        return _rate(f"{task}, all features")
    size, _, ranking = kept.partition("_")
    words = f"{size} of the alive" if "." in size else f"{size} features"
    return _rate(f"{task}, {words}, {_RANKED_BY.get(ranking, ranking)}")


# Keys that hold a number or a name.
_FAMILIES: tuple[tuple[str, Callable[..., FigureKind]], ...] = (
    (
        r"class_consistency_min(\d+)",
        lambda m: _score(
            f"consistency of frequent features (≥ {m} active)",
            f"{_COMMONEST} active samples; only features with at least {m} of them",
        ),
    ),
    (
        r"top(\d+)_purity",
        lambda m: _score(f"top-{m} purity", f"{_COMMONEST} {m} strongest samples"),
    ),
    (
        r"beside_top(\d+)_purity",
        lambda m: _score(f"top-{m} purity, among test", f"{_COMMONEST} {m} strongest samples"),
    ),
    (
        r"sepin_(\d+|all)",
        lambda k: FigureKind(
            f"SEPIN@{k}",
            True,
            unit="nats",
            help="information that only one feature holds, mean of the features with most",
        ),
    ),
    (
        r"probe_hidden_([\d.e-]+)_percent",
        lambda p: _rate(f"linear probe (hidden), {p} % of the labels"),
    ),
    (r"selection_(probe|retrieval|transfer)_(.+)", _selection),
    (r"robust_(.+)", lambda name: _rate(f"probe, {name.replace('_', ' ')}")),
    (r"cross_captions_(\d+)", lambda k: _rate(f"Flickr8k: caption of an image, R@{k}")),
    (r"cross_images_(\d+)", lambda k: _rate(f"Flickr8k: image of a caption, R@{k}")),
    (r"features_(coarse|fine)", lambda level: _score(f"features of {level} classes", higher=None)),
)

# What version 0.1 called a figure, and what it called the entries beside one.
OLD_KEYS = {"monosemanticity_inputs": "monosemanticity"}
OLD_BESIDE = {"strength": "penalty"}


def figure_kind(key: str) -> FigureKind:
    """What the figure of a key is.

    Raises:
        KeyError: If no figure has this key.

    Example:
        >>> kind = figure_kind("class_consistency_min5")
        >>> kind.title, kind.higher_is_better
        ('consistency of frequent features (≥ 5 active)', True)
    """
    if key in FIGURES:
        return FIGURES[key]
    for pattern, kind in _FAMILIES:
        if found := re.fullmatch(pattern, key):
            return kind(*found.groups())
    raise KeyError(f"no figure has the key {key!r}; add it to nonneg.metrics.figures")


def shown_kind(key: str, *, k: object = None) -> FigureKind:
    """What to show of a figure; a key of another version, not known here, is its own title.

    Args:
        key: Of the figure.
        k: Of precision@k, where it is known.

    Example:
        >>> shown_kind("precision_hidden", k=10).title, shown_kind("new_figure").title
        ('precision@10 (hidden)', 'new figure')
    """
    try:
        kind = figure_kind(key)
    except KeyError:
        return FigureKind(key.replace("_", " "))
    return kind if k is None else replace(kind, title=kind.title.replace("@k", f"@{k}"))


def current_key(key: str) -> str:
    """The key that a figure has today.

    Example:
        >>> current_key("monosemanticity_inputs"), current_key("sparsity")
        ('monosemanticity', 'sparsity')
    """
    return OLD_KEYS.get(key, key)


Beside = Mapping[str, float | int | str | None]
# Beside a figure that has no value: the reason.
BECAUSE = "because"
# Beside the figure of a corruption: what its entries of one severity begin with.
SEVERITY = "severity "
# The entries beside a figure in words.
_BESIDE = {
    BECAUSE: "{}",
    "clean": "{} on clean images",
    "epochs": "{} epochs",
    "k": "{} neighbours",
    "high": "to {}",
    "low": "95 % interval from {}",
    "margin": "± {} of the difference from the vectors",
    "most": "at most {} possible",
    "n_alive": "{} alive",
    "n_dead": "{} dead",
    "n_draws": "{} draws",
    "n_features": "{} features",
    "n_pairs": "{} pairs of views",
    "n_samples": "{} samples",
    "n_train": "{} training samples",
    "n_zero_rows": "{} all-zero samples",
    "note": "{}",
    "null": "{} by chance",
    "pca": "{} by PCA",
    "pca_numbers": "which has {} numbers",
    "penalty": "L2 penalty {}",
    "reference": "reference: {}",
    "solved": "solved {}",
    "std": "± {}",
    "to": "on {}",
    "unit": "in {}",
    "vectors": "{} by the vectors",
}
# Beside a rate these are rates too.
_ALSO_RATES = (
    "null", "std", "clean", "most", "low", "high", "vectors", "pca", "margin",
)  # fmt: skip
# These are worth saying only where there are any.
_UNLESS_ZERO = ("n_zero_rows",)


@dataclass(frozen=True)
class Figure:
    """One number of an evaluation.

    Args:
        value: The number; None where there was nothing to measure.
        higher_is_better: The direction; None where neither end is the good one.
        is_rate: In [0, 1], shown as a percentage.
        beside: What it must be read against: the null, the spread, the counts.

    Example:
        >>> Figure(float("nan")).value is None
        True
    """

    value: float | None
    higher_is_better: bool | None = None
    is_rate: bool = False
    beside: Beside = field(default_factory=dict)

    def __post_init__(self) -> None:
        # JSON has no NaN: what could not be measured is null.
        object.__setattr__(self, "value", _finite(self.value))
        object.__setattr__(self, "beside", {k: _finite(v) for k, v in self.beside.items()})

    @classmethod
    def of(cls, key: str, value: float | None, **beside: float | int | str | None) -> Self:
        """The figure of a key, with the direction that :mod:`nonneg.metrics.figures` gives it.

        Example:
            >>> Figure.of("probe_hidden", 0.9, n_train=60).text()
            '90.0 %'
        """
        kind = figure_kind(key)
        return cls(value, kind.higher_is_better, kind.is_rate, beside)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The figure of the values that :meth:`as_json` gave, now or in version 0.1.

        Example:
            >>> Figure.from_json({"value": 0.9, "beside": {"strength": 0.01}}).beside
            {'penalty': 0.01}
        """
        beside = {OLD_BESIDE.get(k, k): v for k, v in values.get("beside", {}).items()}
        return cls(**{**values, "beside": beside})

    def as_json(self) -> dict[str, Any]:
        """Plain values, from which :meth:`from_json` makes it again."""
        return {
            "value": self.value,
            "higher_is_better": self.higher_is_better,
            "is_rate": self.is_rate,
            "beside": dict(self.beside),
        }

    def text(self) -> str:
        """The number as a table shows it."""
        return number_text(self.value, is_rate=self.is_rate)

    def beside_text(self) -> str:
        """What the number is to be read against, in words; empty where there is nothing.

        Severities of a corruption are left out: they are as many numbers again.

        Example:
            >>> Figure.of("precision_hidden", 0.8, k=10, n_zero_rows=0, most=0.9).beside_text()
            '10 neighbours, at most 90.0 % possible'
        """
        said = {
            key: _entry_text(key, value, is_rate=self.is_rate and key in _ALSO_RATES)
            for key, value in self.beside.items()
            if value is not None and not key.startswith(SEVERITY)
        }
        if {"low", "high"} <= said.keys():
            said["low"] += f" {said.pop('high')}"
        return ", ".join(filter(None, said.values()))


Figures = dict[str, Figure]


def number_text(value: float | int | str | None, *, is_rate: bool = False) -> str:
    """A number as short as a table needs it; a dash for None.

    Example:
        >>> [number_text(number) for number in (0.1234, 1234.5, None, 7)]
        ['0.123', '1,234.5', '–', '7']
        >>> number_text(0.1234, is_rate=True)
        '12.3 %'
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if is_rate:
        return f"{100 * value:.1f} %"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"


def _entry_text(key: str, value: float | int | str, *, is_rate: bool) -> str:
    """One entry beside a figure in words; a key of another version is its own word."""
    if key in _UNLESS_ZERO and value == 0:
        return ""
    words = _BESIDE.get(key, f"{key.replace('_', ' ')} {{}}")
    if isinstance(value, int) and value == 1:
        words = words.removesuffix("s")
    return words.format(number_text(value, is_rate=is_rate))


def _finite(value: Any) -> Any:  # noqa: ANN401
    return None if isinstance(value, float) and not math.isfinite(value) else value
