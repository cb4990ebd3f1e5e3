"""axe-core, the usual checker of accessibility, finds nothing on any part, light and dark."""

import pytest
from browsing import PAIR_ROUTES, ROUTES, TEXT_ROUTES, go

# axe looks for what changes while it runs; these parts are drawn at once, so it need not wait.
OPTIONS = {"resultTypes": ["violations"]}


@pytest.fixture(scope="module")
def found():
    """A function from a page to what axe-core objects to, in short."""
    library = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="axe-playwright-python is not installed; it is in the dev extra",
    )
    axe = library.Axe()

    def violations(page):
        return [
            (rule["id"], node["html"][:120], node["failureSummary"])
            for rule in axe.run(page, options=OPTIONS).response["violations"]
            for node in rule["nodes"]
        ]

    return violations


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_pages_of_texts(visit, letters, found, scheme):
    page = visit(letters, color_scheme=scheme, viewport={"width": 1280, "height": 900})
    for route in TEXT_ROUTES:
        go(page, route)
        assert found(page) == [], route


def test_axe_finds_nothing_while_things_are_open_picked_and_changed(visit, letters, found):
    page = visit(letters, "features", viewport={"width": 1280, "height": 900})
    page.evaluate("mergeFeatures([2, 5]); hideFeatures([7]); renameFeature(1, 'trains')")
    page.locator("input.pick").first.check()
    for route in ("features", "changes", "feature/2", "feature/5", "feature/7", "map", "groups"):
        go(page, route)
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        page.wait_for_timeout(50)
        assert found(page) == [], route
    go(page, "map")
    page.locator(".point-map").focus()
    page.keyboard.press("+")
    assert found(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_pages_of_images(visit, digits, found, scheme):
    page = visit(digits, color_scheme=scheme)
    for route in ROUTES:
        go(page, route)
        assert found(page) == [], route


def test_axe_finds_nothing_on_pages_of_pairs_and_on_small_screens(visit, pairs, letters, found):
    page = visit(pairs, color_scheme="light")
    for route in PAIR_ROUTES:
        go(page, route)
        assert found(page) == [], route
    page = visit(letters, viewport={"width": 400, "height": 800})
    for route in TEXT_ROUTES:
        go(page, route)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, route
        assert found(page) == [], route


def test_axe_would_find_a_fault(visit, letters, found):
    page = visit(letters, "changes", viewport={"width": 1280, "height": 800})
    page.evaluate("document.querySelector('main').append(el('button', {}), el('img', {}))")
    assert {"button-name", "image-alt"} <= {rule for rule, _, _ in found(page)}
