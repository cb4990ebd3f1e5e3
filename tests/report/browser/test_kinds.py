"""What an atlas may hold: texts, pairs, nothing alive, very many features."""

import numpy as np
from browsing import HOSTILE, go, until
from scipy import sparse

from nonneg.report import Atlas, RunInfo, Samples, Training, write_atlas


def test_hostile_texts_are_shown_as_text(visit, texts):
    page = visit(texts, "sample/0")
    assert page.text_content("blockquote") == HOSTILE
    go(page, "")
    page.wait_for_selector(".notes-list")
    assert HOSTILE in page.locator(".notes-list li").all_text_contents()
    assert page.title() == HOSTILE.replace("\u2028", " ").strip() or HOSTILE in page.title()
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 2


def test_texts_without_labels_are_named_by_words_and_found(visit, texts):
    page = visit(texts, "features")
    names = page.locator(".card h3 a").all_text_contents()
    assert sorted(name.split()[0] for name in names) == ["apple", "engine", "river"]
    assert page.get_by_label("Class", exact=True).count() == 0
    go(page, "samples?find=id-17")
    until(page, "document.querySelectorAll('.gallery .tile').length === 1")
    assert page.locator(".gallery .tile").text_content() == "engine number 17"
    go(page, "")
    page.wait_for_selector(".notes-list")
    assert "There are no labels" in page.text_content(".notes-list")


def test_samples_are_found_and_linked_by_the_numbers_of_their_own_file(visit, tmp_path):
    numbers = 100 + 3 * np.arange(60)
    samples = Samples(
        features=np.tile(np.eye(3), (20, 1)), labels=np.arange(60) % 3, numbers=numbers
    )
    write_atlas(tmp_path / "rows.html", Atlas(samples=samples))
    page = visit(tmp_path / "rows.html", "samples?find=sample 103")
    until(page, "document.querySelectorAll('.gallery .tile').length === 1")
    page.locator(".gallery .tile").click()
    until(page, "shown === '#/sample/103'")
    assert page.text_content("h1").startswith("sample 103")
    assert page.text_content("h1 .label") == "1"
    page.locator(".why").first.click()
    until(page, "shown.startsWith('#/match/sample/103/sample/1')")
    assert page.text_content("h1") == "Why are these two alike?"
    go(page, "sample/1")
    assert page.text_content("h1") == "Not here"


def test_pairs_show_images_beside_captions(visit, pairs):
    page = visit(pairs, "feature/3")
    assert page.locator(".pairwise h2").all_text_contents() == [
        "Its strongest images",
        "Its strongest captions",
    ]
    assert page.locator(".pairwise .tile.text").first.text_content().startswith("drawing ")
    bands = page.locator(".bands")
    assert bands.count() == 2
    assert "captions" in bands.nth(1).locator(".band-head").last.text_content()
    facts = page.locator(".facts-list div").all_text_contents()
    assert any(text.startswith("agreement of both sides1.0") for text in facts)
    go(page, "feature/43")
    assert "Active for no image, but for 1 caption." in page.text_content("main")
    assert page.locator("h2").all_text_contents() == ["Its strongest captions"]


def test_a_caption_and_its_image_say_how_near_they_are(visit, pairs):
    page = visit(pairs, "sample/3")
    own = page.locator(".portrait .neighbour")
    assert page.locator(".portrait h2").text_content() == "Its captions"
    assert own.count() == 2
    assert HOSTILE in page.locator(".portrait .words").all_text_contents()
    go(page, "caption/6")
    assert page.text_content("blockquote") == HOSTILE
    assert page.locator(".portrait h2").text_content() == "Its image"
    assert page.locator(".place").text_content() == "place 1 of 360"
    assert page.locator("h2").all_text_contents()[-2:] == ["Nearest images", "Nearest captions"]
    page.locator(".portrait .why").click()
    until(page, "shown === '#/match/caption/6/sample/3'")
    assert page.text_content(".two strong") == "cosine 1.000"


def test_features_of_pairs_are_sorted_by_agreement(visit, pairs):
    page = visit(pairs, "features?sort=agreement&order=up")
    assert "agreement of both sides" in page.locator(".facts").first.text_content()
    go(page, "")
    assert "of captions have their image among the ten nearest" in page.text_content(".bigs")


def test_nothing_alive_is_a_page_too(visit, tmp_path):
    path = tmp_path / "dead.html"
    written = write_atlas(path, Atlas(samples=Samples(features=np.zeros((5, 3)))))
    assert "All features are dead: none is active for any sample." in written.notes
    page = visit(path)
    for route in ("features?state=all", "feature/1", "sample/2", "samples", "space"):
        go(page, route)


def test_2048_features_come_a_page_at_a_time(visit, tmp_path, monkeypatch):
    monkeypatch.setattr("nonneg.report.contents.MAX_MAPPED", 64)  # a map of more takes seconds
    rng = np.random.default_rng(0)
    features = sparse.random_array((1000, 2048), density=0.01, rng=rng, format="csr")
    path = tmp_path / "many.html"
    written = write_atlas(path, Atlas(samples=Samples(features=features)))
    assert written.n_bytes < 3_000_000
    page = visit(path, "features")
    assert page.locator("[role=status]").text_content() == "2,048 features"
    assert page.locator(".card").count() == 48
    page.locator(".pager a").last.click()
    until(page, "shown === '#/features?page=42'")
    assert page.locator(".card").count() == 2048 - 42 * 48


def test_training_says_what_its_charts_are_of(visit, digits, tmp_path):
    page = visit(digits, "training")
    assert page.text_content("p.quiet") == (
        "The loss is of training; all else is measured on held-out samples after each epoch. "
        "A run that stays at the line marked collapse has learnt nothing."
    )
    records = [{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.0, "alive_features": 3}]
    run_info = RunInfo(training={"NCL": Training(records)})
    write_atlas(
        tmp_path / "fit.html", Atlas(samples=Samples(features=np.eye(3)), run_info=run_info)
    )
    page = visit(tmp_path / "fit.html", "training")
    assert page.text_content("p.quiet") == "The loss is of training."
    assert page.locator("figure h2").all_text_contents() == ["Loss"]
