"""The atlas for everybody: keyboard, screen reader, light and dark, small screens."""

import numpy as np
from browsing import PAIR_ROUTES, ROUTES, TEXT_ROUTES, go, until

FRESH = {"viewport": {"width": 1280, "height": 720}}


def test_the_keyboard_reaches_everything(visit, digits):
    page = visit(digits, "features", **FRESH)
    reached = []
    while "A.cover" not in reached and len(reached) < 40:
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.tagName + '.' + document.activeElement.className")
        )
    assert {"A.skip", "BUTTON.theme", "SELECT.", "A.cover"} <= set(reached)
    page.keyboard.press("Enter")
    until(page, "shown.startsWith('#/feature/')")
    assert page.evaluate("document.activeElement.tagName") == "H1"
    go(page, "features")
    page.locator("input.pick").first.focus()
    page.keyboard.press("Space")
    assert page.locator(".picked.active").count() == 1


def test_a_list_keeps_the_keyboard_while_it_is_changed(visit, digits):
    page = visit(digits, "features")
    page.get_by_label("Sort by").focus()
    for key in ("purity", "frequency"):
        page.keyboard.press("ArrowDown")
        until(page, f"shown === '#/features?sort={key}'")
        assert page.evaluate("document.activeElement.ariaLabel") == "Sort by"


def test_everything_that_can_be_used_has_a_name(visit, digits, pairs, letters):
    roles = {"link", "button", "searchbox", "combobox", "image", "DisclosureTriangle"}
    roles |= {"checkbox", "slider", "textbox", "application"}
    for path, routes in ((digits, ROUTES), (pairs, PAIR_ROUTES), (letters, TEXT_ROUTES)):
        page = visit(path)
        tree = page.context.new_cdp_session(page)
        for route in routes:
            go(page, route)
            nodes = tree.send("Accessibility.getFullAXTree")["nodes"]
            found = [n for n in nodes if not n["ignored"] and n["role"]["value"] in roles]
            assert len(found) > 5, route
            assert [n for n in found if not n.get("name", {}).get("value")] == [], route


def test_headings_leave_no_level_out(visit, digits, letters):
    found = "[...document.querySelectorAll('h1, h2, h3')].map((h) => Number(h.tagName[1]))"
    for path, routes in ((digits, ROUTES), (letters, TEXT_ROUTES)):
        page = visit(path)
        for route in routes:
            go(page, route)
            levels = page.evaluate(found)
            assert levels[0] == 1, route
            assert max(np.diff(levels), default=0) <= 1, route


def test_the_link_that_skips_the_menu_leads_to_the_content(visit, digits):
    page = visit(digits, "features", **FRESH)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    until(page, "location.hash === '#main'")
    assert page.text_content("h1") == "Features"
    page.reload()
    assert page.text_content("h1") == "Digits"


def test_light_dark_and_the_switch_between_them(visit, digits):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = visit(digits, color_scheme="light")
    dark = visit(digits, color_scheme="dark")
    assert light.evaluate(ground) == "rgb(253, 253, 252)"
    assert dark.evaluate(ground) == "rgb(21, 23, 26)"
    light.get_by_role("button", name="light and dark").click()
    assert light.evaluate(ground) == dark.evaluate(ground)
    light.reload()
    assert light.evaluate(ground) == dark.evaluate(ground)


def test_400_pixels_are_wide_enough(visit, digits, pairs, letters):
    for path, routes in ((digits, ROUTES), (pairs, PAIR_ROUTES), (letters, TEXT_ROUTES)):
        page = visit(path, viewport={"width": 400, "height": 800})
        for route in routes:
            go(page, route)
            assert page.evaluate("document.documentElement.scrollWidth") <= 400, (path, route)
