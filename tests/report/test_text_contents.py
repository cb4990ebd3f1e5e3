"""What the page holds of texts: places, tree, words and dates."""

import base64
import json
import re

import numpy as np
import pytest

from nonneg.report import Atlas, Samples, atlas, write_atlas
from nonneg.report.contents import shown_texts
from nonneg.report.user_files import days


def content_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="content">(.*?)</script>', text, re.DOTALL)[1])


def array(packed):
    values = np.frombuffer(base64.b64decode(packed["data"]), dtype=packed["type"])
    return values.reshape(packed["shape"])


def samples_of_texts(n=90, **more):
    rng = np.random.default_rng(0)
    kind = np.arange(n) % 3
    features = np.zeros((n, 5))
    features[np.arange(n), kind] = rng.uniform(0.5, 1, size=n)
    features[:, 3] = 0.3 * (kind == 0)
    words = ["black tea", "night train", "fresh bread"]
    given = {"texts": [f"{words[k]} {i}" for i, k in enumerate(kind)]}
    return Samples(features=features, **(given | more))


def test_the_page_holds_places_tree_and_words(tmp_path):
    written = write_atlas(tmp_path / "a.html", Atlas(samples=samples_of_texts()))
    content = content_of(written.path)
    places = array(content["sides"][0]["places"])
    assert places.dtype == np.uint16
    assert places.shape == (90, 2)
    tree = content["tree"]
    features, joins = array(tree["features"]).tolist(), array(tree["joins"])
    assert sorted(features) == [0, 1, 2, 3]  # the dead one is nowhere
    assert {features[at] for at in joins[0]} == {0, 3}
    cosines = array(tree["cosines"])
    assert cosines[0] == pytest.approx(0.97, abs=0.03)
    assert cosines[1:].tolist() == pytest.approx([0, 0], abs=1e-6)
    words = content["words"]
    starts = array(words["starts"])
    assert words["words"][starts[0]] == "black tea"
    assert array(words["n_all"])[starts[0]] == 30
    assert array(words["n_top"])[starts[0]] == 20
    assert starts[5] == starts[4]  # no words of a dead feature
    assert content["time"] is None


def test_dates_follow_the_samples_that_are_shown(tmp_path):
    dates = np.datetime64("2024-01-01") + np.arange(90)
    dates[3] = np.datetime64("NaT")
    page = Atlas(samples=samples_of_texts(dates=dates))
    content = content_of(write_atlas(tmp_path / "a.html", page, max_samples=40).path)
    side = content["sides"][0]
    shown = array(side["numbers"])
    found = array(side["dates"])
    for number, day in zip(shown, found, strict=True):
        known = dates[number]
        assert day == (-(2**31) if np.isnat(known) else known.astype(int))
    assert sum(array(content["time"]["counts"])) == 89  # statistics are of all
    assert array(content["time"]["means"]).shape[0] == 5
    none = Samples(features=np.eye(2), dates=np.array(["NaT", "NaT"], dtype="datetime64[D]"))
    assert none.dates is None
    with pytest.raises(ValueError, match=r"give numpy\.datetime64"):
        Samples(features=np.eye(2), dates=np.array([1, 2]))
    with pytest.raises(ValueError, match="dates has 1 entries for 2 samples"):
        Samples(features=np.eye(2), dates=np.array(["2024-01-01"], dtype="datetime64[D]"))


def test_dates_are_read_from_a_file_and_wrong_ones_are_named(tmp_path):
    file = tmp_path / "dates.txt"
    file.write_text("2024-05-01\n\n2024-05-03T10:00:00+02:00\n")
    written = atlas(np.eye(3), dates=file, out=tmp_path / "a.html")
    found = array(content_of(written.path)["sides"][0]["dates"])
    assert found.tolist() == [19844, -(2**31), 19846]
    file.write_text("2024-05-01\nMay 2\n2024-05-03\n")
    with pytest.raises(ValueError, match=r"line 2 of .*dates.txt is 'May 2'; give dates such as"):
        atlas(np.eye(3), dates=file, out=tmp_path / "a.html")
    with pytest.raises(ValueError, match="entry 1 of dates is '3'"):
        days([3])


def test_long_texts_are_cut_to_one_length_and_said_so(tmp_path, monkeypatch):
    monkeypatch.setattr("nonneg.report.contents.MAX_TEXT", 1000)
    texts = [f"tea {i} " + "x" * (5 * i) for i in range(90)]
    written = write_atlas(tmp_path / "a.html", Atlas(samples=samples_of_texts(texts=texts)))
    side = content_of(written.path)["sides"][0]
    cut = side["cut_at"]
    assert any(f"Texts are cut after {cut} characters" in note for note in written.notes)
    kept = [min(len(text), cut) for text in texts]
    assert sum(kept) <= 1000 < sum(min(len(text), cut + 1) for text in texts)
    for text, shown in zip(texts, side["texts"], strict=True):
        assert shown == (text if len(text) <= cut else text[:cut] + "…")


@pytest.mark.parametrize("most", [4, 5, 9, 10, 11, 12, 13])
def test_the_cut_is_the_longest_that_fits(most):
    some = Samples(features=np.eye(3), texts=["a", "bbbb", "ccccccc"])
    texts, cut = shown_texts(some, np.arange(3), most=most)
    if most >= 12:
        assert (texts, cut) == (list(some.texts), None)
    else:
        fits = [c for c in range(1, 8) if sum(min(n, c) for n in (1, 4, 7)) <= most]
        assert cut == max(fits)


def test_the_key_tells_features_apart(tmp_path):
    one = content_of(write_atlas(tmp_path / "a.html", Atlas(samples=samples_of_texts())).path)
    same = content_of(write_atlas(tmp_path / "b.html", Atlas(samples=samples_of_texts())).path)
    other = content_of(write_atlas(tmp_path / "c.html", Atlas(samples=samples_of_texts(60))).path)
    assert one["key"] == same["key"] != other["key"]


def test_words_of_captions_are_those_of_the_page(tmp_path):
    images = np.zeros((90, 8, 8), dtype=np.uint8)
    spoken = samples_of_texts()
    shown = Samples(features=spoken.features, images=images, kind="image")
    both = Atlas(samples=shown, captions=spoken, caption_of=np.arange(90))
    words = content_of(write_atlas(tmp_path / "a.html", both).path)["words"]
    assert words["words"][0] == "black tea"


def test_a_curated_page_shows_dead_features_in_the_count_only(tmp_path):
    samples = samples_of_texts()
    page = Atlas(samples=samples, names=["tea", "train", "bread", "night", ""])
    content = content_of(write_atlas(tmp_path / "a.html", page).path)
    assert 4 not in array(content["tree"]["features"])
    assert 4 not in array(content["space"]["map"])
    alive = next(row for row in content["figures"] if row["key"] == "alive_rate")
    assert alive["cells"]["features"]["beside"]["n_dead"] == 1
