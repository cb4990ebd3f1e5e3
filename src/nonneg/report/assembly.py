"""The atlas in one call: of a run, of a file of features, or of features in memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nonneg.io import check_output
from nonneg.metrics.figures import Figures
from nonneg.metrics.inputs import FeatureLike
from nonneg.metrics.results import IntArray
from nonneg.report.atlas_data import Atlas, RunInfo
from nonneg.report.headline import LABEL_KEYS, has_readability
from nonneg.report.run_source import RunSource, headline_figures, selection_points
from nonneg.report.user_files import (
    Dates,
    Extras,
    FeatureSet,
    FeatureSource,
    Labels,
    PartOf,
    Pictures,
    Texts,
    path_of,
    text_list,
    with_extras,
)
from nonneg.report.writing import MAX_SAMPLES, WrittenAtlas, write_atlas
from nonneg.settings import differences

_SPLITS = ("test", "train", "held-out", "all")


def atlas(
    run_or_features: FeatureSource,
    *,
    out: str | Path | None = None,
    against: FeatureSource | None = None,
    other_seed: FeatureSource | None = None,
    split: str | None = None,
    data: str | Path | None = None,
    data_dir: str | Path | None = None,
    texts: Texts | None = None,
    labels: Labels | None = None,
    class_names: Texts | None = None,
    images: Pictures | None = None,
    ids: str | Path | Sequence[Any] | None = None,
    dates: Dates | None = None,
    names: Texts | None = None,
    reference: FeatureSource | None = None,
    captions: FeatureSource | None = None,
    caption_of: str | Path | Sequence[int] | IntArray | None = None,
    title: str | None = None,
    max_samples: int = MAX_SAMPLES,
    figures: str | Path | None = None,
    watch: Callable[[str], None] = lambda _: None,
) -> WrittenAtlas:
    """Write the atlas, one HTML file that opens offline, of a run or of features.

    ``nonneg report`` is this call. Wherever a file can be given, the values themselves can be
    given too. What cannot be shown is left out, and ``notes`` of the result and the page say why.

    Args:
        run_or_features: A run folder; a file of features, npz or npy; or features ``(n, d)``,
            dense or sparse.
        out: The HTML file; left out, ``atlas.html`` in the run folder or ``Z.html`` beside
            ``Z.npz``. Features in memory need it.
        against: Another method on the same samples, side by side.
        other_seed: The same method with another seed, to show which features return.
        split: The part of a run's data that is shown: ``"test"``, ``"train"``, ``"held-out"``, or
            of fitted runs ``"all"``; left out, all of a run on texts, else ``"test"``.
        data: Other data of a run: a file of samples, or the name of a set.
        data_dir: Where data sets lie.
        texts: One per sample; with captions, one per caption.
        labels: One per sample, class numbers or words.
        class_names: Of class 0, 1, …
        images: One per sample, ``(n, h, w)``, ``(n, c, h, w)`` or ``(n, h, w, c)`` of bytes.
        ids: One per sample, to find it again elsewhere.
        dates: One per sample, to show how features come and go; empty where one is not known.
        names: One per feature, in place of those that texts and labels suggest.
        reference: An embedding ``(n, width)`` that is trusted to tell which samples are alike.
        captions: Features ``(m, d)`` of captions of the samples.
        caption_of: For each caption the number of its sample ``(m,)``.
        title: Of the page; left out, one that says what is shown.
        max_samples: A random draw of so many is shown when there are more; figures are of all.
        figures: A folder for figures for a paper; left out, none are drawn.
        watch: Told what is being done.

    Raises:
        ValueError: If parts do not fit together, or ``out`` would replace what is read.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     found = atlas(np.eye(3), texts=["tea", "ale", "gin"], out=f"{folder}/a.html")
        >>> found.path.name, found.n_shown
        ('a.html', 3)
    """
    extras = Extras(
        texts=texts,
        labels=labels,
        class_names=class_names,
        images=images,
        ids=ids,
        dates=dates,
        reference=reference,
        captions=captions,
        caption_of=caption_of,
    )
    path = _place(run_or_features, out)
    read = [run_or_features, against, other_seed, names, *vars(extras).values()]
    check_output(path, ".html", read=[path_of(value) for value in read])
    watch("reading")
    source = None if data is None else str(data)
    found = atlas_of(
        run_or_features,
        against=against,
        other_seed=other_seed,
        extras=extras,
        data=RunData(split, source, data_dir),
        names=names,
        title=title,
    )
    watch("measuring")
    written = write_atlas(path, found, max_samples=max_samples)
    if figures is None:
        return written
    # Imported on use: matplotlib is slow.
    from nonneg.report.figures import write_figures

    watch("drawing")
    return replace(written, figures=tuple(write_figures(figures, found)))


def _place(source: FeatureSource, out: str | Path | None) -> Path:
    if out is not None:
        return Path(out)
    path = path_of(source)
    if path is None:
        raise ValueError("features in memory have no place of their own; give out, such as a.html")
    return path / "atlas.html" if path.is_dir() else path.with_suffix(".html")


@dataclass(frozen=True)
class RunData:
    """The samples that runs are shown on.

    Args:
        split: Of their data; None for all of a run on texts, and for the test set of others.
        source: Other data, a file of samples or the name of a set; None for their own.
        data_dir: Where data sets lie.
    """

    split: str | None = None
    source: str | None = None
    data_dir: str | Path | None = None

    def of(self, folder: Path) -> RunSource:
        """The run of a folder on these samples."""
        if self.split not in (None, *_SPLITS):
            raise ValueError(f"unknown split {self.split!r}; known: {', '.join(_SPLITS)}")
        return RunSource.read(folder, split=self.split, source=self.source, data_dir=self.data_dir)


def atlas_of(
    source: FeatureSource,
    *,
    against: FeatureSource | None = None,
    other_seed: FeatureSource | None = None,
    extras: Extras | None = None,
    data: RunData | None = None,
    names: Texts | None = None,
    title: str | None = None,
) -> Atlas:
    """What the atlas of a run or of features holds, before anything is measured or written.

    Args:
        source: As in :func:`atlas`, like all that follows.
        against: Another method on the same samples.
        other_seed: Another run of the same method on the same samples.
        extras: What else is known of the samples.
        data: The samples that runs are shown on.
        names: One per feature.
        title: Of the page; None means one that says what is shown.
    """
    extras, data = extras or Extras(), data or RunData()
    # Opened first: encoding takes long, and a folder that holds no run should fail before it.
    returning = None if other_seed is None else _opened(other_seed, data)
    folder = _run_folder(source)
    if folder is not None:
        main: RunSource | FeatureSet = data.of(folder)
        assert isinstance(main, RunSource)
        found, part = _of_run(main, against, data), main.part
    else:
        kind = "image" if extras.captions is not None and extras.images is not None else "sample"
        main, part = FeatureSet.of(source), None
        found = _of_features(main, against, data, kind)
    if returning is not None:
        found = _with_other_seed(found, main, returning)
    found = _with_extras(found, extras, part)
    changed: dict[str, Any] = {} if title is None else {"title": title}
    if names is not None:
        changed["names"] = text_list(names)
    return replace(found, **changed)


def _of_run(main: RunSource, against: FeatureSource | None, data: RunData) -> Atlas:
    figures, why_not = main.evaluation()
    sources, notes = [main], [why_not]
    known = {main.method: headline_figures(figures)}
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
        known[more] = headline_figures(found)
        notes += [why_not, _differing(main, other)]
    names = [beside["against_method"], main.method] if beside else [main.method]
    histories = {
        name: history
        for name, source in zip(names, sources, strict=True)
        if (history := source.training()) is not None
    }
    samples = main.samples()
    notes += [_measured_here(*one, has_labels=samples.labels is not None) for one in known.items()]
    return Atlas(
        samples=samples,
        title=f"{main.data.name}: {' beside '.join(reversed(names))}",
        method=main.method,
        sepin=main.sepin(),
        names=main.feature_names,
        reference=main.reference(),
        run_info=RunInfo(
            about=[
                *(source.about() for source in reversed(sources)),
                f"Shown: {_shown(main)} of {main.data.name}"
                + (", numbered by their rows there, from 0." if main.part else "."),
            ],
            figures=known,
            selection=selection_points(figures),
            training=histories,
            notes=[note for note in notes if note],
        ),
        **beside,
    )


def _shown(main: RunSource) -> str:
    """How many samples of which kind."""
    n = f"{len(main.data):,}"
    if main.split != "all":
        return f"{n} {main.split} samples"
    return f"all {n} samples" if main.part is None else f"{n} drawn samples"


def _measured_here(method: str, known: Figures, *, has_labels: bool) -> str | None:
    """Whether the page had to measure readability because no evaluation has it."""
    if has_readability(known, with_classes=has_labels):
        return None
    return f"Readability of {method} is not from an evaluation: it was measured for this page."


def _beside(main: RunSource, against: FeatureSource, data: RunData) -> tuple[RunSource, str]:
    """The other run, checked to be on the same samples, and a distinct name."""
    folder = _run_folder(against)
    if folder is None:
        who = path_of(against) or "against"
        raise ValueError(f"{who} is no run folder; give two runs, or features of both")
    other = data.of(folder)
    if (other.data.name, len(other.data)) != (main.data.name, len(main.data)):
        raise ValueError(
            f"{folder} is on {other.data.name} ({len(other.data)} samples), {main.run.folder} on "
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


def _with_other_seed(
    found: Atlas, main: RunSource | FeatureSet, other: RunSource | FeatureSet
) -> Atlas:
    """The atlas with the features of another seed; a note says what else differs."""
    path = other.run.folder if isinstance(other, RunSource) else other.path
    about, notes = list(found.run_info.about), list(found.run_info.notes)
    if path is not None:
        about.append(f"Partners in another seed are from {path.name}.")
    note = _not_only_another_seed(main, other)
    if note is not None:
        notes.append(f"{path or 'other_seed'} is not only another seed{note}")
    run_info = replace(found.run_info, about=about, notes=notes)
    return replace(found, other_seed=other.features, run_info=run_info)


def _not_only_another_seed(
    main: RunSource | FeatureSet, other: RunSource | FeatureSet
) -> str | None:
    """What differs besides the seed; None where nothing is known to."""
    if isinstance(main, RunSource) and isinstance(other, RunSource):
        found = [key for key, _, _ in differences(main.run.recipe(), other.run.recipe())]
        return f"; it differs by {', '.join(found)}." if found else None
    d, d_other = main.features.shape[1], other.features.shape[1]
    return None if d == d_other else f": it has {d_other:,} features, not {d:,}."


def _of_features(
    main: FeatureSet, against: FeatureSource | None, data: RunData, kind: str
) -> Atlas:
    path = main.path
    beside: dict[str, Any] = {}
    if against is not None:
        opened = _opened(against, data)
        beside = {"against": opened.features}
        other = path_of(against)
        if path is not None and other is not None:
            same = path.stem == other.stem
            beside["method"] = str(path) if same else path.stem
            beside["against_method"] = str(other) if same else other.stem
    samples = main.samples(kind)
    about = f"{len(samples):,} {kind}s × {samples.n_features:,} features"
    if path is None:
        return Atlas(samples=samples, run_info=RunInfo(about=[f"{about}."]), **beside)
    run_info = RunInfo(about=[f"{about} of {path.name}."])
    return Atlas(samples=samples, title=path.stem, run_info=run_info, **beside)


def _run_folder(source: FeatureSource) -> Path | None:
    """The folder of a run; None for a file and for features in memory."""
    path = path_of(source)
    return path if path is not None and path.is_dir() else None


def _opened(source: FeatureSource, data: RunData) -> RunSource | FeatureSet:
    """A run, whose samples are not encoded yet, or features."""
    folder = _run_folder(source)
    return FeatureSet.of(source) if folder is None else data.of(folder)


def _with_extras(found: Atlas, extras: Extras, part: PartOf | None) -> Atlas:
    """The atlas with what else is known; with captions, texts are theirs."""
    changed: dict[str, Any] = {}
    of_samples = extras
    if extras.captions is not None:
        changed = _captions(found, extras.captions, extras)
        of_samples = replace(extras, texts=None)
    elif extras.caption_of is not None:
        raise ValueError("caption_of says whose the captions are; give captions too")
    changed["samples"] = with_extras(found.samples, of_samples, part)
    if extras.reference is not None:
        changed["reference"] = FeatureSet.of(extras.reference).features
    # An evaluation knows the run's own labels and reference only.
    stale = [*(LABEL_KEYS if extras.labels is not None else ())]
    stale += [] if extras.reference is None else ["monosemanticity"]
    run_info = changed.get("run_info", found.run_info)
    changed["run_info"] = replace(
        run_info,
        figures={
            method: {key: figure for key, figure in figures.items() if key not in stale}
            for method, figures in run_info.figures.items()
        },
    )
    return replace(found, **changed)


def _captions(found: Atlas, source: FeatureSource, extras: Extras) -> dict[str, Any]:
    """Captions with their texts, and whose they are."""
    captions = FeatureSet.of(source)
    path, n = captions.path, captions.features.shape[0]
    if extras.texts is None:
        raise ValueError(f"{path or 'captions'} has features of captions; give their texts too")
    of: FeatureLike | None = captions.beside.get("caption_of")
    if extras.caption_of is not None:
        of = FeatureSet.of(extras.caption_of).features
    about = [*found.run_info.about, f"{n:,} captions" + (f" of {path.name}." if path else ".")]
    if of is None and n == len(found.samples):
        of = np.arange(len(found.samples))
        about.append("Caption i is taken to belong to sample i.")
    samples = replace(captions.samples("caption"), labels=None)
    return {
        "captions": with_extras(samples, Extras(texts=extras.texts)),
        "caption_of": None if of is None else np.asarray(of),
        "run_info": replace(found.run_info, about=about),
        **({} if path is None else {"title": f"{found.title} and {path.stem}"}),
    }
