import pytest

from nonneg.pairs import RECIPES, ViewSettings, recipe


def test_colour_is_the_authors_recipe():
    assert recipe("colour") == ViewSettings(
        crop_scale=(0.08, 1),
        crop_ratio=(0.75, 4 / 3),
        flip_rate=0.5,
        jitter_rate=0.8,
        brightness=0.8,
        contrast=0.8,
        saturation=0.8,
        hue=0.2,
        grey_rate=0.2,
        blur_rate=0.5,
        blur_sigma=(0.1, 2),
        solarise_rate=0,
    )


def test_recipes_that_must_not_mirror_do_not():
    assert set(RECIPES) == {"colour", "grey", "digits", "sprites"}
    assert RECIPES["digits"].flip_rate == RECIPES["sprites"].flip_rate == 0


def test_overrides_replace_some_settings_and_leave_the_recipe():
    changed = recipe("grey", crop_scale=[0.5, 1], flip_rate=0)
    assert changed.crop_scale == (0.5, 1)
    assert changed.flip_rate == 0
    assert changed.contrast == RECIPES["grey"].contrast
    assert recipe("grey") == RECIPES["grey"] != changed


def test_unknown_recipe_lists_the_known():
    with pytest.raises(
        ValueError, match=r"^unknown recipe 'color'; known: colour, grey, digits, sprites$"
    ):
        recipe("color")


def test_overrides_are_checked():
    with pytest.raises(ValueError, match="setting 'flip_rate': input should be less than"):
        recipe("grey", flip_rate=3)
    with pytest.raises(ValueError, match="unknown setting 'blur'; nearest: blur_rate"):
        recipe("grey", blur=0.5)
