"""Runs on folders of images as a user makes them: with a split, and without one."""

import json
import re

import numpy as np
import pytest
from PIL import Image

QUICK = [
    "data.image_size=16",
    "data.held_out=24",
    "encoder.backbone.width=4",
    "encoder.projector.hidden=[16]",
    "encoder.projector.n_features=16",
    "training.epochs=1",
    "training.warmup_epochs=0",
    "training.batch_size=16",
]


def paint(folder, n, seed):
    """Small images of two classes, which lie in folders of their own."""
    rng = np.random.default_rng(seed)
    for name, shade in (("dark", 40), ("light", 200)):
        (folder / name).mkdir(parents=True)
        for i in range(n):
            pixels = (shade + rng.integers(-30, 30, (16, 16, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i:02}.png")


@pytest.fixture(scope="module")
def place(nonneg, tmp_path_factory):
    """Photos with a split, pictures without, and a run on each."""
    place = tmp_path_factory.mktemp("place")
    paint(place / "photos" / "train", 30, seed=0)
    paint(place / "photos" / "val", 15, seed=1)
    paint(place / "pictures", 30, seed=2)
    sets = [part for override in QUICK for part in ("--set", override)]
    for name in ("photos", "pictures"):
        options = ["--set", f"data.name={place / name}", *sets, "--out", place / f"{name}-run"]
        ended = nonneg("train", "digits", *options)
        assert ended.returncode == 0, ended.stderr
    return place


def content_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="content">(.*?)</script>', text, re.DOTALL)[1])


def test_the_atlas_calls_images_by_their_files(nonneg, place):
    ended = nonneg("report", place / "photos-run", "--out", place / "photos.html")
    assert ended.returncode == 0, ended.stderr
    ids = content_of(place / "photos.html")["sides"][0]["ids"]
    assert (len(ids), ids[3], ids[-1]) == (30, "dark/03.png", "light/14.png")
    held_out = ["--split", "held-out", "--out", place / "held-out.html"]
    ended = nonneg("report", place / "pictures-run", *held_out)
    assert ended.returncode == 0, ended.stderr
    ids = content_of(place / "held-out.html")["sides"][0]["ids"]
    assert len(ids) == 24
    assert all((place / "pictures" / name).is_file() for name in ids)


@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_a_folder_without_a_test_split_names_the_samples_held_out(nonneg, place, command):
    ended = nonneg(command, place / "pictures-run")
    assert ended.returncode == 1
    assert ended.stderr == (
        f"error: {place / 'pictures-run'} learnt from {place / 'pictures'}, which has no test "
        "split; measure it with --split held-out, or name a file of test samples with --data\n"
    )


def test_the_training_set_is_shown_where_there_is_no_other(nonneg, place):
    options = ["--split", "train", "--out", place / "train.html"]
    ended = nonneg("report", place / "pictures-run", *options)
    assert ended.returncode == 0, ended.stderr
    assert content_of(place / "train.html")["n_samples"] == 60
