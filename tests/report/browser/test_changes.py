"""Renaming, merging and hiding in the page, and the file that holds the changes."""

import json

import numpy as np
from browsing import HOSTILE, go, until

NEW_NAME = HOSTILE.strip()
WIDE = {"viewport": {"width": 1280, "height": 900}}


def downloaded(page):
    go(page, "changes")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download changes.json").click()
    assert waiting.value.suggested_filename == "changes.json"
    return json.loads(waiting.value.path().read_text(encoding="utf-8"))


def test_a_new_name_is_everywhere_at_once_and_in_the_file(visit, letters):
    page = visit(letters, "feature/3", **WIDE)
    old = page.evaluate("features.names[3]")
    page.locator("summary", has_text="Rename").click()
    page.get_by_label("Name of this feature").fill(HOSTILE)
    page.get_by_role("button", name="Rename").click()
    assert page.text_content("h1").startswith(NEW_NAME)
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.activeElement.tagName") == "H1"
    assert page.text_content("#said").startswith("Renamed")
    go(page, "features")
    names = page.locator(".card h3 a").all_text_contents()
    assert NEW_NAME in names
    assert old not in names
    assert page.locator("nav .badge").text_content() == "1"
    assert downloaded(page) == {
        "nonneg": "changes",
        "rename": {"3": NEW_NAME},
        "merge": [],
        "hide": [],
    }
    page.get_by_role("button", name="Undo").click()
    assert page.evaluate("featureName(3)") == old
    assert page.locator("nav .badge").count() == 0


def test_picked_features_are_merged_by_the_root_of_the_sum_of_squares(visit, letters):
    page = visit(letters, "features", **WIDE)
    before = page.evaluate("Array.from({length: samples.n}, (_, i) => samples.active(i))")
    for feature in (2, 5, 6):
        page.locator(f"input.pick[aria-label$='#{feature}']").check()
    page.get_by_role("button", name="Merge").click()
    assert page.locator("[role=status]", has_text="9 features").count() == 1
    after = page.evaluate("Array.from({length: samples.n}, (_, i) => samples.active(i))")
    for old, new in zip(before, after, strict=True):
        was, now = ({e["feature"]: e["value"] for e in some} for some in (old, new))
        merged = np.sqrt(sum(was.get(f, 0) ** 2 for f in (2, 5, 6)))
        np.testing.assert_allclose(now.get(2, 0), merged, atol=2e-4)
        assert 5 not in now
        assert 6 not in now
        np.testing.assert_allclose(sum(v * v for v in now.values()), 1, atol=1e-3)
    go(page, "feature/2")
    assert "It stands for" in page.text_content(".changed")
    strengths = [float(t) for t in page.locator(".gallery .value").all_text_contents()]
    assert strengths == sorted(strengths, reverse=True)
    go(page, "feature/5")
    assert "merged into" in page.text_content(".changed")
    go(page, "map?by=feature")
    assert page.evaluate("!strongestFeatures().includes(5) && strongestFeatures().includes(2)")
    assert downloaded(page)["merge"] == [[2, 5, 6]]


def test_groups_that_share_a_feature_become_one(visit, letters):
    page = visit(letters, "features", **WIDE)
    page.evaluate("mergeFeatures([3, 4]); mergeFeatures([0, 1]); mergeFeatures([4, 0])")
    assert page.evaluate("changesFile().merge") == [[3, 4, 0, 1]]
    page.evaluate("undoChange()")
    assert page.evaluate("changesFile().merge") == [[3, 4], [0, 1]]


def test_hidden_features_leave_lists_samples_and_map_and_come_back(visit, letters):
    page = visit(letters, "feature/3", **WIDE)
    name = page.evaluate("featureName(3)")
    page.locator("summary", has_text="Rename").click()
    page.get_by_role("button", name="Hide", exact=True).click()
    assert "It is hidden" in page.text_content(".changed")
    go(page, "features")
    assert name not in page.locator(".card h3 a").all_text_contents()
    page.get_by_label("State").select_option("changed")
    until(page, "shown === '#/features?state=changed'")
    assert page.locator(".card h3 a").all_text_contents() == [name]
    assert page.evaluate("samples.columns.includes(3)") is False
    go(page, "groups")
    assert page.evaluate("leavesOf(2 * tree.features.length - 2).includes(3)") is False
    assert downloaded(page)["hide"] == [3]
    page.get_by_role("button", name="Take back").click()
    assert page.evaluate("samples.columns.includes(3)") is True


def test_changes_survive_a_reload_and_a_warning_guards_what_is_not_downloaded(visit, letters):
    page = visit(letters, "features", **WIDE)
    warned = "dispatchEvent(new Event('beforeunload', {cancelable: true})) === false"
    assert page.evaluate(warned) is False
    page.evaluate("renameFeature(1, 'trains')")
    assert page.evaluate(warned) is True
    go(page, "changes")
    assert "not downloaded yet" in page.text_content("main")
    downloaded(page)
    assert page.evaluate(warned) is False
    page.reload()
    page.wait_for_selector("h1")
    assert page.evaluate("featureName(1)") == "trains"


def test_a_browser_that_keeps_nothing_is_said_so(visit, letters):
    page = visit(letters, "changes", **WIDE)
    denied = "() => { Storage.prototype.setItem = () => { throw new Error('denied'); }; }"
    page.evaluate(denied)
    page.evaluate("renameFeature(1, 'trains')")
    assert "This browser keeps nothing for this page" in page.text_content("main")


def test_what_a_browser_kept_and_does_not_fit_is_left_out(visit, letters):
    page = visit(letters, "changes", **WIDE)
    page.evaluate(
        "takeChanges({rename: {99: 'x', 1: 'y'}, merge: [[1, 99], [2, 3]], hide: [-1, 4]})"
    )
    assert page.evaluate("changesFile()") == {
        "nonneg": "changes",
        "rename": {"1": "y"},
        "merge": [[2, 3]],
        "hide": [4],
    }


def test_the_file_is_what_curate_reads(visit, letters, tmp_path):
    from nonneg.head.curation import Curation

    page = visit(letters, "features", **WIDE)
    page.evaluate("mergeFeatures([2, 5]); hideFeatures([7]); renameFeature(2, 'music')")
    found = downloaded(page)
    curation = Curation.of({"merged": found["merge"], "hidden": found["hide"]}, 12)
    assert (curation.merged, curation.hidden) == (((2, 5),), (7,))
    assert found["rename"] == {"2": "music"}


def test_the_policy_still_forbids_everything_else(visit, letters):
    page = visit(letters, "changes", **WIDE)
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts.keys() == {
        "default-src",
        "script-src",
        "style-src",
        "img-src",
        "base-uri",
        "form-action",
    }
    assert parts["default-src"] == "'none'"
    assert "unsafe" not in policy
    page.evaluate("renameFeature(1, 'trains')")
    downloaded(page)
