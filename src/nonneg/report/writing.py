"""The writing of an atlas: measured, named and packed into one HTML file that opens offline."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nonneg import io as files
from nonneg import metrics
from nonneg.metrics.figures import BECAUSE, MIN_ACTIVE, Figure
from nonneg.metrics.results import IntArray
from nonneg.report import contents
from nonneg.report.atlas_data import Atlas
from nonneg.report.captions import ShownCaptions
from nonneg.report.feature_facts import FeatureFacts, feature_facts, over_time
from nonneg.report.headline import CLASS_KEYS, as_table, headline
from nonneg.report.page import packed_array, page
from nonneg.report.samples import Samples, random_draw, rows_of
from nonneg.report.wording import (
    class_mixes,
    names_by_class,
    names_by_words,
    word_facts,
    words_table,
)


def notes(atlas: Atlas, content: Mapping[str, Any]) -> list[str]:
    """Sentences on what the page cannot show, or shows differently, and why.

    Args:
        atlas: What was asked for.
        content: What the page holds.
    """
    samples, side = atlas.samples, content["sides"][0]
    said = []
    if side["n"] < len(samples):
        said.append(
            f"{side['n']:,} of {len(samples):,} {samples.kind}s are shown, drawn at random; "
            "statistics are from all of them."
        )
    said += _of_room(side)
    if content["signed"] or content.get("against", {}).get("signed"):
        who = atlas.method if content["signed"] else atlas.against_method
        said.append(
            f"{who} has negative features; they are ranked and counted by their absolute value."
        )
    if samples.classes is None:
        said.append("There are no labels, so nothing is said of classes and purity.")
    said += _of_few_samples(content)
    if atlas.captions is not None:
        said += _of_captions(atlas, content["sides"][1])
    if samples.images is None and samples.texts is None:
        said.append("There are neither images nor texts; samples are shown by number.")
    if atlas.sepin is None:
        said.append(
            "SEPIN is left out: it needs two views of each sample, and the run that made them."
        )
    if atlas.reference is None:
        said.append("Monosemanticity is left out: it needs a reference embedding of the samples.")
    if content["space"]["map"]["shape"] == [0]:
        said.append("All features are dead: none is active for any sample.")
    return said


def _of_few_samples(content: Mapping[str, Any]) -> list[str]:
    """Why class consistency and purity have no value, where labels alone do not explain it."""
    rows: list[dict[str, Any]] = [row for row in content["figures"] if row["key"] == CLASS_KEYS[0]]
    return [
        f"Class consistency and purity of {method} are left out: {cell['beside'].get(BECAUSE)}. "
        "Show more of them: of a run with --split train, or of a fit with a larger --test-share."
        for row in rows
        for method, cell in row["cells"].items()
        if cell["value"] is None
    ]


def _of_room(side: Mapping[str, Any]) -> list[str]:
    """What is cut so that the page stays small."""
    said = []
    if side["kept_a_row"] is not None:
        said.append(
            f"The features are dense: the page keeps the {side['kept_a_row']} strongest of each "
            "sample, so that cosines between samples are cut short; statistics are from all."
        )
    if side["cut_at"] is not None:
        said.append(
            f"Texts are cut after {side['cut_at']:,} characters, so that the page stays small; "
            "words are counted in whole texts."
        )
    return said


def _of_captions(atlas: Atlas, side: Mapping[str, Any]) -> list[str]:
    said = []
    if atlas.caption_of is None:
        said.append("Which sample a caption belongs to is not known, so pairs are not measured.")
    if side["n"] < side["n_all"]:
        said.append(f"{side['n']:,} of {side['n_all']:,} captions are shown.")
    if side["columns"]["shape"] == [0]:
        said.append("No feature is active for any caption.")
    return said


MAX_SAMPLES = 10_000


@dataclass(frozen=True)
class WrittenAtlas:
    """What was written.

    Args:
        path: Where.
        n_bytes: Size of the file.
        n_shown: Samples that the page holds.
        notes: What it leaves out, and why.
        figures: Files of figures for a paper, where these were asked for.
    """

    path: Path
    n_bytes: int
    n_shown: int
    notes: tuple[str, ...]
    figures: tuple[Path, ...] = ()


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
    shown = random_draw(len(samples), max_samples, seed)
    facts = feature_facts(samples.features, shown=shown, labels=samples.classes)
    company = contents.Company.of(samples.features, facts)
    some = rows_of(samples.features, shown)
    rank = metrics.effective_rank(samples.features)
    known = atlas.run_info.figures
    own = headline(
        samples.features,
        samples.classes,
        reference=atlas.reference,
        sepin=atlas.sepin,
        rank=rank,
        known=known.get(method),
    )
    figures = {method: own}
    captions = (
        None
        if atlas.captions is None
        else ShownCaptions.of(atlas, shown, max_samples=max_samples, seed=seed)
    )
    content: dict[str, Any] = {
        "title": atlas.title,
        "method": method,
        "about": list(atlas.run_info.about),
        "n_features": samples.n_features,
        "n_samples": len(samples),
        "signed": facts.signed,
        "min_active": MIN_ACTIVE,
        "class_names": [] if samples.classes is None else list(samples.class_names),
        "sides": [contents.side(samples, shown, places=company.sample_places(some))],
        "features": contents.feature_table(facts, _names(atlas, shown, facts, captions)),
        "words": _words(samples, shown, facts, captions),
        "space": contents.space(
            samples.features, facts, company, rank, {method: atlas.run_info.selection}
        ),
        "tree": company.tree(),
        "time": None,
        "training": contents.training_charts(atlas.run_info.training),
        "sepin": contents.per_feature(atlas.sepin),
        "monosemanticity": None,
    }
    if samples.dates is not None:
        content["time"] = contents.time_table(over_time(samples.features, samples.dates))
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
            known=known.get(atlas.against_method),
        )
        figures = {atlas.against_method: beside} | figures
    if atlas.other_seed is not None:
        content["seed"], figures[method]["returned"] = _seed(atlas, shown)
    if captions is not None:
        content["captions"] = captions.table()
        content["sides"].append(contents.side(captions.samples, captions.shown, captions.place))
        figures[method] |= captions.figures(facts.n_active)
    content["figures"] = as_table(figures, samples.kind)
    content["key"] = _key(content)
    content["notes"] = [*atlas.run_info.notes, *notes(atlas, content)]
    return content


def _key(content: Mapping[str, Any]) -> str:
    """What tells these features from others, so that a browser keeps changes apart."""
    parts = (content["n_samples"], content["features"]["names"], content["features"]["expected"])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _names(
    atlas: Atlas, shown: IntArray, facts: FeatureFacts, captions: ShownCaptions | None
) -> list[str]:
    """The given names, else by words where there are texts, else by classes, else none."""
    if atlas.names is not None:
        if all(atlas.names):
            return list(atlas.names)
        suggested = _names(replace(atlas, names=None), shown, facts, captions)
        return [name or other for name, other in zip(atlas.names, suggested, strict=True)]
    if captions is not None and captions.samples.texts is not None:
        return captions.names(facts)
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


def _words(
    samples: Samples, shown: IntArray, facts: FeatureFacts, captions: ShownCaptions | None
) -> dict[str, Any] | None:
    """The telling words of each feature, of the captions where these have the texts."""
    if captions is not None:
        samples, shown, facts = captions.samples, captions.shown, captions.facts
    if samples.texts is None:
        return None
    return words_table(word_facts(samples.features, samples.texts, top=facts.top, shown=shown))


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
    figure = Figure.of(
        "returned", match.return_rate, n_returned=match.n_returned, mean_cosine=match.value
    )
    return {
        "partner": packed_array(match.partner, "int32"),
        "cosine": packed_array(match.per_feature, "float32"),
        "top": packed_array(facts.top, "int32"),
    }, figure
