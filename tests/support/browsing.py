"""How tests walk through a page, and which parts an atlas has."""

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
