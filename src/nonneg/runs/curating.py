"""The curation of a fitted run: changes by a person, written into its folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nonneg.runs.fitting import FEATURES_FILE, write_features_table
from nonneg.runs.record import RunRecord, is_fitted, read_run
from nonneg.training.run_folder import locked

if TYPE_CHECKING:
    from nonneg.estimators.ncl import NCL


@dataclass(frozen=True)
class CuratedRun:
    """What is changed about the features of a run.

    Args:
        lines: Number, name and change of each changed feature, by number.
        is_changed: Whether anything was written.
        note: What became of the table of features; None where there is none to renew.
    """

    lines: tuple[tuple[int, str, str], ...]
    is_changed: bool
    note: str | None = None


def curate_run(
    folder: str | Path, changes: str | Path | None = None, *, undo: bool = False
) -> CuratedRun:
    """Apply changes to the features of a fitted run; all of them or none.

    ``features.csv`` of a run on texts is written again, where it is there and the texts still are.

    Args:
        folder: Of ``nonneg fit``.
        changes: A JSON file, see :meth:`nonneg.NCL.curate`; None changes nothing.
        undo: Whether to undo all earlier changes first.

    Raises:
        ValueError: The run has no features that can be curated, or the changes do not fit it.
        BlockingIOError: Another process is writing to the folder.
    """
    from nonneg.estimators.ncl import NCL

    run = read_run(folder)
    if not is_fitted(run.folder):
        raise ValueError(
            f"{run.folder} was trained, not fitted; only features of nonneg fit can be renamed, "
            "merged or hidden"
        )
    with locked(run.folder):
        ncl = NCL.load(run.folder)
        before = (ncl.curation_, list(ncl.feature_names_))
        if undo:
            ncl.restore()
        if changes is not None:
            ncl.curate(Path(changes))
        is_changed = (ncl.curation_, list(ncl.feature_names_)) != before
        if is_changed:
            ncl.save(run.folder)
        note = _renew_table(run, ncl) if is_changed else None
    return CuratedRun(_lines(ncl), is_changed, note)


def _renew_table(run: RunRecord, ncl: "NCL") -> str | None:
    """Write the table of features again; what to say of it."""
    path = run.folder / FEATURES_FILE
    if not path.exists() or run.fit is None or run.fit.data.texts is None:
        return None
    try:
        write_features_table(run.folder, ncl)
    except (OSError, ValueError, ImportError) as error:
        # The changes are saved: a file of texts that is gone does not undo them.
        return f"{path} still has the features of before: {error}"
    return f"all features, written again: {path}"


def _lines(ncl: "NCL") -> tuple[tuple[int, str, str], ...]:
    names = ncl.feature_names_ or [""] * len(ncl.expected_activation_)
    said: dict[int, list[str]] = {}
    for number, name in ncl.renamed_before_.items():
        said.setdefault(number, []).append(f"was {name}" if name else "had no name")
    for first, *others in ncl.curation_.merged:
        said.setdefault(first, []).append(f"with {', '.join(str(n) for n in others)}")
    for number in ncl.curation_.hidden:
        said.setdefault(number, []).append("hidden")
    return tuple((number, names[number], "; ".join(said[number])) for number in sorted(said))
