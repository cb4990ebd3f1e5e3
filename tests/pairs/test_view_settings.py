import pytest
from pydantic import ValidationError

from nonneg.pairs import ViewSettings


def test_settings_are_off_by_default():
    settings = ViewSettings()
    assert settings.crop_scale == settings.crop_ratio == (1, 1)
    rates = [settings.flip_rate, settings.jitter_rate, settings.grey_rate]
    assert rates == [0, 0, 0]
    assert settings.blur_rate == settings.solarise_rate == 0


def test_settings_are_frozen_and_comparable():
    settings = ViewSettings(flip_rate=0.25)
    with pytest.raises(ValidationError, match="frozen"):
        settings.flip_rate = 0.5
    assert settings == ViewSettings(flip_rate=0.25) != ViewSettings()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"flip_rate": 1.5}, "setting 'flip_rate': input should be less than or equal to 1"),
        ({"blur_rate": -0.1}, "setting 'blur_rate': input should be greater than or equal to 0"),
        ({"crop_scale": (0.9, 0.5)}, "setting 'crop_scale': a range goes from low to high"),
        ({"crop_scale": (0.0, 0.5)}, r"setting 'crop_scale\[0\]': input should be greater than 0"),
        ({"crop_scale": (0.5, 1.1)}, r"'crop_scale\[1\]': input should be less than or equal to 1"),
        ({"crop_ratio": (0.0, 1.0)}, r"setting 'crop_ratio\[0\]': input should be greater than 0"),
        ({"blur_sigma": (2.0, 0.1)}, "setting 'blur_sigma': a range goes from low to high"),
        ({"hue": 0.6}, "setting 'hue': input should be less than or equal to 0.5"),
        ({"contrast": float("nan")}, "setting 'contrast': input should be a finite number"),
        ({"solarise_threshold": 2}, "'solarise_threshold': input should be less than or equal"),
        ({"flip": 0.5}, "unknown setting 'flip'; nearest: flip_rate"),
    ],
)
def test_wrong_settings_are_one_sentence(values, message):
    with pytest.raises(ValueError, match=message) as caught:
        ViewSettings.read(values)
    assert "\n" not in str(caught.value)


def test_ranges_of_one_point_and_lists_are_taken():
    assert ViewSettings(crop_scale=[0.5, 0.5]).crop_scale == (0.5, 0.5)
