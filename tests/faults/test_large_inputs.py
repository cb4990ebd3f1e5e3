"""Inputs as large as people have: memory and time stay within what a laptop has."""

import pytest
from faults import large

GIB = large.GIB


def test_a_folder_of_many_images_is_listed_in_seconds(tmp_path):
    """2,000 here; 100,000 in the slow form. Only names are read."""
    assert large.seconds_to_list(tmp_path, 2_000) < 1


@pytest.mark.slow
def test_a_folder_of_100_000_images_is_listed_in_seconds(tmp_path):
    assert large.seconds_to_list(tmp_path, 100_000) < 10


@pytest.mark.slow
def test_features_of_200_000_by_2_048_are_measured_within_8_gib():
    assert large.memory_of_measuring() < 8 * GIB


@pytest.mark.slow
def test_an_atlas_of_50_000_samples_takes_2_gib_and_opens_in_3_seconds(tmp_path):
    assert large.memory_of_an_atlas(tmp_path) < 2 * GIB
    pytest.importorskip("playwright.sync_api", reason="playwright is in the dev extra")
    seconds = large.seconds_to_open(tmp_path / "atlas.html")
    if seconds is None:
        pytest.skip("no Chromium is installed")
    assert seconds < 3
