"""The atlas in one call: what is given in memory shows the page that files of it would."""

import json
import re

import numpy as np
import pytest
import torch
from scipy import sparse

import nonneg
from nonneg.data.feature_file import write_features

TEXTS = ["green tea", "pale ale", "black tea", "brown ale"]


def content_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="content">(.*?)</script>', text, re.DOTALL)[1])


@pytest.fixture(name="Z")
def features():
    return np.array([[3, 0, 1], [0, 2, 0], [1, 0, 0], [0, 1, 1]], dtype=np.float32)


def test_values_and_files_make_the_same_page(Z, tmp_path):
    labels, images = np.array(["tea", "ale", "tea", "ale"]), np.zeros((4, 8, 8), np.uint8)
    write_features(tmp_path / "Z.npz", Z)
    write_features(tmp_path / "other.npz", Z)
    write_features(tmp_path / "T.npz", Z[:2])
    for name, array in (("labels", labels), ("images", images), ("of", np.array([1, 0]))):
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "ids.json").write_text('["a", "b", "c", "d"]')
    (tmp_path / "texts.txt").write_text("one cup\ntwo pints\n")
    files = {
        "against": tmp_path / "other.npz",
        "other_seed": tmp_path / "Z.npz",
        "labels": tmp_path / "labels.npy",
        "images": str(tmp_path / "images.npy"),
        "ids": tmp_path / "ids.json",
        "reference": tmp_path / "Z.npz",
        "captions": tmp_path / "T.npz",
        "texts": tmp_path / "texts.txt",
        "caption_of": tmp_path / "of.npy",
    }
    values = {
        "against": Z,
        "other_seed": torch.from_numpy(Z),
        "labels": labels.tolist(),
        "images": images,
        "ids": ["a", "b", "c", "d"],
        "reference": Z,
        "captions": sparse.csr_array(Z[:2]),
        "texts": ["one cup", "two pints"],
        "caption_of": [1, 0],
    }
    pages = []
    for name, source, given in (
        ("files", tmp_path / "Z.npz", files),
        ("values", sparse.csr_array(Z), values),
    ):
        out = tmp_path / f"{name}.html"
        written = nonneg.report.atlas(source, out=out, title="Drinks", **given)
        assert (written.path, written.n_shown) == (out, 4)
        pages.append(content_of(out))
    of_files, of_values = pages
    for key in ("sides", "features", "captions", "seed", "monosemanticity"):
        assert of_files[key] == of_values[key], key
    assert [row["title"] for row in of_files["figures"]] == [
        row["title"] for row in of_values["figures"]
    ]
    assert of_values["class_names"] == ["ale", "tea"]
    assert of_values["about"] == ["4 images × 3 features.", "2 captions."]
    assert (of_values["method"], of_values["against"]["method"]) == ("features", "other")


def test_names_of_features_that_are_given_stay(Z, tmp_path):
    out = tmp_path / "a.html"
    nonneg.report.atlas(Z, out=out, texts=TEXTS)
    assert content_of(out)["features"]["names"][0].startswith("tea")
    nonneg.report.atlas(Z, out=out, texts=TEXTS, names=["leaf", "hop", "rest"])
    assert content_of(out)["features"]["names"] == ["leaf", "hop", "rest"]
    with pytest.raises(ValueError, match=r"^names has 1 entries for 3 features; give one each$"):
        nonneg.report.atlas(Z, out=out, names=["leaf"])


def test_features_in_memory_need_a_place(Z):
    with pytest.raises(ValueError, match=r"^features in memory have no place of their own; give"):
        nonneg.report.atlas(Z)


def test_features_lie_beside_a_file_and_are_never_written_over(Z, tmp_path):
    np.save(tmp_path / "Z.npy", Z)
    said = []
    assert nonneg.report.atlas(str(tmp_path / "Z.npy"), watch=said.append).path.name == "Z.html"
    assert said == ["reading", "measuring"]
    (tmp_path / "texts.html").write_text("\n".join(TEXTS))
    with pytest.raises(ValueError, match=r"texts\.html is what the result is made from; give"):
        nonneg.report.atlas(Z, texts=tmp_path / "texts.html", out=tmp_path / "texts.html")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"caption_of": [0]}, "caption_of says whose the captions are; give captions too"),
        ({"captions": np.eye(3)}, "captions has features of captions; give their texts too"),
        ({"class_names": ["a"]}, "class_names names classes, but there are no labels; give labels"),
        (
            {"class_names": ["a"], "labels": ["x", "y", "x", "y"]},
            "class_names names the classes 0, 1, …, but labels has other labels, such as 'x'",
        ),
        ({"images": np.zeros((3, 2, 2), np.uint8)}, "images holds 3 images for 4 samples"),
        ({"texts": ["one"]}, "texts has 1 entries for 4 samples; give one each"),
    ],
)
def test_parts_that_do_not_fit_are_one_sentence(Z, tmp_path, given, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        nonneg.report.atlas(Z, out=tmp_path / "a.html", **given)
    assert not list(tmp_path.iterdir())
