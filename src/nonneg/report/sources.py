"""From paths to an atlas: runs or files of features, with what is beside them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg.data.feature_file import FeatureArray
from nonneg.metrics.inputs import FeatureLike
from nonneg.report.atlas import Atlas, Story
from nonneg.report.of_run import RunSource, headline_figures, selection_points
from nonneg.report.user_files import PartOf, features_of_file, samples_of_file, with_extras
from nonneg.settings import differences


@dataclass(frozen=True, kw_only=True)
class Extras:
    """Files that say more of the samples than a run or a file of features does."""

    texts: Path | None = None
    labels: Path | None = None
    class_names: Path | None = None
    images: Path | None = None
    ids: Path | None = None
    reference: Path | None = None
    captions: Path | None = None
    caption_of: Path | None = None


@dataclass(frozen=True, kw_only=True)
class RunData:
    """Which samples runs are shown on."""

    split: str = "test"
    source: str | None = None
    data_dir: Path | None = None

    def of(self, folder: Path) -> RunSource:
        """The run of a folder on these samples."""
        if self.split not in ("test", "train", "held-out"):
            raise ValueError(f"unknown split {self.split!r}; known: test, train, held-out")
        return RunSource.read(folder, split=self.split, source=self.source, data_dir=self.data_dir)


def atlas_of(
    source: Path,
    *,
    against: Path | None = None,
    other_seed: Path | None = None,
    extras: Extras,
    data: RunData,
    title: str | None = None,
) -> Atlas:
    """The atlas of a run folder, or of a file of features.

    Args:
        source: A folder means a run.
        against: Another method on the same samples.
        other_seed: Another run of the same method on the same samples.
        extras: What files add.
        data: On what runs are shown.
        title: Of the page; None means one that says what is shown.
    """
    # Opened first: encoding takes long, and a folder that holds no run should fail before it.
    returning = None if other_seed is None else _opened(other_seed, data)
    part, main = None, None
    if source.is_dir():
        main = data.of(source)
        atlas, part = _of_run(main, against, data), main.part
    else:
        kind = "image" if extras.captions and extras.images else "sample"
        atlas = _of_file(source, against, data, kind)
    if other_seed is not None and returning is not None:
        about = [*atlas.story.about, f"Partners in another seed are from {other_seed.name}."]
        features = returning.features if isinstance(returning, RunSource) else returning
        note = _no_other_seed(main, returning, atlas.samples.n_features, features.shape[1])
        notes = [*atlas.story.notes, *([] if note is None else [f"{other_seed} {note}"])]
        story = replace(atlas.story, about=about, notes=notes)
        atlas = replace(atlas, other_seed=features, story=story)
    atlas = _with_extras(atlas, extras, part)
    return atlas if title is None else replace(atlas, title=title)


def _of_run(main: RunSource, against: Path | None, data: RunData) -> Atlas:
    figures, why_not = main.evaluation()
    sources, notes = [main], [why_not]
    by_method = {main.method: headline_figures(figures)}
    beside: dict[str, Any] = {}
    if against is not None:
        other, more = _beside(main, against, data)
        beside = {
            "against": other.features,
            "against_method": more,
            "against_sepin": other.sepin(),
        }
        sources.insert(0, other)
        found, why_not = other.evaluation()
        by_method[more] = headline_figures(found)
        notes += [why_not, _differing(main, other)]
    names = [beside["against_method"], main.method] if beside else [main.method]
    histories = {
        name: history
        for name, source in zip(names, sources, strict=True)
        if (history := source.training()) is not None
    }
    title = f"{main.data.name}: {' beside '.join(reversed(names))}"
    return Atlas(
        samples=main.samples(),
        title=title,
        method=main.method,
        sepin=main.sepin(),
        reference=main.reference(),
        story=Story(
            about=[
                *(source.about() for source in reversed(sources)),
                f"Shown: {len(main.data):,} {main.split} samples of {main.data.name}"
                + (", numbered by their rows there, from 0." if main.part else "."),
            ],
            figures=by_method,
            selection=selection_points(figures),
            training=histories,
            notes=[note for note in notes if note],
        ),
        **beside,
    )


def _beside(main: RunSource, path: Path, data: RunData) -> tuple[RunSource, str]:
    """The other run, checked to be on the same samples, and a name that tells it apart."""
    if not path.is_dir():
        raise ValueError(f"{path} is no run folder; give two runs, or two files of features")
    other = data.of(path)
    if (other.data.name, len(other.data)) != (main.data.name, len(main.data)):
        raise ValueError(
            f"{path} is on {other.data.name} ({len(other.data)} samples), {main.run.folder} on "
            f"{main.data.name} ({len(main.data)}); side by side they need the same samples"
        )
    same = other.method == main.method
    return other, f"{other.method} (other)" if same else other.method


def _differing(main: RunSource, other: RunSource) -> str | None:
    """What else differs between two runs that should differ by the transform only."""
    found = [
        key
        for key, _, _ in differences(main.run.recipe(), other.run.recipe())
        if key != "encoder.nonnegative"
    ]
    if not found:
        return None
    return f"The two runs differ by more than the transform: {', '.join(found)}."


def _no_other_seed(
    main: RunSource | None, other: RunSource | FeatureArray, d: int, d_other: int
) -> str | None:
    """What else differs where only the seed should; None where nothing is known to."""
    if main is not None and isinstance(other, RunSource):
        found = [key for key, _, _ in differences(main.run.recipe(), other.run.recipe())]
        return f"is not only another seed; it differs by {', '.join(found)}." if found else None
    if d != d_other:
        return f"is not only another seed: it has {d_other:,} features, not {d:,}."
    return None


def _of_file(path: Path, against: Path | None, data: RunData, kind: str) -> Atlas:
    beside: dict[str, Any] = {}
    if against is not None:
        method = path.stem if path.stem != against.stem else str(path)
        other = against.stem if path.stem != against.stem else str(against)
        beside = {
            "method": method,
            "against": _features(against, data),
            "against_method": other,
        }
    samples = replace(samples_of_file(path), kind=kind)
    about = f"{len(samples):,} {kind}s × {samples.n_features:,} features of {path.name}."
    return Atlas(samples=samples, title=path.stem, story=Story(about=[about]), **beside)


def _opened(path: Path, data: RunData) -> RunSource | FeatureArray:
    """A run folder, whose samples are not encoded yet, or the features of a file."""
    return data.of(path) if path.is_dir() else features_of_file(path)[0]


def _features(path: Path, data: RunData) -> FeatureLike:
    """The features of a run folder or of a file."""
    opened = _opened(path, data)
    return opened.features if isinstance(opened, RunSource) else opened


def _with_extras(atlas: Atlas, extras: Extras, part: PartOf | None) -> Atlas:
    """The atlas with what files add; with captions, texts are theirs."""
    changed: dict[str, Any] = {}
    if extras.captions is not None:
        changed = _captions(atlas, extras.captions, extras)
    elif extras.caption_of is not None:
        raise ValueError("--caption-of says whose the captions are; give them with --captions")
    changed["samples"] = with_extras(
        atlas.samples,
        texts=None if extras.captions else extras.texts,
        labels=extras.labels,
        class_names=extras.class_names,
        images=extras.images,
        ids=extras.ids,
        part=part,
    )
    if extras.reference is not None:
        changed["reference"] = features_of_file(extras.reference)[0]
    return replace(atlas, **changed)


def _captions(atlas: Atlas, path: Path, extras: Extras) -> dict[str, Any]:
    """Captions with their texts, and whose they are."""
    features, beside = features_of_file(path)
    if extras.texts is None:
        raise ValueError(f"--captions {path} needs the captions themselves; give --texts FILE")
    of: NDArray[Any] | None = beside.get("caption_of")
    if extras.caption_of is not None:
        of = np.asarray(features_of_file(extras.caption_of)[0])
    about = [*atlas.story.about, f"{features.shape[0]:,} captions of {path.name}."]
    if of is None and features.shape[0] == len(atlas.samples):
        of = np.arange(len(atlas.samples))
        about.append("Caption i is taken to belong to sample i.")
    captions = replace(samples_of_file(path), kind="caption", labels=None)
    captions = with_extras(
        captions, texts=extras.texts, labels=None, class_names=None, images=None, ids=None
    )
    return {
        "title": f"{atlas.title} and {path.stem}",
        "captions": captions,
        "caption_of": of,
        "story": replace(atlas.story, about=about),
    }
