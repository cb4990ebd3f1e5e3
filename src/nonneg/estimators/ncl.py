"""``NCL``: readable features of vectors, by pairs of vectors that belong together."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nonneg.encoder import Encoder
from nonneg.estimators.axes import Axes, principal_axes
from nonneg.estimators.display import progress_bar, stage
from nonneg.estimators.fit import (
    FitSettings,
    Head,
    LearntSide,
    Record,
    Report,
    Views,
    fit_heads,
    fit_settings,
    hidden_vectors,
    learnt_side,
    new_encoder,
    some_rows,
    warn_of_dead,
)
from nonneg.estimators.fitted import FittedFeatures, features_of, n_axes
from nonneg.estimators.growing import GrowableFeatures, coverage_of
from nonneg.estimators.inputs import (
    NCLSettings,
    check_length,
    checked_vectors,
    label_numbers,
    sparse_weights,
)
from nonneg.estimators.reading import ReadableFeatures
from nonneg.estimators.sizes import fitted_sizes
from nonneg.head.revival import Beginning, merge_twins
from nonneg.metrics.results import BoolArray, IntArray
from nonneg.pairs.neighbours import NeighborPairs, nearest_neighbors
from nonneg.pairs.protocol import Batch, Draws, Pairs
from nonneg.pairs.relations import GraphPairs, LabelPairs, NoisePairs, given_pairs


class Given(NamedTuple):
    """What ``fit`` was given besides the vectors."""

    y: ArrayLike | None
    graph: Any
    index_pairs: ArrayLike | None


def partners(settings: NCLSettings, hidden: Tensor, given: Given) -> Pairs:
    """The pairs to learn from, by the rows of the hidden vectors ``(n, h)``.

    Raises:
        ValueError: What the chosen source needs is missing, or of another size than X.
    """
    unused = {"graph": given.graph, "index_pairs": given.index_pairs}
    unused.pop({"graph": "graph", "index": "index_pairs"}.get(settings.pairs, ""), None)
    for name, value in unused.items():
        if value is not None:
            raise ValueError(
                f"{name} was given, but pairs={settings.pairs!r} does not use it; set "
                f"pairs={'graph' if name == 'graph' else 'index'!r}"
            )
    return _SOURCES[settings.pairs](settings, hidden, given)


def _neighbors(settings: NCLSettings, hidden: Tensor, _given: Given) -> Pairs:
    found = nearest_neighbors(hidden, settings.n_neighbors)
    if settings.n_neighbors > len(hidden) / 2:
        warnings.warn(
            f"n_neighbors={settings.n_neighbors} makes more than half of the {len(hidden)} samples "
            "partners of each; lower it, or only little can be told apart",
            stacklevel=5,
        )
    return NeighborPairs(found)


def _noise(settings: NCLSettings, _hidden: Tensor, _given: Given) -> Pairs:
    return NoisePairs(settings.noise)


def _labels(_settings: NCLSettings, hidden: Tensor, given: Given) -> Pairs:
    if given.y is None:
        raise ValueError(
            'pairs="labels" requires y to be passed, but the target y is None; call fit(X, y)'
        )
    return LabelPairs(label_numbers(given.y, len(hidden)))


def _graph(_settings: NCLSettings, hidden: Tensor, given: Given) -> Pairs:
    if given.graph is None:
        raise ValueError('pairs="graph" needs a graph: call fit(X, graph=A)')
    pairs = GraphPairs(sparse_weights(given.graph))
    if pairs.n_samples != len(hidden):
        raise ValueError(
            f"graph has {pairs.n_samples} nodes, but X has {len(hidden)} rows; give one node per "
            "row"
        )
    return pairs


def _index(_settings: NCLSettings, hidden: Tensor, given: Given) -> Pairs:
    if given.index_pairs is None:
        raise ValueError('pairs="index" needs pairs: call fit(X, index_pairs=ij)')
    return given_pairs(given.index_pairs, len(hidden))


_SOURCES: dict[str, Callable[[NCLSettings, Tensor, Given], Pairs]] = {
    "neighbors": _neighbors,
    "noise": _noise,
    "labels": _labels,
    "graph": _graph,
    "index": _index,
}


def learn(
    X: Any,  # noqa: ANN401
    settings: NCLSettings,
    given: Given,
    seed: int,
) -> tuple[LearntSide, list[Record]]:
    """Readable features of vectors ``(n, d)`` that have been checked, and records of the training.

    Args:
        X: An array, a memory map or SciPy CSR.
        settings: How.
        given: Labels, graph or index pairs, where ``settings.pairs`` needs them.
        seed: Of everything drawn; torch's own generator is left alone.
    """
    is_shown = settings.verbose > 0
    rows = trained_rows(X.shape[0], settings, seed)
    X = X if rows is None else X[rows]
    held = held_out(X.shape[0], settings, seed)
    X, X_held = (X, None) if held is None else (X[~held], X[held])
    with stage(f"looking at {X.shape[0]:,} samples") if is_shown else nullcontext():
        axes = Axes(*principal_axes(X, seed))
        is_sized = settings.pairs == "neighbors"
        agreement = torch.zeros(len(axes.variances))
        if is_sized or settings.denoise == "auto":
            agreement = axes.agreement(X, seed)
        sizes = fitted_sizes(axes, agreement, X, settings.detail, seed) if is_sized else None
        settings = settings if sizes is None else settings.sized(sizes._asdict())
        kept = axes.kept(settings.denoise, agreement, shape=X.shape)
        whitening = None if sizes is None else sizes.whitening
        projection = axes.projection(kept, whitening=whitening)
        hidden = hidden_vectors(X, projection, settings)
        scales = axes.scales(kept, whitening or 0.0).to(hidden.device)
    with stage(f"looking for partners of {X.shape[0]:,} samples") if is_shown else nullcontext():
        pairs = partners(settings, hidden / scales, given)
    encoder = new_encoder(projection, settings, seed)
    steps, limit = fit_settings(settings, len(hidden), seed), None
    if sizes is not None:
        # A target is met by a threshold after training, which needs features to choose from.
        target = settings.target_active
        limit = settings.max_active if target is None else math.ceil(_CHOICE * target)
        encoder.thin(threshold=None, max_active=limit)
        n_begin = max(sizes.n_begin, limit or 0)
        steps = replace(
            fit_settings(settings, len(hidden), seed, within=(_LEAST_STEPS, sizes.n_steps)),
            learning_rate=settings.learning_rate * sizes.rate,
            target_active=None,
            teacher_temperature=sizes.teacher_temperature,
            partner_rate=sizes.partner_rate,
            beginning=Beginning(n_begin, sizes.n_topics_on, sizes.topic_strength),
            keeps_number="n_components" not in settings.autos,
            least_features=1 if target is None else 2 * math.ceil(_CHOICE * target),
        )
    with progress_bar(steps.n_steps) if is_shown else nullcontext() as progress:
        history = fit_head(encoder, hidden, pairs, steps, progress, scales=scales)
    unseen = None if X_held is None else hidden_vectors(X_held, projection, settings)
    seen_limit = limit if settings.target_active is None else None
    side = learnt_side(encoder, hidden, settings, seed, trained_limit=seen_limit, unseen=unseen)
    return side, history


# How many times as many features as a target asks for may be on in training.
_CHOICE = 2
# The fewest steps of features that begin at groups of samples.
_LEAST_STEPS = 60
# Of more samples than this, so many drawn ones are learnt from, where pairs are not given.
_MOST_TRAINED = 65_536


def trained_rows(n_samples: int, settings: NCLSettings, seed: int) -> IntArray | None:
    """The numbers of the samples to learn from, in order; None for all.

    A map from vectors to some thousand features is learnt from tens of thousands of samples; with
    more, the search for neighbours costs most and brings nothing.
    """
    if n_samples <= _MOST_TRAINED or settings.pairs not in ("neighbors", "noise"):
        return None
    drawn = np.random.default_rng(seed).choice(n_samples, _MOST_TRAINED, replace=False)
    return np.sort(drawn)


def held_out(n_samples: int, settings: NCLSettings, seed: int) -> BoolArray | None:
    """Which samples a target is met on instead of being learnt from, ``(n,)``; None for none.

    Training samples have another number of features on than new ones have. So a tenth of the
    samples, at least 200 and at most 2,000, but never more than a quarter, is kept out: of the
    centre and the axes too, or these rows would lie opposite to those that are learnt from.
    """
    if settings.target_active is None or settings.pairs not in ("neighbors", "noise"):
        return None
    n_held = min(max(n_samples // 10, 200), 2000, n_samples // 4)
    order = np.random.default_rng(seed).permutation(n_samples)
    held: BoolArray = order < n_held
    return held if n_held else None


def fit_head(
    encoder: Encoder,
    hidden: Tensor,
    pairs: Pairs,
    settings: FitSettings,
    progress: Report | None = None,
    *,
    scales: Tensor | None = None,
) -> list[Record]:
    """Train the encoder's projector on hidden vectors that are already there.

    Args:
        encoder: Its backbone is not called; its projector learns in place.
        hidden: Backbone outputs of all samples, ``(n, h)``, on the encoder's device.
        pairs: Which samples belong together, by their rows in ``hidden``.
        settings: Steps, batch, rates, seed.
        progress: Called after each step with its record.
        scales: What each column of ``hidden`` was multiplied by ``(h,)``: without it, rows are the
            vectors whose cosines are soft targets. None for 1.

    Returns:
        The records of :func:`fit_heads`.
    """
    generator = torch.Generator().manual_seed(settings.seed)

    def view(batch: Batch) -> Views:
        rows = torch.cat(pairs(batch))  # (2 · batch_size, h)
        return Views((rows,), teacher=None if scales is None else rows / scales)

    views = (view(batch) for batch in _batches(hidden, settings, generator))
    history = fit_heads([Head(encoder, hidden)], views, settings, generator, progress)
    if settings.beginning is not None:
        others = "off" if settings.keeps_number else "dropped"
        some = some_rows(hidden, settings.seed)
        merge_twins(encoder, some, others, least=settings.least_features)
    return history


def _batches(hidden: Tensor, settings: FitSettings, generator: torch.Generator) -> Iterator[Batch]:
    """Batches of one size in an order of its own for each epoch; what is left over waits a turn."""
    n_batches = len(hidden) // settings.batch_size
    for step in range(settings.n_steps):
        epoch, number = divmod(step, n_batches)
        if number == 0:
            order = torch.randperm(len(hidden), generator=generator)
        start = number * settings.batch_size
        indices = order[start : start + settings.batch_size].to(hidden.device)
        draws = Draws(settings.seed, epoch, indices)
        yield Batch(hidden[indices], indices, draws, fetch=hidden.__getitem__)


class NCL(ReadableFeatures, GrowableFeatures, FittedFeatures):
    """Sparse, non-negative, readable features of vectors: a scikit-learn transformer.

    The vectors are centred, denoised and scaled to one length; pairs of them that belong together
    train one rectified head by InfoNCE, for ``"neighbors"`` with soft targets: the vectors' own
    cosines say how near the other samples of a batch are. Features are compared by cosine. What is
    ``"auto"`` is chosen without labels, from the number of samples and how clustered they are.

    Args:
        n_components: Number of features. ``"auto"`` begins with 0.14 (tight groups) to 0.4 times
            the samples, at most 4,096 (8,192 at full detail), and merges those that say the same.
        detail: For ``pairs="neighbors"``: ``"concepts"`` for few and pure features, ``"balanced"``,
            ``"full"`` for faithful search, or a number from 0 (concepts) to 1 (full).
        pairs: What belongs together: ``"neighbors"`` (near by cosine), ``"noise"`` (a sample and
            itself, disturbed), ``"labels"`` (the same ``y``), ``"graph"`` (joined by an edge of
            ``fit(X, graph=A)``) or ``"index"`` (listed in ``fit(X, index_pairs=ij)``).
        n_neighbors: How many of the nearest are partners, for ``"neighbors"``; ``"auto"``: 15 to
            30 (10 at full detail), and at most a twentieth of the samples.
        noise: Standard deviation of the disturbance, for ``"noise"``; entries have size 1.
        denoise: ``"auto"`` drops weak principal axes where samples come in tight groups, a number
            keeps so many, ``"none"`` keeps all.
        hidden: Width of the head's inner layer; 0 for one linear map, as ``"auto"`` is for
            ``"neighbors"``; for other pairs it is 512.
        temperature: Of InfoNCE: the higher, the fewer features are on.
        target_active: Mean number of active features per sample: the weakest of a sample are
            dropped, or biases raised. None leaves it to the temperature.
        max_active: The most features that are on per sample, the largest; with ``"neighbors"`` in
            training too. May be lowered later. ``"auto"``: 8 to 64 by detail, None without a limit.
        nonnegative: A key of ``nonneg.head.TRANSFORMS``. ``"rep_relu"`` has the values of
            ``"relu"`` and revives features near zero; ``"identity"`` switches NCL off.
        max_epochs: Most passes over X. Without it and ``max_steps``: ten passes, but 300 to 2,000
            steps, for ``"neighbors"`` 60 to 150.
        max_steps: Most optimiser steps. With ``max_epochs`` too, the first limit reached counts.
            Of more than 65,536 samples without given pairs, so many drawn ones are learnt from.
        batch_size: Pairs per step; of fewer samples, all.
        learning_rate: At its peak.
        sparse_output: Whether ``transform`` gives a SciPy CSR array.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, …
        random_state: Seed or generator of everything drawn.
        verbose: 1 shows a progress bar.

    Attributes:
        encoder_: The fitted :class:`nonneg.Encoder`, on the CPU: its features are those of
            ``transform``.
        n_axes_: How many principal axes were kept.
        threshold_: Features below this share of their row's length are dropped, for a target.
        rank_: Feature numbers by expected activation on the training set, strongest first.
        expected_activation_: Mean activation of each feature, rows scaled to length 1 ``(d,)``;
            of more than 20,000 training samples, over 20,000 drawn ones.
        n_alive_: Features that are on for some training sample, of the drawn ones where there are
            more than 20,000; ``n_dead_`` counts the others.
        coverage_: What :meth:`novelty` and :meth:`partial_fit` know of the training samples.
        n_iter_: Steps taken; ``history_`` has about twenty records on the way.
        feature_names_: What :meth:`describe` called the features; empty before.

    Example:
        >>> X = np.repeat(np.eye(4), 25, axis=0)  # four kinds of samples
        >>> ncl = NCL(random_state=0, max_steps=60).fit(X)
        >>> Z = ncl.transform(X)
        >>> Z.shape, bool(Z.min() >= 0)
        ((100, 4), True)
        >>> round(ncl.explain(X[0], X[1]).cosine, 3), round(ncl.explain(X[0], X[99]).cosine, 3)
        (1.0, 0.0)
    """

    _encoder_folders: ClassVar[dict[str, str]] = {"encoder_": ""}

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        detail: str | float = "balanced",
        pairs: str = "neighbors",
        n_neighbors: int | str = "auto",
        noise: float = 0.5,
        denoise: str | int = "auto",
        hidden: int | str = "auto",
        temperature: float | str = "auto",
        target_active: float | None = None,
        max_active: int | str | None = "auto",
        nonnegative: str = "rep_relu",
        max_epochs: int | None = None,
        max_steps: int | None = None,
        batch_size: int = 512,
        learning_rate: float = 3e-3,
        sparse_output: bool = False,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.detail = detail
        self.pairs = pairs
        self.n_neighbors = n_neighbors
        self.noise = noise
        self.denoise = denoise
        self.hidden = hidden
        self.temperature = temperature
        self.target_active = target_active
        self.max_active = max_active
        self.nonnegative = nonnegative
        self.max_epochs = max_epochs
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.sparse_output = sparse_output
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        graph: Any = None,  # noqa: ANN401
        index_pairs: ArrayLike | None = None,
    ) -> Self:
        """Learn the features of X.

        Args:
            X: ``(n, d)``: an array or tensor of any real type, a memory map, which is read tile by
                tile, or SciPy sparse.
            y: Labels ``(n,)`` for ``pairs="labels"``; otherwise only their number is checked.
            graph: Weights ``(n, n)``, SciPy sparse or an array, for ``pairs="graph"``.
            index_pairs: Whole numbers ``(n_pairs, 2)`` for ``pairs="index"``.
        """
        settings = NCLSettings.of(self.get_params(deep=False))
        X = checked_vectors(self, X, reset=True)
        check_length(y, X)
        seed = int(check_random_state(self.random_state).randint(2**31))
        side, self.history_ = learn(X, settings, Given(y, graph, index_pairs), seed)
        self.encoder_ = side.encoder
        self.max_active_ = side.encoder.settings.max_active
        self.expected_activation_ = side.expected_activation
        self.n_alive_ = int(side.alive.sum())
        self.coverage_ = coverage_of(side.encoder, X, seed)
        self._forget_names()
        warn_of_dead(self.n_alive_, len(side.alive))
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32] | sparse.csr_array:
        """The features of X, float32 ``(n, n_components)``; a SciPy CSR array if so set.

        Args:
            X: ``(n, d)``, of any kind that :meth:`fit` takes; a row of zeros has features of zero.
        """
        check_is_fitted(self)
        settings = NCLSettings.now(self)
        self._limit_active()
        return features_of(
            self.encoder_,
            checked_vectors(self, X, reset=False),
            device=settings.torch_device,
            sparse_output=settings.sparse_output,
        )

    @property
    def threshold_(self) -> float:
        """Features up to this share of their row's length are dropped; 0 drops none."""
        return self.encoder_.settings.threshold or 0.0

    @threshold_.setter
    def threshold_(self, threshold: float) -> None:
        limit = self.encoder_.settings.max_active
        self.encoder_.thin(threshold=float(threshold), max_active=limit)

    @property
    def n_axes_(self) -> int:
        """How many principal axes were kept."""
        return n_axes(self.encoder_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.pairs == "labels"
        return tags
