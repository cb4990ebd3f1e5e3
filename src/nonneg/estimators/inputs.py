"""What an estimator is given, checked: its parameters, and vectors, read by tiles of rows."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor

from nonneg.encoder import TransformName
from nonneg.inference import chosen_device
from nonneg.settings import Settings

# With these a feature is off exactly where its score is not above zero.
_RECTIFIED = ("relu", "rep_relu")


class EstimatorSettings(Settings):
    """A constructor's arguments with their ranges, without the seed."""

    @classmethod
    def of(cls, params: dict[str, Any]) -> Self:
        """The settings of an estimator's ``get_params()``; NumPy's numbers are read as numbers."""
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()}
        return cls.read({k: v for k, v in plain.items() if k != "random_state"})

    @classmethod
    def now(cls, estimator: Any) -> Self:  # noqa: ANN401
        """The settings of an estimator's present parameters.

        They are read by name: ``get_params()`` inspects the constructor on every call, which takes
        longer than the features of one vector.
        """
        names = (name for name in cls.model_fields if name != "autos")
        return cls.of({name: getattr(estimator, name) for name in names})


class HeadSettings(EstimatorSettings):
    """What all estimators that train heads on vectors can be told."""

    n_components: PositiveInt
    hidden: NonNegativeInt
    temperature: PositiveFloat
    target_active: PositiveFloat | None
    max_active: PositiveInt | None
    nonnegative: TransformName
    max_epochs: PositiveInt | None
    max_steps: PositiveInt | None
    batch_size: int = Field(ge=2)
    learning_rate: PositiveFloat
    sparse_output: bool
    device: str
    verbose: NonNegativeInt

    @property
    def torch_device(self) -> torch.device:
        """Where to compute: ``auto`` is the machine's accelerator, or the CPU without one."""
        return chosen_device(self.device)

    @model_validator(mode="after")
    def _device_is_there(self) -> Self:
        chosen_device(self.device)
        return self

    @model_validator(mode="after")
    def _target_can_be_met(self) -> Self:
        if self.target_active is None:
            return self
        if self.target_active >= self.n_components:
            raise ValueError(
                f"target_active={self.target_active:g} must be below "
                f"n_components={self.n_components}"
            )
        if self.nonnegative not in _RECTIFIED:
            raise ValueError(
                f"target_active needs exact zeros: set nonnegative to {' or '.join(_RECTIFIED)}"
            )
        return self


# What stands for "auto" where pairs are given and sizes are not chosen from the data.
_UNSIZED: dict[str, Any] = {
    "n_components": 1024,
    "n_neighbors": 10,
    "hidden": 512,
    "temperature": 0.23,
    "max_active": None,
}


class NCLSettings(HeadSettings):
    """Of :class:`nonneg.NCL`."""

    detail: Literal["concepts", "balanced", "full"] | Annotated[float, Field(ge=0, le=1)]
    pairs: Literal["neighbors", "noise", "labels", "graph", "index"]
    n_neighbors: PositiveInt
    noise: PositiveFloat
    denoise: Literal["auto", "none"] | PositiveInt
    autos: frozenset[str] = frozenset()
    """Which settings are left to the data."""

    @classmethod
    def of(cls, params: dict[str, Any]) -> Self:
        """The settings of ``get_params()``, with stand-ins for those that are ``"auto"``."""
        autos = {key for key in _UNSIZED if isinstance(params[key], str) and params[key] == "auto"}
        return super().of({**params, **{key: _UNSIZED[key] for key in autos}, "autos": autos})

    def sized(self, sizes: dict[str, Any]) -> Self:
        """With what was left to the data as the sizes say; a head without a hidden layer."""
        chosen = {**sizes, "hidden": 0}
        if self.target_active is not None or self.nonnegative not in _RECTIFIED:
            chosen["max_active"] = None
        return self.model_copy(update={key: chosen[key] for key in self.autos})

    @model_validator(mode="after")
    def _detail_has_a_meaning(self) -> Self:
        if self.detail != "balanced" and self.pairs != "neighbors":
            raise ValueError(
                f"detail={self.detail!r} is for pairs='neighbors'; with pairs={self.pairs!r} set "
                "n_components, temperature or max_active"
            )
        return self


# What "auto" stands for where pairs are of two kinds; docs/history/no-loss.md has the figures.
_CROSS: dict[str, Any] = {"hidden": 0, "temperature": 0.05, "learning_rate": 1e-3}
# One rectified linear map learns by long steps; signed features and inner layers do not.
_LINEAR_RATE = 6e-3


class CrossSettings(HeadSettings):
    """Of :class:`nonneg.CrossNCL`."""

    denoise: Literal["none"] | PositiveInt
    noise: NonNegativeFloat

    @classmethod
    def of(cls, params: dict[str, Any]) -> Self:
        """The settings of ``get_params()``, with numbers for those that are ``"auto"``."""
        autos = {key for key in _CROSS if isinstance(params[key], str) and params[key] == "auto"}
        chosen = {**params, **{key: _CROSS[key] for key in autos}}
        is_linear = isinstance(chosen["hidden"], int | np.integer) and chosen["hidden"] == 0
        if "learning_rate" in autos and is_linear and chosen["nonnegative"] in _RECTIFIED:
            chosen["learning_rate"] = _LINEAR_RATE
        return super().of(chosen)


class GraphSettings(EstimatorSettings):
    """Of :class:`nonneg.GraphNCL`."""

    n_components: Literal["auto"] | PositiveInt
    start: Literal["eigenvectors", "sampling", "random"]
    max_steps: NonNegativeInt
    tolerance: NonNegativeFloat


# 4 million numbers, 16 MB of float32: large enough for fast products, small beside any X.
TILE_ENTRIES = 1 << 22


def tiles(X: Any, *, width: int = 1) -> Iterator[tuple[slice, Tensor]]:  # noqa: ANN401
    """All rows from first to last, some at a time, as dense float32.

    Args:
        X: A NumPy array or memory map of any order and real type, or SciPy CSR, ``(n, d)``.
        width: Columns of what a tile becomes, where these may be more than its own.

    Example:
        >>> [(rows, part.shape[0]) for rows, part in tiles(np.eye(3))]
        [(slice(0, 3, None), 3)]
    """
    n_samples, n_columns = X.shape
    step = max(1, TILE_ENTRIES // max(n_columns, width))
    for start in range(0, n_samples, step):
        rows = slice(start, min(start + step, n_samples))
        yield rows, dense_rows(X, rows)


def dense_rows(X: Any, rows: slice | np.ndarray[Any, Any]) -> Tensor:  # noqa: ANN401
    """Some rows of X as a float32 tensor of its own, ``(len(rows), d)``."""
    is_sparse: bool = sparse.issparse(X)
    part = X[rows].toarray() if is_sparse else X[rows]
    with np.errstate(over="ignore"):  # check_finite says it, with the numbers of the rows
        return torch.from_numpy(np.array(part, dtype=np.float32, order="C"))


def from_torch(X: Any) -> Any:  # noqa: ANN401
    """A tensor as a NumPy array, without its gradient; anything else as it is.

    Example:
        >>> from_torch(torch.ones(2, dtype=torch.bfloat16, requires_grad=True))
        array([1., 1.], dtype=float32)
    """
    if not isinstance(X, Tensor):
        return X
    here = X.detach().cpu()
    return (here.float() if here.dtype == torch.bfloat16 else here).numpy()


def check_finite(X: Any, name: str = "X") -> None:  # noqa: ANN401
    """Raise a sentence with the numbers of the rows that hold NaN or infinity."""
    bad: list[int] = []
    for rows, part in tiles(X):
        if math.isfinite(part.sum()):  # then so is every number
            continue
        wrong = (~torch.isfinite(part)).any(dim=1).nonzero()[:, 0] + rows.start
        bad += wrong.tolist()
    if bad:
        shown = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
        raise ValueError(
            f"{name} holds NaN or infinity (or numbers beyond float32) in {len(bad)} of "
            f"{X.shape[0]} rows: {shown}; remove or repair them"
        )


# Whether numbers are finite is checked tile by tile, so that memory maps stay on disk.
_ACCEPTED = {"accept_sparse": "csr", "dtype": "numeric", "ensure_all_finite": False}


def checked_vectors(estimator: Any, X: ArrayLike, *, reset: bool) -> Any:  # noqa: ANN401
    """X ``(n, d)`` as an array, a memory map or SciPy CSR of finite numbers.

    Args:
        estimator: Remembers the number and the names of the columns, or compares them.
        X: What the user gave.
        reset: Whether the estimator is being fitted.
    """
    if _is_text(X):
        raise ValueError(
            "X holds texts, not vectors; embed them first, for example with "
            "sentence_transformers.SentenceTransformer(model).encode(texts)"
        )
    checked = from_torch(X)
    if reset or not _is_as_fitted(estimator, checked):
        n_least = 2 if reset else 1
        checked = validate_data(
            estimator, checked, reset=reset, ensure_min_samples=n_least, **_ACCEPTED
        )
    check_finite(checked)
    return checked


def _is_as_fitted(estimator: Any, X: Any) -> bool:  # noqa: ANN401
    """Whether scikit-learn has nothing to find or to warn of, which takes it long for one row."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in (np.float32, np.float64)
        and len(X) > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
    )


def _is_text(X: Any) -> bool:  # noqa: ANN401
    """Whether it is a text, or a sequence that begins with one."""
    if isinstance(X, list | tuple):
        return bool(X) and isinstance(X[0], str)
    return isinstance(X, str) or (isinstance(X, np.ndarray) and X.ndim < 2 and X.dtype.kind == "U")


def checked_partners(y: ArrayLike, n_columns: int | None = None) -> Any:  # noqa: ANN401
    """The other kind of vectors ``(n, d_y)``, checked as X is; ``(n,)`` is read as one column.

    Args:
        y: What the user gave.
        n_columns: How many columns it must have; None for any number.
    """
    checked = check_array(from_torch(y), ensure_2d=False, input_name="y", **_ACCEPTED)
    if checked.ndim == 1:
        checked = checked.reshape(-1, 1)
    if n_columns is not None and checked.shape[1] != n_columns:
        raise ValueError(f"y has {checked.shape[1]} columns, but was fitted with {n_columns}")
    check_finite(checked, "y")
    return checked


def checked_pairs(estimator: Any, X: ArrayLike, y: ArrayLike | None) -> tuple[Any, Any]:  # noqa: ANN401
    """Both kinds of vectors, checked, for fitting: ``(n, d)`` and ``(n, d_y)``."""
    checked = checked_vectors(estimator, X, reset=True)
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; "
            "call fit(X, y)"
        )
    partners = checked_partners(y)
    if partners.shape[0] != checked.shape[0]:
        raise ValueError(
            f"X has {checked.shape[0]} rows, but y has {partners.shape[0]}; row i of y belongs to "
            "row i of X"
        )
    return checked, partners


def group_numbers(groups: Iterable[Hashable] | None, n_samples: int) -> Tensor:
    """The groups as numbers from 0 on, int64 ``(n,)``; None makes each sample its own group.

    Args:
        groups: One label per sample, of any type that can be the key of a dictionary.
        n_samples: How many there must be.

    Example:
        >>> group_numbers(["cat", "dog", "cat"], 3)
        tensor([0, 1, 0])
    """
    if groups is None:
        return torch.arange(n_samples)
    # Entries of a tensor would each be a key of its own.
    labels = groups.tolist() if isinstance(groups, np.ndarray | Tensor) else list(groups)
    if len(labels) != n_samples:
        raise ValueError(f"groups has {len(labels)} entries for {n_samples} rows; give one each")
    known: dict[Hashable, int] = {}
    try:
        numbers = [known.setdefault(label, len(known)) for label in labels]
    except TypeError:
        raise TypeError("groups must be one label per row, such as a number or a text") from None
    if len(known) == 1:
        raise ValueError(
            f"groups puts all {n_samples} rows into one group, so nothing can be told apart; "
            "give each thing a label of its own"
        )
    return torch.tensor(numbers)


def check_length(y: ArrayLike | None, X: Any) -> None:  # noqa: ANN401
    """Raise a sentence unless y, where there is one, has an entry for each row of X."""
    if y is None:
        return
    entries = np.asarray(from_torch(y))
    if entries.shape[:1] != (X.shape[0],):
        raise ValueError(
            f"y has {entries.size} entries, but X has {X.shape[0]} rows; give one per row"
        )


def label_numbers(y: ArrayLike, n_samples: int) -> Tensor:
    """Labels as class numbers from 0 on, int64 ``(n,)``."""
    labels = np.asarray(y)
    if labels.shape != (n_samples,):
        raise ValueError(f"y must have shape ({n_samples},), got {labels.shape}")
    try:
        # As objects: an array of words would turn a NaN among them into a word.
        check_none_missing(np.asarray(y, dtype=object).tolist(), "y")
        _, numbers = np.unique(labels, return_inverse=True)
    except TypeError:
        raise TypeError(
            "y mixes labels that cannot be compared, as words and numbers; give all of one type"
        ) from None
    if not numbers.any():
        raise ValueError("y has one class only, so nothing can be told apart; give two or more")
    return torch.from_numpy(numbers)


def sparse_weights(graph: Any) -> Any:  # noqa: ANN401
    """Weights ``(n, n)`` as SciPy sparse, where they are an array or a tensor."""
    is_sparse: bool = sparse.issparse(graph)
    if is_sparse:
        return graph
    weights = np.asarray(from_torch(graph))
    if weights.ndim != 2:
        raise ValueError(f"graph must be square (n, n), got shape {weights.shape}")
    return sparse.csr_array(weights)


def check_none_missing(labels: Sequence[Any], name: str) -> None:
    """Raise a sentence with the numbers of the rows whose label is NaN or None.

    Args:
        labels: One per row.
        name: Of the argument they were given as.
    """
    missing = [i for i, label in enumerate(labels) if _is_missing(label)]
    if missing:
        shown = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
        raise ValueError(
            f"{name} has no label (NaN or None) in {len(missing)} of {len(labels)} rows: {shown}; "
            "leave these rows out or give them a label"
        )


def _is_missing(label: Any) -> bool:  # noqa: ANN401
    # Whether pandas.NA equals itself is neither true nor false.
    return label is None or type(label).__name__ == "NAType" or label != label


def one_row(transform: Callable[[Any], Any], x: ArrayLike) -> NDArray[np.float64]:
    """The features ``(n_components,)`` that a transform gives for one vector.

    Args:
        transform: Of an estimator, from ``(1, d)`` to dense or sparse features.
        x: ``(d,)`` or ``(1, d)``; names of columns are kept.
    """
    row: Any = x.to_frame().T if hasattr(x, "to_frame") else x  # a row of a data frame
    if len(getattr(row, "shape", ())) != 2:
        row = np.atleast_2d(np.asarray(from_torch(row)))
    if row.shape[0] != 1:
        raise ValueError(f"explain takes one vector at a time, got {row.shape[0]} rows")
    features = transform(row)
    is_sparse: bool = sparse.issparse(features)
    return np.asarray(features.toarray() if is_sparse else features, np.float64).ravel()
