"""Which views suit which images? A table of settings by name, and a way to change some of them."""

from typing import Any

from nonneg.pairs.view_settings import ViewSettings

RECIPES: dict[str, ViewSettings] = {
    # The authors' SimCLR recipe for photographs (Wang et al. 2024, appendix; Chen et al. 2020).
    "colour": ViewSettings(
        crop_scale=(0.08, 1.0),
        crop_ratio=(3 / 4, 4 / 3),
        flip_rate=0.5,
        jitter_rate=0.8,
        brightness=0.8,
        contrast=0.8,
        saturation=0.8,
        hue=0.2,
        grey_rate=0.2,
        blur_rate=0.5,
        blur_sigma=(0.1, 2.0),
    ),
    # Grey pictures of things that have no left and right, such as Fashion-MNIST. Most of the
    # image is background, hence larger crops; detail is in few pixels, hence less blur.
    "grey": ViewSettings(
        crop_scale=(0.3, 1.0),
        crop_ratio=(3 / 4, 4 / 3),
        flip_rate=0.5,
        jitter_rate=0.8,
        brightness=0.4,
        contrast=0.4,
        blur_rate=0.2,
        blur_sigma=(0.1, 1.0),
    ),
    # A mirrored digit is no digit, and half a digit may be another one.
    "digits": ViewSettings(
        crop_scale=(0.6, 1.0),
        crop_ratio=(3 / 4, 4 / 3),
        jitter_rate=0.8,
        brightness=0.3,
        contrast=0.3,
    ),
    # A white shape on black, whose size, direction and place are what is to be learnt.
    "sprites": ViewSettings(
        crop_scale=(0.8, 1.0),
        crop_ratio=(0.9, 1 / 0.9),
        jitter_rate=0.8,
        brightness=0.3,
        blur_rate=0.2,
        blur_sigma=(0.1, 1.0),
    ),
}


def recipe(name: str, **overrides: Any) -> ViewSettings:  # noqa: ANN401 (validated by pydantic)
    """The settings of a named recipe, with some of them replaced.

    Args:
        name: A key of ``RECIPES``.
        overrides: Fields of ``ViewSettings`` and their new values, checked as usual.

    Raises:
        ValueError: One sentence that names the recipe, key or value that is wrong.

    Example:
        >>> recipe("digits", blur_rate=0.1).blur_rate, recipe("digits").blur_rate
        (0.1, 0.0)
    """
    if name not in RECIPES:
        raise ValueError(f"unknown recipe {name!r}; known: {', '.join(RECIPES)}")
    return ViewSettings.read(RECIPES[name].model_dump() | overrides)
