"""What the features of an estimator cover, and more features for what they do not.

A feature has a direction: the mean of the training vectors, each weighted by how strongly the
feature is on. The directions of a sample's active features, weighted likewise, are its
reconstruction, and what of the sample does not lie along it is unexplained.
"""

import copy
import math
import warnings
from collections.abc import Iterator, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from nonneg.backbones.simple import Frozen, Projection
from nonneg.encoder import Encoder
from nonneg.estimators.inputs import TILE_ENTRIES, check_length, checked_vectors, dense_rows
from nonneg.head.revival import last_inputs, last_layer
from nonneg.inference import chosen_device, evaluating_on
from nonneg.io import read_tensors, write_tensors
from nonneg.metrics.activity import activation_moments
from nonneg.metrics.inputs import checked_features
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.rows import unit_rows

COVERAGE_FILE = "coverage.safetensors"


class Coverage(NamedTuple):
    """What is known of the training samples without keeping them."""

    directions: Tensor
    """Of each feature, on the principal axes, of length 1 or 0 ``(n_features, n_axes)``."""
    spread: float
    """The mean squared distance of the samples of ``fit`` from their centre."""
    median: float
    """The novelty of the samples of ``fit``: half of them have less …"""
    limit: float
    """… and 95 % have less than this."""
    n_samples: int
    """How many were fitted to, those of ``partial_fit`` included."""

    def write(self, folder: Path) -> None:
        """Write one file into the folder of an estimator."""
        numbers = {key: torch.tensor(value, dtype=torch.float64) for key, value in self._numbers()}
        write_tensors(folder / COVERAGE_FILE, {"directions": self.directions, **numbers})

    def _numbers(self) -> list[tuple[str, float]]:
        return [(key, value) for key, value in self._asdict().items() if key != "directions"]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What was written into the folder."""
        path = folder / COVERAGE_FILE
        if not path.exists():
            raise FileNotFoundError(f"a part of the estimator is missing: there is no {path}")
        held = read_tensors(path, remedy="save the estimator again")
        n_samples = int(held.pop("n_samples"))
        numbers = {key: float(value) for key, value in held.items() if key != "directions"}
        return cls(directions=held["directions"], n_samples=n_samples, **numbers)


# Directions, and what is badly covered, are looked for among so many samples.
_MOST_SAMPLES = 20_000
_MOST_UNCOVERED = 5_000
_CPU = torch.device("cpu")


class _Part(NamedTuple):
    """Some samples, as the parts of an encoder see them."""

    squares: Tensor
    """Squared distances from the centre ``(n,)``, float64."""
    positions: Tensor
    """On the principal axes, unscaled ``(n, n_axes)``."""
    hidden: Tensor
    """What the head reads ``(n, n_axes)``."""
    features: Tensor
    """``(n, n_features)``."""


@torch.no_grad()
def _parts(
    encoder: Encoder,
    X: Any,  # noqa: ANN401
    rows: IntArray,
    device: torch.device = _CPU,
) -> Iterator[_Part]:
    """The chosen rows of X, tile by tile; the encoder comes back as it was."""
    projection = _projection(encoder)
    step = max(1, TILE_ENTRIES // max(X.shape[1], encoder.n_features))
    with evaluating_on(encoder, device):
        scales = projection.axes.norm(dim=0)
        for start in range(0, len(rows), step):
            vectors = dense_rows(X, rows[start : start + step]).to(device)
            centred = vectors - projection.center
            encoded = encoder(vectors)
            yield _Part(
                centred.double().square().sum(dim=1).cpu(),
                (centred @ (projection.axes / scales)).cpu(),
                encoded.hidden.cpu(),
                # As learnt, before any curation; a vector of zeros has none.
                (encoder.nonnegative(encoded.scores) * vectors.any(1, keepdim=True)).cpu(),
            )


def _projection(encoder: Encoder) -> Projection:
    backbone = encoder.backbone
    assert isinstance(backbone, Frozen)
    assert isinstance(backbone.frozen, Projection)
    return backbone.frozen


def _some(n_samples: int, seed: int, most: int = _MOST_SAMPLES) -> IntArray:
    """The numbers of all samples in order, or of so many drawn ones."""
    if n_samples <= most:
        return np.arange(n_samples)
    return np.sort(np.random.default_rng(seed).choice(n_samples, most, replace=False))


def coverage_of(encoder: Encoder, X: Any, seed: int) -> Coverage:  # noqa: ANN401
    """What the features cover of the vectors ``(n, d)`` that they were fitted to.

    Args:
        encoder: A :class:`Projection` and a head, on the CPU.
        X: An array, a memory map or SciPy CSR; of more than 20,000 rows, so many are drawn.
        seed: Of this draw.
    """
    rows = _some(X.shape[0], seed)
    total = torch.zeros(encoder.n_features, _projection(encoder).hidden_size)
    squares = 0.0
    for part in _parts(encoder, X, rows):
        total += unit_rows(part.features).T @ unit_rows(part.positions)
        squares += float(part.squares.sum())
    directions = unit_rows(total)
    found = Coverage(directions, squares / len(rows), 0.0, 1.0, X.shape[0])
    novelty = novelty_of(encoder, found, X, rows)
    median, limit = np.quantile(novelty, [0.5, 0.95])
    return found._replace(median=float(median), limit=float(limit))


def novelty_of(
    encoder: Encoder,
    coverage: Coverage,
    X: Any,  # noqa: ANN401
    rows: IntArray,
    device: torch.device = _CPU,
) -> FloatArray:
    """How little of some rows of X their features explain, in [0, 1) ``(len(rows),)``.

    Args:
        encoder: On the CPU.
        coverage: Of its features.
        X: ``(n, d)``, an array, a memory map or SciPy CSR.
        rows: Which.
        device: Where to compute.
    """
    parts = [_novelty(part, coverage) for part in _parts(encoder, X, rows, device)]
    return torch.cat(parts).numpy()


def _novelty(part: _Part, coverage: Coverage) -> Tensor:
    """What is unexplained u, as u / (u + spread), float64 ``(n,)``."""
    along = unit_rows(part.features @ coverage.directions).double()
    explained = (part.positions.double() * along).sum(dim=1).clamp_min(0).square()
    unexplained = (part.squares - explained).clamp_min(0)
    return unexplained / (unexplained + coverage.spread)


# Fewer similar samples than this are chance, not something new.
_LEAST_ALIKE = 5
# Of a sample a direction has to explain this share, however little is explained of training ones.
_LEAST_EXPLAINED = 0.25
# A new feature is on from this share of the mean score of the samples that it was made for.
_ON_FROM = 0.6
# … and so many times as strong as the other features of new samples are together on average.
_STRONGER = 4.0


def alike_groups(vectors: Tensor, min_cosine: float, n_least: int = _LEAST_ALIKE) -> list[Tensor]:
    """Groups of similar vectors, the largest first, each as the numbers of its members.

    The vector with most others within the cosine leads the first group, the one with most of what
    is left the next, until no group has enough members. What is near the mean of a group without
    being a member is in none.

    Args:
        vectors: ``(n, d)``.
        min_cosine: Of a member with the leader, at least.
        n_least: Members of a group, its leader included.

    Example:
        >>> vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.1, 1.0], [-1.0, 0.0]])
        >>> [group.tolist() for group in alike_groups(vectors, 0.9, n_least=2)]
        [[1, 2]]
    """
    unit = unit_rows(vectors)
    is_near = unit @ unit.T >= min_cosine
    is_left = torch.ones(len(unit), dtype=torch.bool)
    n_near = is_near.sum(dim=1)
    groups: list[Tensor] = []
    while len(unit):
        leader = int(n_near.masked_fill(~is_left, 0).argmax())
        if not is_left[leader] or n_near[leader] < n_least:
            break
        members = is_near[leader] & is_left
        groups.append(members.nonzero()[:, 0])
        mean = unit_rows(unit[members].mean(dim=0, keepdim=True))[0]
        taken = is_left & (members | (unit @ mean >= min_cosine))
        taken[leader] = True
        is_left &= ~taken
        n_near -= is_near[:, taken].sum(dim=1)
    return groups


def grown_encoder(
    encoder: Encoder,
    coverage: Coverage,
    X: Any,  # noqa: ANN401
    seed: int,
) -> Encoder:
    """A copy of the encoder with features appended for what its own do not cover.

    Samples of larger novelty than 95 % of the training samples are put into groups, within the
    cosine at which one direction explains as much of a sample as is explained of half of the
    training samples. Each group becomes a feature. The other features stay as they are.

    Args:
        encoder: On the CPU; it is not changed.
        coverage: Of its features.
        X: Vectors ``(n, d)``, checked; of more than 20,000 so many are drawn.
        seed: Of this draw.
    """
    larger = copy.deepcopy(encoder)
    hidden = torch.cat(
        [
            part.hidden[_novelty(part, coverage) > coverage.limit]
            for part in _parts(encoder, X, _some(X.shape[0], seed))
        ]
    )
    hidden = hidden[torch.from_numpy(_some(len(hidden), seed, _MOST_UNCOVERED))]
    unexplained = coverage.median / (1 - coverage.median)
    groups = alike_groups(hidden, math.sqrt(max(_LEAST_EXPLAINED, 1 - unexplained)))
    if groups:
        append_features(larger, [hidden[group] for group in groups])
    return larger


@torch.no_grad()
def append_features(encoder: Encoder, groups: list[Tensor]) -> None:
    """Append a feature for each group of hidden vectors ``(n, h)``, in place.

    It points from the mean of what the head makes of all directions to that of the group, and is
    on where a sample lies more than 0.6 times as far in this direction as the group does on
    average. For such samples it is several times as strong as the other features of new samples
    are together on average, which say little about them.
    """
    last = last_layer(encoder)
    around = torch.eye(groups[0].shape[1]) * torch.cat(groups).norm(dim=1).mean()
    origin = last_inputs(encoder, torch.cat([around, -around])).mean(dim=0, keepdim=True)
    means = torch.cat([last_inputs(encoder, g).mean(dim=0, keepdim=True) for g in groups])
    weight = unit_rows(means - origin)
    at_origin, at_mean = weight @ origin[0], (weight * means).sum(dim=1)
    threshold = at_origin + _ON_FROM * (at_mean - at_origin)
    lengths = encoder.nonnegative(last(last_inputs(encoder, torch.cat(groups)))).norm(dim=1)
    norms = last.weight.norm(dim=1)
    strength = lengths[lengths > 0].mean() if lengths.any() else norms[norms > 0].median()
    # A threshold is a share of the row: much stronger features would switch the others off.
    factor = 1.0 if encoder.settings.threshold else _STRONGER
    scale = factor * strength / (at_mean - threshold).clamp_min(1e-6)
    weight, threshold = weight * scale[:, None], threshold * scale
    last.weight = nn.Parameter(torch.cat([last.weight, weight]))
    last.bias = nn.Parameter(torch.cat([last.bias, -threshold]))
    last.out_features = len(last.bias)
    projector = encoder.settings.projector.model_copy(update={"n_features": len(last.bias)})
    encoder.settings = encoder.settings.model_copy(update={"projector": projector})


def smaller_encoder(encoder: Encoder, chosen: IntArray) -> Encoder:
    """A copy of the encoder that computes only the chosen features, in this order."""
    smaller = copy.deepcopy(encoder)
    smaller.keep_features(torch.from_numpy(chosen))
    return smaller


# A selection that holds less than this share of the activation is worth a warning.
_MIN_SELECTED_RATE = 0.5


def _can_be_off(estimator: Any) -> bool:  # noqa: ANN401
    """Whether features have zeros; scikit-learn hides ``partial_fit`` where this raises."""
    if estimator.nonnegative not in ("relu", "rep_relu"):
        raise AttributeError(
            "partial_fit needs features that can be off: nonnegative='relu' or 'rep_relu', not "
            f"{estimator.nonnegative!r}"
        )
    return True


class GrowableFeatures:
    """What an estimator with one encoder offers when samples or wishes change after the fit."""

    encoder_: Encoder
    coverage_: Coverage
    expected_activation_: FloatArray
    feature_names_: list[str]
    renamed_before_: Mapping[int, str]
    n_alive_: int
    n_features_in_: int
    random_state: int | np.random.RandomState | None
    device: str
    _carried: ClassVar = ("n_features_in_", "feature_names_in_", "history_", "max_active_")

    def novelty(self, X: ArrayLike) -> FloatArray:
        """How little of each sample its features explain: from 0, all, to 1, nothing at all.

        What is unexplained is the squared length u of the centred vector without its part along
        the reconstruction; the score is u / (u + s), where s is the mean squared length of the
        centred vectors of ``fit``. At 0.5 as much is unexplained as one of these holds in all; 95 %
        of them lie below ``coverage_.limit``. Neither s nor the limit changes in
        :meth:`partial_fit`, so scores before and after can be compared.

        Args:
            X: ``(n, d)``, of any kind that :meth:`transform` takes.

        Returns:
            float64 ``(n,)``.
        """
        coverage = self._known_coverage("novelty")
        checked = checked_vectors(self, X, reset=False)
        self._limit_active()  # type: ignore[attr-defined]
        rows = np.arange(checked.shape[0])
        return novelty_of(self.encoder_, coverage, checked, rows, chosen_device(self.device))

    @available_if(_can_be_off)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Append features for what the present ones do not cover; without a fit, fit.

        The features that are there stay as they are, with their numbers and names; where
        ``max_active`` is reached, or weak ones fall below ``threshold_``, a stronger new one is on
        instead. At least five
        similar samples that are less explained than 95 % of the training samples become one
        feature; where nothing is new, none is appended. Expected activations become those of all
        samples so far, where a new feature counts as off for the samples before it.

        Args:
            X: New vectors ``(n, d)``, of any kind that :meth:`transform` takes.
            y: For a first fit to ``pairs="labels"``; later only its length is checked.
        """
        if not self.__sklearn_is_fitted__():  # type: ignore[attr-defined]
            return self.fit(X, y)  # type: ignore[attr-defined, no-any-return]
        coverage = self._known_coverage("partial_fit")
        checked = checked_vectors(self, X, reset=False)
        check_length(y, checked)
        seed = int(check_random_state(self.random_state).randint(2**31))
        self._limit_active()  # type: ignore[attr-defined]
        grown = grown_encoder(self.encoder_, coverage, checked, seed)
        here = coverage_of(grown, checked, seed)
        n_new = grown.n_features - len(coverage.directions)
        activation = _expected_activation(grown, checked, seed)
        share = here.n_samples / (here.n_samples + coverage.n_samples)
        before = np.pad(self.expected_activation_, (0, n_new))
        self.expected_activation_ = before + share * (activation - before)
        self.n_alive_ = int((self.expected_activation_ > 0).sum())
        appended = here.directions[len(coverage.directions) :]
        self.coverage_ = coverage._replace(
            directions=torch.cat([coverage.directions, appended]),
            n_samples=coverage.n_samples + here.n_samples,
        )
        self.feature_names_ = self.feature_names_ + [""] * (n_new if self.feature_names_ else 0)
        self.encoder_ = grown
        return self

    def select(self, k: int) -> Self:
        """A smaller estimator that computes only the k features of largest expected activation.

        Warns where these hold less than half of the activation of the training samples: the sum of
        their ``expected_activation_``, as a share of that of all features.

        Args:
            k: From 1 to ``n_components``. Feature i of the result is feature ``rank_[i]`` here,
                hidden ones left out; a ``threshold_`` is then a share of these k alone.
        """
        check_is_fitted(self)
        if isinstance(k, bool) or not isinstance(k, Integral):
            raise TypeError(f"k must be a whole number of features, got {k!r}")
        if self.encoder_.curation.merged:
            raise ValueError("a merged feature is made of several; restore() them to select")
        order: IntArray = self.rank_[~np.isin(self.rank_, self.encoder_.curation.hidden)]
        if not 1 <= k <= len(order):
            raise ValueError(f"k must be between 1 and the {len(order)} features, got {k}")
        _warn_of_loss(self.expected_activation_[order], int(k))
        chosen = order[:k]
        # The target belongs to all features; fewer of them are on among the chosen.
        smaller: Self = clone(self).set_params(n_components=int(k), target_active=None)
        for name in self._carried:
            if hasattr(self, name):
                setattr(smaller, name, copy.copy(getattr(self, name)))
        smaller.encoder_ = smaller_encoder(self.encoder_, chosen)
        smaller.expected_activation_ = self.expected_activation_[chosen]
        smaller.n_alive_ = int((smaller.expected_activation_ > 0).sum())
        smaller.feature_names_ = [self.feature_names_[i] for i in chosen if self.feature_names_]
        before = {new: self.renamed_before_.get(old) for new, old in enumerate(chosen.tolist())}
        smaller.renamed_before_ = {n: name for n, name in before.items() if name is not None}
        if hasattr(self, "coverage_"):
            directions = self.coverage_.directions[torch.from_numpy(chosen)]
            smaller.coverage_ = self.coverage_._replace(directions=directions)
        return smaller

    def _known_coverage(self, method: str) -> Coverage:
        check_is_fitted(self)
        if not hasattr(self, "coverage_"):
            raise ValueError(
                f"{method} needs what fit learns about its samples, which this estimator, saved by "
                "an earlier version, does not hold; fit it again"
            )
        return self.coverage_


def _expected_activation(encoder: Encoder, X: Any, seed: int) -> FloatArray:  # noqa: ANN401
    features = [part.features for part in _parts(encoder, X, _some(X.shape[0], seed))]
    activation, _ = activation_moments(checked_features(torch.cat(features)), rectify=True)
    return activation


def _warn_of_loss(activation: FloatArray, k: int) -> None:
    """Warn whoever called ``select`` where the first k of falling ``activation`` hold little."""
    held = activation.cumsum()
    total = float(held[-1])
    if total > 0 and held[k - 1] < _MIN_SELECTED_RATE * total:
        n_enough = int(np.searchsorted(held, _MIN_SELECTED_RATE * total)) + 1
        warnings.warn(
            f"the {k} strongest features hold {held[k - 1] / total:.0%} of the activation of the "
            f"training samples, so search by them misses many neighbours; {n_enough} features "
            f"hold {_MIN_SELECTED_RATE:.0%}",
            stacklevel=3,
        )
