"""What does the page leave out? Sentences for what was not given or does not fit."""

from collections.abc import Mapping
from typing import Any

from nonneg.report.atlas import Atlas
from nonneg.report.feature_facts import MIN_ACTIVE


def notes(atlas: Atlas, content: Mapping[str, Any]) -> list[str]:
    """Sentences that say what the page cannot show, or shows in another way, and why.

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
    if side["kept_a_row"] is not None:
        said.append(
            f"The features are dense: the page keeps the {side['kept_a_row']} strongest of each "
            "sample, so that cosines between samples are cut short; statistics are from all."
        )
    if content["signed"] or content.get("against", {}).get("signed"):
        who = atlas.method if content["signed"] else atlas.against_method
        said.append(
            f"{who} has negative features; they are ranked and counted by their absolute value."
        )
    if samples.classes is None:
        said.append("There are no labels, so nothing is said of classes and purity.")
    said += _of_few_samples(atlas, content)
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


def _of_few_samples(atlas: Atlas, content: Mapping[str, Any]) -> list[str]:
    """Why class consistency and purity have no value, where labels alone do not explain it."""
    n, key = len(atlas.samples), f"class_consistency_min{MIN_ACTIVE}"
    rows: list[dict[str, Any]] = [row for row in content["figures"] if row["key"] == key]
    return [
        f"Class consistency and purity of {method} are left out: no feature is on for "
        f"{min(MIN_ACTIVE, n)} of the {n:,} {atlas.samples.kind}s. Show more of them: of a run "
        "with --split train, or of a fit with a larger --test-share."
        for row in rows
        for method, cell in row["cells"].items()
        if cell["value"] is None
    ]


def _of_captions(atlas: Atlas, side: Mapping[str, Any]) -> list[str]:
    said = []
    if atlas.caption_of is None:
        said.append("Which sample a caption belongs to is not known, so pairs are not measured.")
    if side["n"] < side["n_all"]:
        said.append(f"{side['n']:,} of {side['n_all']:,} captions are shown.")
    if side["columns"]["shape"] == [0]:
        said.append("No feature is active for any caption.")
    return said
