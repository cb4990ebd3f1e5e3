"""``CrossNCL``: features that mean one thing for two kinds of vectors."""

from collections.abc import Hashable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nonneg.encoder import Encoder
from nonneg.estimators.axes import fitted_projection
from nonneg.estimators.display import progress_bar
from nonneg.estimators.fit import (
    FitSettings,
    Head,
    LearntSide,
    Record,
    Views,
    fit_heads,
    fit_settings,
    hidden_vectors,
    learnt_side,
    new_encoder,
    warn_of_dead,
)
from nonneg.estimators.fitted import FittedFeatures, features_of, n_axes
from nonneg.estimators.inputs import (
    CrossSettings,
    checked_pairs,
    checked_partners,
    checked_vectors,
    group_numbers,
)
from nonneg.estimators.reading import ReadableSides


def grouped_batches(
    groups: Tensor, batch_size: int, n_steps: int, generator: torch.Generator
) -> Iterator[Tensor]:
    """The sample numbers of each step, int64 ``(batch_size,)``; at least two groups in each.

    Each epoch has an order of its own; what is left over at its end waits a turn, and so does a
    batch of one group, which has nothing to tell apart.

    Args:
        groups: The number of each sample's group ``(n,)``, at least two of them.
        batch_size: From 2 to n.
        n_steps: Batches in all.
        generator: Draws the orders.
    """
    n_given = 0
    while n_given < n_steps:
        for batch in spread_order(groups, generator).split(batch_size):
            several = bool((groups[batch] != groups[batch[0]]).any())
            if len(batch) == batch_size and several and n_given < n_steps:
                n_given += 1
                yield batch


def spread_order(groups: Tensor, generator: torch.Generator) -> Tensor:
    """All samples in random order, the members of each group far apart, int64 ``(n,)``.

    The epoch is cut into as many parts as a group has members, and one of them stands at a random
    place of each part. So a batch seldom holds two captions of one image, which would be lost as
    negatives of each other, and no image comes up more often than the others.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> order = spread_order(torch.tensor([0, 0, 1, 1, 2, 2]), generator)
        >>> sorted((order // 2)[:3].tolist())  # the first half has one of each group
        [0, 1, 2]
    """
    n = len(groups)
    shuffled = torch.randperm(n, generator=generator)
    by_group = shuffled[groups[shuffled].argsort(stable=True)]
    _, sizes = groups[by_group].unique_consecutive(return_counts=True)
    first = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    part = torch.arange(n) - first  # 0, 1, … among the members of a group
    place = (part + torch.rand(n, generator=generator, dtype=torch.float64)) / (
        sizes.repeat_interleave(sizes)
    )
    return by_group[place.argsort()]


def learn_across(
    X: Any,  # noqa: ANN401
    y: Any,  # noqa: ANN401
    groups: Tensor,
    settings: CrossSettings,
    seed: int,
) -> tuple[tuple[LearntSide, LearntSide], list[Record]]:
    """Features that mean the same on both sides of pairs, and records of the training.

    Args:
        X: Checked vectors ``(n, d)``: an array, a memory map or SciPy CSR.
        y: Their partners ``(n, d_y)``.
        groups: ``(n,)``; pairs of the same number are no negatives of each other.
        settings: How.
        seed: Of everything drawn; torch's own generator is left alone.
    """
    heads = []
    for name, vectors, of_side in (("X", X, seed), ("y", y, seed + 1)):
        projection = fitted_projection(vectors, settings.denoise, seed, name)
        encoder = new_encoder(projection, settings, of_side)
        heads.append(Head(encoder, hidden_vectors(vectors, projection, settings)))
    steps = _longer(fit_settings(settings, len(groups), seed), settings)
    generator = torch.Generator().manual_seed(seed)
    views = _views(heads, groups, steps, settings.noise, generator)
    is_shown = settings.verbose > 0
    with progress_bar(steps.n_steps) if is_shown else nullcontext() as progress:
        history = fit_heads(heads, views, steps, generator, progress)
    x_side, y_side = (learnt_side(head.encoder, head.hidden, settings, seed) for head in heads)
    return (x_side, y_side), history


# So many times the usual steps where these are not given: see docs/history/no-loss.md.
_LINEAR_STEPS = 2


def _longer(steps: FitSettings, settings: CrossSettings) -> FitSettings:
    """Twice the steps for linear maps, which are cheap; with an inner layer as in 0.1."""
    is_limited = settings.max_epochs is not None or settings.max_steps is not None
    if is_limited or settings.hidden > 0:
        return steps
    return replace(steps, n_steps=_LINEAR_STEPS * steps.n_steps)


def _views(
    heads: list[Head],
    groups: Tensor,
    settings: FitSettings,
    noise: float,
    generator: torch.Generator,
) -> Iterator[Views]:
    """Both sides of the pairs of each step, disturbed by noise."""
    batches = grouped_batches(groups, settings.batch_size, settings.n_steps, generator)
    for indices in batches:
        inputs = []
        for head in heads:
            part = head.hidden[indices.to(head.hidden.device)]
            if noise > 0:
                part = part + noise * torch.randn(part.shape, generator=generator).to(part.device)
            inputs.append(part)
        yield Views(tuple(inputs), groups[indices].to(inputs[0].device))


FeatureArray = NDArray[np.float32] | sparse.csr_array


class CrossNCL(ReadableSides, FittedFeatures):
    """Sparse, non-negative features that two kinds of vectors share, such as images and captions.

    Each side is centred, scaled to one length and has a rectified map of its own; both learn by
    the symmetric InfoNCE that row i of X and row i of y belong together. A feature's strongest
    images and strongest captions are then about the same thing. Features are compared by cosine.
    Few pairs teach what they are about only: see docs/history/no-loss.md before searching beyond.

    Args:
        n_components: Number of features.
        denoise: How many principal axes of each side are kept; ``"none"`` keeps all.
        noise: Standard deviation of the disturbance of both sides while training, against learning
            pairs by heart; entries have size 1.
        hidden: Width of the heads' inner layers; 0, as ``"auto"`` is, for one linear map each.
        temperature: Of InfoNCE: the higher, the fewer features are on; ``"auto"`` is 0.05.
        target_active: Mean number of active features per row, on either side: the weakest of a row
            are dropped, or biases raised while training. None leaves it to the temperature.
        max_active: The most features that ``transform`` leaves on per row, the largest; may be
            changed after the fit.
        nonnegative: A key of ``nonneg.head.TRANSFORMS``; ``"identity"`` is the same with
            signed features.
        max_epochs: Most passes over the pairs. Without it and ``max_steps``: ten passes, but at
            least 300 and at most 2,000 steps; for linear maps twice as many.
        max_steps: Most optimiser steps. With ``max_epochs`` too, the first limit reached counts.
            By default 400 rows take as many steps as 15,000, namely 600: lower it for a quick look.
        batch_size: Pairs per step; of fewer pairs, all.
        learning_rate: At its peak. ``"auto"``: 0.006 for rectified features of linear maps, else
            0.001.
        sparse_output: Whether ``transform`` gives SciPy CSR arrays.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, …
        random_state: Seed or generator of everything drawn.
        verbose: 1 shows a progress bar.

    Attributes:
        encoder_x_: The fitted :class:`nonneg.Encoder` of X, on the CPU; ``encoder_y_`` that of y.
        n_axes_: How many principal axes of each side were kept.
        threshold_: Features below this share of their row's length are dropped, for a target; one
            for each side.
        expected_activation_: Mean activation of each feature, rows scaled to length 1, mean of
            both sides ``(d,)``; of more than 20,000 training rows, over 20,000 drawn ones.
            ``rank_`` has the feature numbers, strongest first.
        n_alive_: Features that are on for some training row of *both* sides, of the drawn ones
            where there are more than 20,000; ``n_dead_`` counts the others.
        n_features_y_in_: Columns of y.
        n_iter_: Steps taken; ``history_`` has about twenty records on the way.
        feature_names_: What :meth:`describe` called the features; empty before.

    Example:
        >>> kind = np.repeat(np.arange(4), 25)  # four kinds of things, seen in two ways
        >>> X, y = np.eye(4)[kind], np.eye(6)[kind + 2]
        >>> both = CrossNCL(16, temperature=0.2, noise=0.3, max_steps=200, random_state=0)
        >>> both = both.fit(X, y, groups=kind)
        >>> Z_x, Z_y = both.transform(X, y)
        >>> Z_x.shape, Z_y.shape
        ((100, 16), (100, 16))
        >>> both.explain(X[0], y[0]).cosine > 0.9, both.explain(X[0], y[99]).cosine < 0.1
        (True, True)
    """

    _encoder_folders: ClassVar[dict[str, str]] = {"encoder_x_": "x", "encoder_y_": "y"}

    def __init__(
        self,
        n_components: int = 1024,
        *,
        denoise: str | int = "none",
        noise: float = 1.0,
        hidden: int | str = "auto",
        temperature: float | str = "auto",
        target_active: float | None = None,
        max_active: int | None = None,
        nonnegative: str = "rep_relu",
        max_epochs: int | None = None,
        max_steps: int | None = None,
        batch_size: int = 512,
        learning_rate: float | str = "auto",
        sparse_output: bool = False,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.denoise = denoise
        self.noise = noise
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
        self, X: ArrayLike, y: ArrayLike | None, *, groups: Iterable[Hashable] | None = None
    ) -> Self:
        """Learn the features that X and y share.

        Args:
            X: ``(n, d)``: an array or tensor of any real type, a memory map, which is read tile by
                tile, or SciPy sparse. An image with five captions stands here five times.
            y: ``(n, d_y)``, of the same kinds; ``(n,)`` is read as one column. Row i belongs to
                row i of X.
            groups: ``(n,)``: rows with the same label are about the same thing and never serve as
                negatives of each other. Without it, every row is a thing of its own.
        """
        settings = CrossSettings.of(self.get_params(deep=False))
        vectors, partners = checked_pairs(self, X, y)
        numbers = group_numbers(groups, vectors.shape[0])
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        (x_side, y_side), self.history_ = learn_across(vectors, partners, numbers, settings, seed)
        self.encoder_x_, self.encoder_y_ = x_side.encoder, y_side.encoder
        self.expected_activation_ = (x_side.expected_activation + y_side.expected_activation) / 2
        self.n_alive_ = int((x_side.alive & y_side.alive).sum())
        self._forget_names()
        warn_of_dead(self.n_alive_, len(x_side.alive))
        return self

    def transform(
        self, X: ArrayLike, y: ArrayLike | None = None
    ) -> FeatureArray | tuple[FeatureArray, FeatureArray]:
        """The features of X, float32 ``(n, n_components)``, or of X and of y; CSR if so set.

        Args:
            X: ``(n, d)``, of any kind that :meth:`fit` takes; read tile by tile.
            y: ``(m, d_y)``, any number of rows; see also :meth:`transform_y`.
        """
        check_is_fitted(self)
        Z = self._features(self.encoder_x_, checked_vectors(self, X, reset=False))
        return Z if y is None else (Z, self.transform_y(y))

    def transform_y(self, y: ArrayLike) -> FeatureArray:
        """The features of y alone, such as queries to a gallery of X; ``(m, n_components)``."""
        check_is_fitted(self)
        return self._features(self.encoder_y_, checked_partners(y, self.n_features_y_in_))

    @property
    def n_features_y_in_(self) -> int:
        """Columns of y."""
        return self.encoder_y_.sample_shape[0]

    @property
    def n_axes_(self) -> tuple[int, int]:
        """How many principal axes of X and of y were kept."""
        return n_axes(self.encoder_x_), n_axes(self.encoder_y_)

    @property
    def threshold_(self) -> tuple[float, float]:
        """Features up to this share of their row's length are dropped, of X and of y."""
        x, y = (encoder.settings.threshold for encoder in (self.encoder_x_, self.encoder_y_))
        return x or 0.0, y or 0.0

    @threshold_.setter
    def threshold_(self, thresholds: Iterable[float]) -> None:
        encoders = (self.encoder_x_, self.encoder_y_)
        for encoder, threshold in zip(encoders, thresholds, strict=True):
            limit = encoder.settings.max_active
            encoder.thin(threshold=float(threshold), max_active=limit)

    def _features(self, encoder: Encoder, vectors: Any) -> FeatureArray:  # noqa: ANN401
        settings = CrossSettings.now(self)
        self._limit_active()
        return features_of(
            encoder, vectors, device=settings.torch_device, sparse_output=settings.sparse_output
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags
