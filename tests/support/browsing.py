"""How tests open a page and walk through it, and which parts an atlas has."""

import shutil

import pytest

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)></script><!-- \u2028"

ROUTES = {
    "": "Digits",
    "features": "Features",
    "feature/3": "",
    "feature/43": "dead",
    "samples": "Samples",
    "sample/7": "sample 7",
    "map": "Map of the samples",
    "map?by=class": "Map of the samples",
    "groups": "Groups of features",
    "changes": "Changes",
    "space": "The space",
    "training": "Training",
    "compare": "CL beside NCL",
    "match/sample/7/sample/9": "Why are these two alike?",
    "feature/4000": "Not here",
    "sample/4000": "Not here",
    "nowhere": "Not here",
}

TEXT_ROUTES = {
    "": "Letters",
    "map": "Map of the samples",
    "map?by=class&find=tea": "Map of the samples",
    "map?by=date": "Map of the samples",
    "features": "Features",
    "feature/3": "",
    "groups": "Groups of features",
    "time": "Over time",
    "samples": "Samples",
    "sample/7": "sample 7",
    "changes": "Changes",
    "space": "The space",
}

PAIR_ROUTES = ("", "features", "feature/3", "sample/3", "caption/3", "match/caption/3/sample/3")


def until(page, condition, argument=None):
    """Wait for a condition; Playwright's own wait needs eval, which the page's policy forbids."""
    for _ in range(500):
        if page.evaluate(condition, argument):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"never came true: {condition}")


def go(page, route):
    """Follow a link to an address, and wait until it is shown."""
    page.evaluate("route => { location.hash = '#/' + route }", route)
    until(page, "route => shown === '#/' + route", route)


def running_browser():
    """A browser for a fixture, which ends it; without one the tests are skipped."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed; it is in the dev extra"
    )
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield running
        running.close()
