"""What is a fit of vectors, as settings? Where they lie, what belongs together, and how to fit."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, JsonValue

from nonneg.data.arrays import check_is_file
from nonneg.data.vectors import KINDS
from nonneg.io import digest_of_file
from nonneg.settings import Settings, with_overrides

# Arguments of the estimator that do not change what it learns.
_MACHINE = ("device", "sparse_output", "verbose")
_FILES = {
    "vectors": KINDS,
    "labels": ".npy or text",
    "test": KINDS,
    "test_labels": ".npy or text",
    "graph": ".npz",
    "index_pairs": ".npy",
}


class VectorFiles(Settings):
    """Where the data of a fitted run lies, as whole paths."""

    vectors: str
    """What is learnt from."""
    column: str | None = None
    """The array or column that holds the vectors; found where absent."""
    labels: str | None = None
    """One a vector, where the file of vectors has none beside."""
    test: str | None = None
    """Vectors to measure on; where absent, a share of the others is kept out for it."""
    test_labels: str | None = None
    """Those of the test vectors."""
    test_share: float = Field(default=0.1, ge=0, lt=1)
    """How large that share is."""
    graph: str | None = None
    """Which samples belong together, as a sparse matrix."""
    index_pairs: str | None = None
    """Which samples belong together, as pairs of their numbers."""
    digests: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of each file, so that a run never speaks of other data than its own."""

    @classmethod
    def at(cls, **given: Any) -> Self:  # noqa: ANN401
        """The files of a command line: paths made whole, digests taken.

        Raises:
            OSError: One of them is not there, or a folder.
        """
        paths = {key: _whole(given[key], key) for key in _FILES if given.get(key) is not None}
        files = cls.read({**given, **{key: str(path) for key, path in paths.items()}})
        digests = {key: digest_of_file(path) for key, path in paths.items()}
        return files.model_copy(update={"digests": digests})

    def check_unchanged(self) -> None:
        """Raise a sentence for the first file that is gone or is not what it was."""
        for key, digest in self.digests.items():
            path = _whole(getattr(self, key), key)
            if digest_of_file(path) != digest:
                raise ValueError(
                    f"{path} has changed since the run was fitted to it; fit again, or name other "
                    "data with --data"
                )


class VectorExperiment(Settings):
    """All settings of a fitted run. What it shares with trained runs has the same names there."""

    task: Literal["fit"] = "fit"
    """What tells it from trained runs."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Of the fit."""
    data: VectorFiles
    encoder: dict[str, JsonValue]
    """Only ``nonnegative``: ``identity`` is ordinary contrastive learning."""
    loss: dict[str, JsonValue]
    """Name and temperature."""
    ncl: dict[str, JsonValue]
    """The other arguments of :class:`nonneg.NCL`."""

    @property
    def estimator_arguments(self) -> dict[str, Any]:
        """What :class:`nonneg.NCL` is made with."""
        return {
            **self.ncl,
            "nonnegative": self.encoder["nonnegative"],
            "temperature": self.loss["temperature"],
            "random_state": self.seed,
        }


def vector_experiment(
    files: VectorFiles, assignments: Iterable[str] = ()
) -> tuple[VectorExperiment, dict[str, Any]]:
    """The experiment of some files and ``key=value`` settings, and the settings of the machine.

    Keys are the arguments of :class:`nonneg.NCL`, with ``seed`` for ``random_state``. Without
    ``pairs``, a graph or index pairs are used where they are given, and neighbours otherwise.

    Args:
        files: Where the data lies.
        assignments: Such as ``["temperature=0.2", "seed=1"]``.

    Raises:
        ValueError: For an unknown key, with the nearest known one, or a value out of range.
    """
    # Imported on use: scikit-learn takes a third of the time of all imports.
    from nonneg.estimators import NCL
    from nonneg.estimators.parameters import NCLSettings

    class FitSettings(NCLSettings):
        seed: int = Field(ge=0, lt=2**31)

    default: dict[str, Any] = NCL().get_params() | {"seed": 0}
    default["pairs"] = "graph" if files.graph else "index" if files.index_pairs else "neighbors"
    del default["random_state"]
    values = with_overrides(default, assignments)
    if "random_state" in values:
        raise ValueError("random_state is called seed here; set seed to a whole number from 0 on")
    settings = FitSettings.read(values).model_dump(mode="json")
    seed = settings.pop("seed")
    machine = {key: settings.pop(key) for key in _MACHINE}
    experiment = VectorExperiment(
        seed=seed,
        data=files,
        encoder={"nonnegative": settings.pop("nonnegative")},
        loss={"name": "info_nce", "temperature": settings.pop("temperature")},
        ncl=settings,
    )
    return experiment, machine


def _whole(path: str | Path, key: str) -> Path:
    given = Path(path).expanduser()
    check_is_file(given, _FILES[key])
    return given.resolve()
