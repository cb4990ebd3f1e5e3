"""Fitted estimators: what they know of their features, and how they are saved."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from nonneg.backbones.simple import Frozen
from nonneg.encoder import CONFIG_FILE, WEIGHTS_FILE, Encoder
from nonneg.estimators.axes import Projection
from nonneg.estimators.curating import CuratedFeatures
from nonneg.estimators.fit import Record
from nonneg.estimators.growing import COVERAGE_FILE, Coverage
from nonneg.estimators.inputs import tiles
from nonneg.estimators.naming import distinct_names
from nonneg.inference import evaluating_on
from nonneg.io import digest_of_file, read_json, write_json
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.pretrained import Shareable
from nonneg.training.run_folder import RUN_FILE, read_record

# What config.json has of an estimator, beside or instead of what it has of an encoder.
ESTIMATOR = "estimator"
# A folder inside that of the estimator, whose files are moved to their places when all are there.
UNFINISHED = ".unfinished"
_ENCODER_FILES = (CONFIG_FILE, WEIGHTS_FILE)


def check_place(folder: Path, name: str, encoder_folders: Iterable[str]) -> None:
    """Raise a sentence where saving an estimator would overwrite something else.

    Args:
        folder: Need not be there. That of ``nonneg fit`` may hold the run's own files already.
        name: The class of the estimator.
        encoder_folders: Where in the folder its encoders go; empty for the folder itself.
    """
    for place in (folder, *folder.parents):
        if place.is_file():
            raise FileExistsError(f"{place} is a file; choose another folder to save {name} in")
    lost = _lost(folder, name, encoder_folders)
    if lost:
        raise FileExistsError(
            f"saving {name} in {folder} would overwrite {lost}; choose another folder"
        )


def _lost(folder: Path, name: str, encoder_folders: Iterable[str]) -> str:
    """What would be lost, in words; empty for nothing."""
    if (folder / RUN_FILE).exists() and read_record(folder)["settings"].get("task") != "fit":
        return "a training run"
    path = folder / CONFIG_FILE
    if path.exists():
        there = content(read_json(path, remedy="choose another folder"))
        return "" if there == f"a fitted {name}" else there
    if (folder / UNFINISHED).exists():  # an interrupted save left files without config.json
        return ""
    places = [Path(place) / file for place in encoder_folders for file in _ENCODER_FILES]
    return next((str(place) for place in places if (folder / place).exists()), "")


def content(config: Any) -> str:  # noqa: ANN401
    """What the content of a ``config.json`` describes, in words.

    Example:
        >>> content({"nonneg": "encoder", "estimator": {"name": "NCL"}})
        'a fitted NCL'
        >>> content({"nonneg": "encoder"})
        'an encoder'
    """
    facts = config.get(ESTIMATOR) if isinstance(config, dict) else None
    if isinstance(facts, dict):
        return f"a fitted {facts.get('name')}"
    is_encoder = isinstance(config, dict) and config.get("nonneg") == "encoder"
    return "an encoder" if is_encoder else "something else"


def write_fitted(folder: Path, estimator: Any) -> None:  # noqa: ANN401
    """Write a fitted estimator: ``config.json``, and ``model.safetensors`` of each encoder.

    Beside them what is known of the training samples, if anything is.

    All is written beside and then moved, the estimator's own file last. It holds the digests of all
    other files, so that those of two saves are never read as one.

    Args:
        folder: Is made if it is not there. The encoder of an estimator with one lies in it, those
            of an estimator with several in folders of their own.
        estimator: Its ``_encoder_folders`` names the attributes that are encoders.

    Raises:
        FileExistsError: If the folder is a file, or holds something else than an estimator of the
            same class.
    """
    places = estimator._encoder_folders
    check_place(folder, type(estimator).__name__, places.values())
    beside = folder / UNFINISHED
    shutil.rmtree(beside, ignore_errors=True)
    for attribute, place in places.items():
        getattr(estimator, attribute).save(beside / place)
    if hasattr(estimator, "coverage_"):
        estimator.coverage_.write(beside)
    path = beside / CONFIG_FILE
    config = read_json(path) if "" in places.values() else {}
    params = {key: _plain(value) for key, value in estimator.get_params(deep=False).items()}
    facts: dict[str, Any] = {
        "name": type(estimator).__name__,
        "files": {
            file.relative_to(beside).as_posix(): digest_of_file(file)
            for file in sorted(beside.rglob("*"))
            if file.is_file() and file != path
        },
        "params": params,
        "n_axes": estimator.n_axes_,
        "history": estimator.history_,
        "expected_activation": estimator.expected_activation_.tolist(),
        "n_alive": estimator.n_alive_,
        "feature_names": estimator.feature_names_,
    }
    if estimator.renamed_before_:
        facts["renamed_before"] = {str(n): name for n, name in estimator.renamed_before_.items()}
    if hasattr(estimator, "feature_names_in_"):
        facts["feature_names_in"] = estimator.feature_names_in_.tolist()
    write_json(path, {**config, ESTIMATOR: facts})
    for file in (*facts["files"], CONFIG_FILE):
        (folder / file).parent.mkdir(exist_ok=True)
        (beside / file).replace(folder / file)
    shutil.rmtree(beside)


def read_fitted(folder: Path, kind: type[Any]) -> Any:  # noqa: ANN401
    """The estimator of this class that was written to the folder."""
    path = folder / CONFIG_FILE
    if not path.exists():
        raise FileNotFoundError(f"no estimator in {folder}: {CONFIG_FILE} is missing")
    config = read_json(path)
    facts = config.get(ESTIMATOR) if isinstance(config, dict) else None
    if not isinstance(facts, dict) or facts.get("name") != kind.__name__:
        raise ValueError(
            f"{path} does not describe a fitted {kind.__name__} but {content(config)}; "
            + _way_to_load(content(config), kind.__name__)
        )
    try:
        return _from_facts(folder, facts, kind)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(
            f"{path} does not describe a whole {kind.__name__} ({error}); copy the folder again, "
            "or fit again"
        ) from error


def _from_facts(folder: Path, facts: dict[str, Any], kind: type[Any]) -> Any:  # noqa: ANN401
    known = _file_names(kind)
    for name, digest in facts.get("files", {}).items():
        if name not in known:
            raise ValueError(
                f"{folder / CONFIG_FILE} names the file {name!r}, which {kind.__name__}.save never "
                f"writes (only {', '.join(known)}); do not trust this folder"
            )
        _check_file(folder / name, digest)
    estimator = kind(**facts["params"])
    places = kind._encoder_folders
    for (attribute, place), n_axes in zip(places.items(), _each(facts["n_axes"]), strict=True):
        setattr(estimator, attribute, _read_encoder(folder / place, n_axes))
    (estimator.n_features_in_,) = getattr(estimator, next(iter(places))).sample_shape
    if "threshold" in facts:  # 0.1 kept it here, and not with the encoder
        estimator.threshold_ = facts["threshold"]
    estimator.max_active_ = getattr(estimator, next(iter(places))).settings.max_active
    estimator._limit_active()
    n_features = getattr(estimator, next(iter(places))).n_features
    _check_facts(facts, n_features, folder / CONFIG_FILE)
    estimator.history_ = facts["history"]
    estimator.expected_activation_ = np.array(facts["expected_activation"])
    estimator.n_alive_ = facts["n_alive"]
    estimator.feature_names_ = facts["feature_names"]
    renamed = facts.get("renamed_before", {})
    estimator.renamed_before_ = {int(number): name for number, name in renamed.items()}
    if COVERAGE_FILE in facts.get("files", {}):
        estimator.coverage_ = Coverage.read(folder)
    if "feature_names_in" in facts:
        estimator.feature_names_in_ = np.array(facts["feature_names_in"], dtype=object)
    return estimator


def _plain(value: object) -> Any:  # noqa: ANN401
    """A setting as JSON can hold it; the state of a random generator is not kept."""
    if isinstance(value, np.generic):
        return value.item()
    return None if isinstance(value, np.random.RandomState) else value


def _check_facts(facts: dict[str, Any], n_features: int, path: Path) -> None:
    """Raise for the first fact that is not what ``write_fitted`` writes."""
    names, renamed, history = (facts.get(k) for k in ("feature_names", "renamed_before", "history"))
    activation = facts["expected_activation"]
    is_right = {
        "expected_activation": _are(activation, float, int) and len(activation) == n_features,
        "feature_names": names is None or (_are(names, str) and len(names) in (0, n_features)),
        "n_alive": _are([facts["n_alive"]], int) and 0 <= facts["n_alive"] <= n_features,
        "history": _are(history, dict) and history and all("step" in each for each in history),
        "renamed_before": renamed is None
        or (isinstance(renamed, dict) and _are(list(renamed.values()), str)),
    }
    wrong = [name for name, is_so in is_right.items() if not is_so]
    if wrong:
        raise ValueError(
            f"{path} has no such {wrong[0]} as a save writes for {n_features} features; copy the "
            "folder again, or fit again"
        )


def _are(values: Any, *kinds: type) -> bool:  # noqa: ANN401
    """Whether it is a list of values of these kinds."""
    return isinstance(values, list) and all(
        isinstance(value, kinds) and not isinstance(value, bool) for value in values
    )


def _file_names(kind: type[Any]) -> tuple[str, ...]:
    """The files that are written for an estimator of this class, beside its own."""
    places = [
        Path(place) / file for place in kind._encoder_folders.values() for file in _ENCODER_FILES
    ]
    return (*(place.as_posix() for place in places), COVERAGE_FILE)


def _check_file(path: Path, digest: str) -> None:
    if path.exists() and digest_of_file(path) != digest:
        raise ValueError(
            f"{path} is not the file that the estimator was saved with: a later save was "
            "interrupted, files of two were mixed, or it is damaged; save the estimator again"
        )


def _way_to_load(there: str, name: str) -> str:
    if there == "an encoder":
        return "load it with nonneg.Encoder.load"
    if there in ("a fitted NCL", "a fitted CrossNCL"):
        return f"load it with nonneg.{there.split()[-1]}.load"
    return f"give a folder that {name}.save has written"


def _each(value: Any) -> list[Any]:  # noqa: ANN401
    return value if isinstance(value, list) else [value]


def _read_encoder(folder: Path, n_axes: int) -> Encoder:
    path = folder / CONFIG_FILE
    if not path.exists():
        raise FileNotFoundError(f"a part of the estimator is missing: there is no {path}")
    shape = read_json(path)["sample_shape"]
    if not (isinstance(shape, list) and len(shape) == 1 and isinstance(shape[0], int)):
        raise ValueError(f"{path} has the sample_shape {shape!r}, not the length of a vector")
    weights, n_columns = folder / WEIGHTS_FILE, shape[0]
    # Its matrix has at least a byte for each number; memory is taken only after this.
    if not (isinstance(n_axes, int) and 0 < n_columns * n_axes <= weights.stat().st_size):
        raise ValueError(
            f"{weights} holds other weights than those of {n_axes!r} axes in {n_columns} columns, "
            f"of which {path} tells; copy the folder again"
        )
    # Building an encoder draws weights, which are then overwritten: leave torch's state alone.
    with torch.random.fork_rng(devices=[]):
        return Encoder.load(folder, backbone=Projection(n_columns, n_axes))


@torch.no_grad()
def features_of(
    encoder: Encoder,
    X: Any,  # noqa: ANN401
    *,
    device: torch.device,
    sparse_output: bool = False,
) -> NDArray[np.float32] | sparse.csr_array:
    """The features of vectors, float32 ``(n, n_features)``.

    Args:
        encoder: On the CPU; it works on ``device`` in evaluation mode, and both are put back.
        X: ``(n, d)``, an array, a memory map or SciPy CSR.
        device: Where to compute.
        sparse_output: Whether to give a CSR array; the dense matrix is then never held whole.
    """
    n_features = encoder.n_features
    parts: list[sparse.csr_array] = []
    dense = np.empty((0 if sparse_output else X.shape[0], n_features), dtype=np.float32)
    with evaluating_on(encoder, device):
        for rows, part in tiles(X, width=n_features):
            features = encoder(part.to(device)).features.cpu().numpy()
            if sparse_output:
                parts.append(sparse.csr_array(features))
            else:
                dense[rows] = features
    return sparse.vstack(parts, format="csr") if sparse_output else dense


class FittedFeatures(
    CuratedFeatures,
    Shareable,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A scikit-learn transformer made of encoders: what follows from what ``fit`` leaves behind."""

    _encoder_folders: ClassVar[dict[str, str]]
    """The attributes that are encoders, each with its place in a saved folder; X's first."""
    max_active: int | str | None
    max_active_: int | None
    """The limit that ``max_active="auto"`` stands for."""
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
        same features. A ``random_state`` that is a generator is saved as None.

        Raises:
            FileExistsError: The folder holds something else, such as a training run; an earlier
                save of the same class is replaced.
        """
        check_is_fitted(self)
        self._limit_active()
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

    def _limit_active(self) -> None:
        """Give the encoders the present ``max_active``, which may change after the fit."""
        limit = self.max_active_ if self.max_active == "auto" else self.max_active
        limit = None if limit is None else int(limit)
        for attribute in self._encoder_folders:
            encoder: Encoder = getattr(self, attribute)
            if encoder.settings.max_active != limit:
                encoder.thin(threshold=encoder.settings.threshold, max_active=limit)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ANN401
        """Names of the features as ``describe`` gave them; ``ncl7`` for those without one.

        Args:
            input_features: As in scikit-learn; it does not matter.

        Returns:
            Distinct names ``(n_components,)``; of equal ones the second is ``red (2)``.
        """
        numbered = super().get_feature_names_out(input_features)
        names = getattr(self, "feature_names_", None) or [""] * len(numbered)
        own = [name or number for name, number in zip(names, numbered, strict=True)]
        return np.array(distinct_names(own), dtype=object)

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
