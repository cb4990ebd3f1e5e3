"""How do vectors that exist become readable? ``NCL``: fit and transform, as in scikit-learn."""

import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from nonneg.backbones import Frozen
from nonneg.estimators.learning import learn
from nonneg.estimators.output import features_of
from nonneg.estimators.reading import ReadableFeatures
from nonneg.estimators.saving import read_fitted, smaller_encoder, write_fitted
from nonneg.estimators.settings import NCLSettings
from nonneg.estimators.sources import Given
from nonneg.estimators.vectors import check_finite

# Fewer alive features than this share of n_components are worth a warning.
_MIN_ALIVE_RATE = 0.5


class NCL(ReadableFeatures, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Sparse, non-negative, readable features of vectors: a scikit-learn transformer.

    The vectors are centred, denoised and scaled to one length; pairs of them that belong together
    train one rectified head by InfoNCE. Features are compared by cosine.

    Args:
        n_components: Number of features.
        pairs: What belongs together: ``"neighbors"`` (near by cosine), ``"noise"`` (a sample and
            itself, disturbed), ``"labels"`` (the same ``y``), ``"graph"`` (joined by an edge of
            ``fit(X, graph=A)``) or ``"index"`` (listed in ``fit(X, index_pairs=ij)``).
        n_neighbors: How many of the nearest are partners, for ``"neighbors"``.
        noise: Standard deviation of the disturbance, for ``"noise"``; entries have size 1.
        denoise: ``"auto"`` keeps the principal axes that neighbours agree on, a number keeps so
            many, ``"none"`` keeps all.
        hidden: Width of the head's inner layer; 0 for one linear map.
        temperature: Of InfoNCE: the higher, the fewer features are on.
        target_active: Mean number of active features a sample: the weakest of a sample are
            dropped, or biases raised while training. None leaves it to the temperature.
        max_active: The most features that ``transform`` leaves on in a sample, the largest.
        nonnegative: A key of ``nonneg.nonnegative.TRANSFORMS``. ``"rep_relu"`` has the values of
            ``"relu"`` and revives features near zero; ``"identity"`` switches NCL off.
        max_epochs: Most passes over X. Without limits: ten passes, but at least 300 steps.
        max_steps: Most optimiser steps.
        batch_size: Pairs a step; of fewer samples, all.
        learning_rate: At its peak.
        sparse_output: Whether ``transform`` gives a SciPy CSR array.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, …
        random_state: Seed or generator of everything drawn.
        verbose: 1 shows a progress bar.

    Attributes:
        encoder_: The fitted :class:`nonneg.Encoder`, on the CPU.
        n_axes_: How many principal axes were kept.
        threshold_: Features below this share of their row's length are dropped, for a target.
        rank_: Feature numbers by expected activation on the training set, strongest first.
        expected_activation_: Mean activation of each feature, rows scaled to length 1 ``(d,)``.
        n_alive_: Features that are on for some training sample; ``n_dead_`` counts the others.
        n_iter_: Steps taken; ``history_`` has about twenty records on the way.
        feature_names_: What :meth:`describe` called the features; empty before.

    Example:
        >>> X = np.repeat(np.eye(4), 25, axis=0)  # four kinds of samples
        >>> ncl = NCL(n_components=16, n_neighbors=5, random_state=0, max_steps=60).fit(X)
        >>> Z = ncl.transform(X)
        >>> Z.shape, bool(Z.min() >= 0)
        ((100, 16), True)
        >>> round(ncl.explain(X[0], X[1]).cosine, 3), round(ncl.explain(X[0], X[99]).cosine, 3)
        (1.0, 0.0)
    """

    def __init__(
        self,
        n_components: int = 1024,
        *,
        pairs: str = "neighbors",
        n_neighbors: int = 10,
        noise: float = 0.5,
        denoise: str | int = "auto",
        hidden: int = 512,
        temperature: float = 0.23,
        target_active: float | None = None,
        max_active: int | None = None,
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
            X: ``(n, d)``: an array of any order and real type, a memory map, which is read tile by
                tile, or SciPy sparse.
            y: Labels ``(n,)`` for ``pairs="labels"``; not used otherwise.
            graph: SciPy sparse weights ``(n, n)`` for ``pairs="graph"``.
            index_pairs: Whole numbers ``(n_pairs, 2)`` for ``pairs="index"``.
        """
        settings = NCLSettings.of(self.get_params(deep=False))
        X = self._checked(X, reset=True)
        seed = int(check_random_state(self.random_state).randint(2**31))
        learnt = learn(X, settings, Given(y, graph, index_pairs), seed)
        self.encoder_ = learnt.encoder
        self.threshold_ = learnt.threshold
        self.history_ = learnt.history
        self.expected_activation_ = learnt.expected_activation
        self.n_alive_ = learnt.n_alive
        self.feature_names_: list[str] = []
        if self.n_dead_ > (1 - _MIN_ALIVE_RATE) * settings.n_components:
            warnings.warn(
                f"{self.n_dead_} of {settings.n_components} features are dead (off for every "
                "training sample); lower temperature, learning_rate or n_components",
                stacklevel=2,
            )
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32] | sparse.csr_array:
        """The features of X, float32 ``(n, n_components)``; a SciPy CSR array if so set.

        Args:
            X: ``(n, d)``, of any kind that :meth:`fit` takes; read tile by tile.
        """
        check_is_fitted(self)
        settings = NCLSettings.of(self.get_params(deep=False))
        return features_of(
            self.encoder_,
            self._checked(X, reset=False),
            device=settings.torch_device,
            threshold=self.threshold_,
            max_active=settings.max_active,
            sparse_output=settings.sparse_output,
        )

    @property
    def rank_(self) -> NDArray[np.int64]:
        """Feature numbers by expected activation on the training set, strongest first."""
        return np.argsort(-self.expected_activation_, kind="stable")

    @property
    def n_dead_(self) -> int:
        """Features that are off for every training sample."""
        return self.encoder_.n_features - self.n_alive_

    @property
    def n_axes_(self) -> int:
        """How many principal axes were kept."""
        backbone = self.encoder_.backbone
        assert isinstance(backbone, Frozen)
        return backbone.hidden_size

    @property
    def n_iter_(self) -> int:
        """How many steps were taken."""
        return int(self.history_[-1]["step"])

    def select(self, k: int) -> Self:
        """A smaller estimator that computes only the k features of largest expected activation.

        Args:
            k: From 1 to ``n_components``. Feature i of the result is feature ``rank_[i]`` here; a
                ``threshold_`` is then a share of the length of these k alone.
        """
        check_is_fitted(self)
        if not 1 <= k <= self.encoder_.n_features:
            raise ValueError(
                f"k must be between 1 and the {self.encoder_.n_features} features, got {k}"
            )
        chosen = self.rank_[:k]
        # The target belongs to all features; fewer of them are on among the chosen.
        smaller: Self = clone(self).set_params(n_components=k, target_active=None)
        smaller.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            smaller.feature_names_in_ = self.feature_names_in_
        smaller.encoder_ = smaller_encoder(self.encoder_, chosen)
        smaller.threshold_ = self.threshold_
        smaller.history_ = list(self.history_)
        smaller.expected_activation_ = self.expected_activation_[chosen]
        smaller.n_alive_ = int((smaller.expected_activation_ > 0).sum())
        smaller.feature_names_ = [self.feature_names_[i] for i in chosen if self.feature_names_]
        return smaller

    def save(self, folder: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors`` into a folder; nothing is pickled.

        The encoder in the folder can also be read by itself, see :meth:`nonneg.Encoder.load`; it
        gives the features before ``threshold_`` and ``max_active``. A ``random_state`` that is a
        generator is saved as None.
        """
        check_is_fitted(self)
        write_fitted(Path(folder), self)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The estimator that was saved in a folder, fitted as it was.

        Raises:
            FileNotFoundError: There is no estimator.
            ValueError: The files are damaged, or hold something else.
        """
        loaded: Self = read_fitted(Path(folder), cls)
        return loaded

    def _checked(self, X: ArrayLike, *, reset: bool) -> Any:  # noqa: ANN401
        """X as scikit-learn accepts it, without a copy where it is an array already."""
        checked = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )
        check_finite(checked)
        return checked

    @property
    def _n_features_out(self) -> int:
        return self.encoder_.n_features

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "encoder_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        tags.target_tags.required = self.pairs == "labels"
        return tags
