"""The atlas in a browser: it opens from disk, asks for nothing, and everything is a link."""

import numpy as np
import pytest
from browsing import ROUTES, go, until


def address(page):
    return page.evaluate("location.hash")


def test_every_part_opens_without_error_or_request(visit, digits):
    page = visit(digits)
    for route, heading in ROUTES.items():
        go(page, route)
        assert page.text_content("h1").startswith(heading), route


def test_the_glance_shows_figures_with_their_chance(visit, digits):
    page = visit(digits)
    assert "40of 44 features are alive" in page.text_content(".bigs")
    assert "share a class (features with ≥ 20 active)" in page.text_content(".bigs")
    purity = page.locator("table.figures tr", has_text="Top-20 purity")
    assert "chance" in purity.text_content()
    assert page.locator("table.figures thead th").all_text_contents()[1:3] == ["● CL", "■ NCL"]
    assert "CL has negative features" in page.text_content(".notes-list")


def test_thumbnails_hold_the_pixels_of_their_samples(visit, digits, world):
    page = visit(digits, "sample/7")
    until(page, "sheets.get(samples)[0].bitmap !== null")
    drawn = page.evaluate(
        "[...document.querySelector('.portrait canvas').getContext('2d')"
        ".getImageData(0, 0, 8, 8).data].filter((_, i) => i % 4 === 0)"
    )
    assert drawn == world.images[7].ravel().tolist()


def test_sort_filter_and_find(visit, digits):
    page = visit(digits, "features")
    status = page.locator("[role=status]")
    assert status.text_content() == "40 features"
    page.get_by_label("Sort by").select_option("purity")
    until(page, "shown === '#/features?sort=purity'")
    shown = [
        float(text.split()[1])
        for text in page.locator(".facts").all_text_contents()
        if text.startswith("purity")
    ]
    assert shown == sorted(shown, reverse=True)
    page.get_by_label("Sort by").select_option("sepin")
    until(page, "shown.includes('sort=sepin')")
    assert page.locator(".facts").first.text_content().endswith("SEPIN 0.907")
    page.get_by_label("Order").select_option("up")
    until(page, "shown.includes('order=up')")
    page.get_by_label("Class", exact=True).select_option(label="3")
    until(page, "shown.includes('class=3')")
    assert 0 < int(status.text_content().split()[0]) < 40
    page.get_by_label("Class", exact=True).select_option("")
    page.get_by_label("State").select_option("dead")
    until(page, "shown.includes('state=dead')")
    assert status.text_content() == "4 features"
    page.get_by_label("State").select_option("all")
    page.get_by_label("Name", exact=True).fill("#42")
    assert status.text_content() == "1 feature"
    assert "find=%2342" in address(page)
    assert page.locator("input[type=search]").nth(1).evaluate("e => e === document.activeElement")


def test_from_feature_to_sample_to_explanation_and_back(visit, digits):
    page = visit(digits, "features")
    page.locator(".card a.cover").first.click()
    until(page, "shown.startsWith('#/feature/')")
    feature = address(page)
    assert page.locator("h2").all_text_contents()[:2] == [
        "Its strongest samples",
        "Over its whole range",
    ]
    page.locator(".gallery .tile").first.click()
    until(page, "shown.startsWith('#/sample/')")
    sample = address(page)
    cosine = float(page.locator(".why").first.text_content().split()[0])
    page.locator(".why").first.click()
    until(page, "shown.startsWith('#/match/')")
    parts = [float(text) for text in page.locator(".rows.match .value").all_text_contents()]
    assert sum(parts) == pytest.approx(cosine, abs=0.01)
    page.go_back()
    until(page, f"shown === '{sample}'")
    assert page.text_content("h1").startswith("sample")
    page.go_back()
    until(page, f"shown === '{feature}'")
    page.go_back()
    assert page.wait_for_selector("h1 >> text=Features")


def test_back_returns_to_where_one_was_and_a_link_leads_to_the_top(visit, digits):
    page = visit(digits, "features", viewport={"width": 1000, "height": 500})
    page.evaluate("scrollTo(0, 900)")
    until(page, "scrolls.get(step) === 900")
    go(page, "feature/3")
    assert page.evaluate("scrollY") == 0
    page.go_back()
    until(page, "shown === '#/features'")
    until(page, "scrollY === 900")
    go(page, "space")
    page.locator("nav a", has_text="Features").click()
    until(page, "shown === '#/features'")
    assert page.evaluate("scrollY") == 0


def test_neighbours_are_those_of_the_cosine(visit, digits, world):
    page = visit(digits, "sample/7")
    lengths = np.linalg.norm(world.features, axis=1, keepdims=True)
    unit = world.features / np.where(lengths > 0, lengths, 1)
    cosine = unit @ unit[7]
    cosine[7] = -1
    best = np.sort(cosine)[::-1][:12]
    found = page.evaluate("neighbours(samples, 7, samples, 12).map((n) => [n.number, n.cosine])")
    np.testing.assert_allclose([c for _, c in found], best, atol=2e-3)
    np.testing.assert_allclose([cosine[i] for i, _ in found], best, atol=2e-3)


def test_a_search_finds_samples_by_label(visit, digits, world):
    page = visit(digits)
    page.get_by_label("Find samples or features").fill("5")
    page.keyboard.press("Enter")
    until(page, "shown === '#/samples?find=5'")
    page.get_by_label("Class", exact=True).select_option(label="5")
    page.get_by_label("Label, text, id or number").fill("")
    n = int((world.labels == 5).sum())
    assert page.locator("h2").all_text_contents() == [f"{n} samples"]
    assert page.locator(".gallery .tile").count() == n


def test_compare_puts_the_two_side_by_side(visit, digits):
    page = visit(digits, "compare")
    assert page.locator(".heads h2").all_text_contents() == ["● CL", "■ NCL"]
    assert page.locator(".versus").count() == 25
    assert page.locator(".versus .side").nth(0).locator(".tile").count() == 10
    page.get_by_label("Order").select_option("random")
    until(page, "shown === '#/compare?by=random'")
    first = page.locator(".side-head").first.text_content()
    page.reload()
    assert page.locator(".side-head").first.text_content() == first
