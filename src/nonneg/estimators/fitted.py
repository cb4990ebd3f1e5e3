"""What does a fitted estimator know? Its strongest and its dead features, and how to be kept."""

import warnings
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from nonneg.backbones import Frozen
from nonneg.encoder import Encoder
from nonneg.estimators.heads import Record
from nonneg.estimators.saving import read_fitted, write_fitted
from nonneg.metrics.results import FloatArray, IntArray

# Fewer alive features than this share of n_components are worth a warning.
_MIN_ALIVE_RATE = 0.5


class FittedFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn transformer made of encoders: what follows from what ``fit`` leaves behind."""

    _encoder_folders: ClassVar[dict[str, str]]
    """The attributes that are encoders, each with its place in a saved folder; X's first."""
    expected_activation_: FloatArray
    n_alive_: int
    history_: list[Record]

    @property
    def rank_(self) -> IntArray:
        """Feature numbers by expected activation on the training set, strongest first."""
        return np.argsort(-self.expected_activation_, kind="stable")

    @property
    def n_dead_(self) -> int:
        """Features that are off for every training sample, or for all of 20,000 drawn ones."""
        return len(self.expected_activation_) - self.n_alive_

    @property
    def n_iter_(self) -> int:
        """How many steps were taken."""
        return int(self.history_[-1]["step"])

    def save(self, folder: str | Path) -> None:
        """Write JSON and safetensors into a folder; nothing is pickled.

        An encoder in it can also be read by itself, see :meth:`nonneg.Encoder.load`; it gives the
        features before ``threshold_`` and ``max_active``. A ``random_state`` that is a generator
        is saved as None.

        Raises:
            FileExistsError: The folder holds something else, such as a training run; an earlier
                save of the same class is replaced.
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

    def _warn_of_dead(self) -> None:
        n_features = len(self.expected_activation_)
        if self.n_dead_ > (1 - _MIN_ALIVE_RATE) * n_features:
            warnings.warn(
                f"{self.n_dead_} of {n_features} features are dead (off for every "
                "training sample); lower temperature, learning_rate or n_components",
                stacklevel=3,
            )

    @property
    def _n_features_out(self) -> int:
        encoder: Encoder = getattr(self, next(iter(self._encoder_folders)))
        return encoder.n_features

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return all(hasattr(self, attribute) for attribute in self._encoder_folders)


def n_axes(encoder: Encoder) -> int:
    """How many principal axes stand before the head."""
    backbone = encoder.backbone
    assert isinstance(backbone, Frozen)
    return backbone.hidden_size
