"""How is an atlas written? Measured, packed and put into one HTML file that opens offline."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nonneg import io as files
from nonneg import metrics
from nonneg.evaluation.figure import Figure, Figures
from nonneg.metrics.results import IntArray
from nonneg.report import contents
from nonneg.report.atlas import Atlas
from nonneg.report.feature_facts import MIN_ACTIVE, FeatureFacts, feature_facts
from nonneg.report.headline import as_table, headline
from nonneg.report.names import class_mixes, names_by_class, names_by_words
from nonneg.report.notes import notes
from nonneg.report.packing import packed
from nonneg.report.page import page
from nonneg.report.samples import Samples, drawn
from nonneg.report.spoken import Spoken

MAX_SAMPLES = 10_000


@dataclass(frozen=True)
class WrittenAtlas:
    """What was written.

    Args:
        path: Where.
        n_bytes: Size of the file.
        n_shown: Samples that the page holds.
        notes: What it leaves out, and why.
    """

    path: Path
    n_bytes: int
    n_shown: int
    notes: tuple[str, ...]


def write_atlas(
    path: str | Path, atlas: Atlas, *, max_samples: int = MAX_SAMPLES, seed: int = 0
) -> WrittenAtlas:
    """Write an atlas as one HTML file that needs nothing else.

    Samples with NaN or infinite features are left out; the page counts them.

    Args:
        path: Where; an old file is replaced only when the new one is whole.
        atlas: What to show.
        max_samples: A random draw of so many is shown when there are more; statistics are from
            all.
        seed: Of that draw.
    """
    if max_samples < 1:
        raise ValueError(f"max_samples is {max_samples}; show at least one sample")
    content = atlas_content(atlas.finite(), max_samples=max_samples, seed=seed)
    html = page(atlas.title, content).encode()
    files.write_bytes(Path(path), html)
    n_shown = int(content["sides"][0]["n"])
    return WrittenAtlas(Path(path), len(html), n_shown, tuple(content["notes"]))


def atlas_content(atlas: Atlas, *, max_samples: int, seed: int) -> dict[str, Any]:
    """What the page holds, as values that JSON can hold; all features must be finite."""
    samples, method = atlas.samples, atlas.method
    shown = drawn(len(samples), max_samples, seed)
    facts = feature_facts(samples.features, shown=shown, labels=samples.classes)
    rank = metrics.effective_rank(samples.features)
    own = headline(
        samples.features,
        samples.classes,
        reference=atlas.reference,
        sepin=atlas.sepin,
        rank=rank,
    )
    figures = {method: own}
    spoken = (
        None
        if atlas.captions is None
        else Spoken.of(atlas, shown, max_samples=max_samples, seed=seed)
    )
    content: dict[str, Any] = {
        "title": atlas.title,
        "method": method,
        "about": list(atlas.story.about),
        "n_features": samples.n_features,
        "n_samples": len(samples),
        "signed": facts.signed,
        "min_active": MIN_ACTIVE,
        "class_names": [] if samples.classes is None else list(samples.class_names),
        "sides": [contents.side(samples, shown)],
        "features": contents.feature_table(facts, _names(atlas, shown, facts, spoken)),
        "space": contents.space(samples.features, facts, rank, {method: atlas.story.selection}),
        "training": contents.training_charts(atlas.story.training),
        "sepin": contents.per_feature(atlas.sepin),
        "monosemanticity": None,
    }
    if atlas.reference is not None:
        alike = metrics.monosemanticity(samples.features, atlas.reference)
        content["monosemanticity"] = contents.per_feature(alike.per_feature)
    if atlas.against is not None:
        content["against"] = _against(atlas, shown)
        beside = headline(
            atlas.against,
            samples.classes,
            reference=atlas.reference,
            sepin=atlas.against_sepin,
        )
        figures = {atlas.against_method: beside} | figures
    if atlas.other_seed is not None:
        content["seed"], figures[method]["returned"] = _seed(atlas, shown)
    if spoken is not None:
        content["captions"] = spoken.table()
        content["sides"].append(contents.side(spoken.captions, spoken.shown, spoken.place))
        figures[method] |= spoken.figures(facts.n_active)
    content["figures"] = as_table(_joined(figures, atlas.story.figures), samples.kind)
    content["notes"] = [*atlas.story.notes, *notes(atlas, content)]
    return content


def _names(atlas: Atlas, shown: IntArray, facts: FeatureFacts, spoken: Spoken | None) -> list[str]:
    """Names by words where there are texts, else by classes, else none."""
    if spoken is not None and spoken.captions.texts is not None:
        texts = [spoken.captions.texts[i] for i in spoken.shown]
        top = spoken.facts.top
        if spoken.place is None:
            return names_by_words(top, texts)
        return names_by_words(top, texts, beside=facts.top, text_of=spoken.place)
    return _names_of(atlas.samples, shown, facts)


def _names_of(samples: Samples, shown: IntArray, facts: FeatureFacts) -> list[str]:
    by_class = _names_by_class(samples, shown, facts)
    if samples.texts is None:
        return by_class
    by_words = names_by_words(facts.top, [samples.texts[i] for i in shown])
    return [words or kind for words, kind in zip(by_words, by_class, strict=True)]


def _names_by_class(samples: Samples, shown: IntArray, facts: FeatureFacts) -> list[str]:
    if samples.classes is None:
        return [""] * len(facts.top)
    mixes = class_mixes(facts.top, samples.classes[shown])
    return names_by_class(mixes, samples.class_names)


def _against(atlas: Atlas, shown: IntArray) -> dict[str, Any]:
    assert atlas.against is not None
    samples = atlas.samples
    facts = feature_facts(atlas.against, shown=shown, labels=samples.classes)
    names = _names_of(samples, shown, facts)
    return {"method": atlas.against_method, **contents.top_table(facts, names)}


def _seed(atlas: Atlas, shown: IntArray) -> tuple[dict[str, Any], Figure]:
    """Each feature's partner in another run, and how many features return."""
    assert atlas.other_seed is not None
    match = metrics.match_features(atlas.samples.features, atlas.other_seed)
    facts = feature_facts(atlas.other_seed, shown=shown, n_top=8)
    beside = {"n_returned": match.n_returned, "mean_cosine": match.value}
    figure = Figure(match.return_rate, higher_is_better=True, is_rate=True, beside=beside)
    return {
        "partner": packed(match.partner, "int32"),
        "cosine": packed(match.per_feature, "float32"),
        "top": packed(facts.top, "int32"),
    }, figure


def _joined(figures: Mapping[str, Figures], more: Mapping[str, Figures]) -> dict[str, Figures]:
    """Figures of the page's own methods and further ones; what is measured here wins."""
    return {name: {**more.get(name, {}), **own} for name, own in figures.items()}
