"""Can the page be read? Text stands out from its ground by 4.5 to 1 at least, in both themes."""

import re
from importlib import resources

import pytest

CSS = resources.files("nonneg.report").joinpath("page", "atlas.css").read_text(encoding="utf-8")
TEXTS = ("ink", "soft", "accent", "c0", "c1", "c2", "c3", "c4", "c5")


def colours(selector):
    block = CSS[CSS.index(selector) :]
    block = block[block.index("{") : block.index("}")]
    return dict(re.findall(r"--(\w+): (#\w{6});", block))


LIGHT = colours(":root {")
DARK = LIGHT | colours(':root[data-theme="dark"] {')


def luminance(colour):
    """As WCAG 2 defines it."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_is_21_to_1():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_texts_stand_out_from_their_ground(theme):
    for ground in ("paper", "raised"):
        low = {name: contrast(theme[name], theme[ground]) for name in TEXTS}
        assert min(low.values()) >= 4.5, (ground, low)
    for name in ("ink", "soft", "accent"):
        assert contrast(theme[name], theme["sunk"]) >= 4.5, name


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_fields_and_bars_stand_out_by_3_to_1(theme):
    on_the_map = [*(f"m{c}" for c in range(10)), "t0", "t1", "t2"]
    for name in ("edge", "rest", "c0", *on_the_map):
        assert contrast(theme[name], theme["raised"]) >= 3, name


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_marked_words_and_buttons_can_be_read(theme):
    assert contrast(theme["ink"], theme["mark"]) >= 4.5
    assert contrast(theme["paper"], theme["accent"]) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_points_that_do_not_stand_out_are_paler_than_all_that_do(theme):
    pale = contrast(theme["pale"], theme["raised"])
    assert 1.2 < pale < min(contrast(theme[f"m{c}"], theme["raised"]) for c in range(10)) / 1.5


def test_dark_is_the_same_whether_chosen_or_asked_for():
    assert colours(':root:not([data-theme="light"])') == colours(':root[data-theme="dark"] {')


def test_nothing_makes_text_paler():
    """Opacity would lower a contrast that the colours promise."""
    faded = re.findall(r"([^{}]+)\{[^}]*opacity: 0", CSS)
    # A dot, and the interval around a line, which hold no text.
    assert {selector.strip() for selector in faded} == {".spot.dot", ".band-area"}
