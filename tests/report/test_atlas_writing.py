"""The written page: self-contained, small, and its numbers are those of the metrics."""

import base64
import json
import re

import numpy as np
import pytest
from scipy import sparse

from nonneg import metrics
from nonneg.metrics.figures import Figure
from nonneg.report import Atlas, RunInfo, Samples, Training, write_atlas


def content_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="content">(.*?)</script>', text, re.DOTALL)[1])


def array(packed):
    values = np.frombuffer(base64.b64decode(packed["data"]), dtype=packed["type"])
    return values.reshape(packed["shape"])


def digit_samples(world, **more):
    given = {"labels": world.labels, "images": world.images, "class_names": world.class_names}
    return Samples(features=world.features, **(given | more))


def test_the_page_asks_for_nothing_and_lets_only_its_own_script_run(world, tmp_path):
    written = write_atlas(tmp_path / "atlas.html", Atlas(samples=digit_samples(world)))
    text = written.path.read_text(encoding="utf-8")
    assert written.n_bytes == len(text.encode())
    page = text[: text.index('<script type="application/json"')]
    assert "default-src 'none'" in page
    assert "unsafe-inline" not in page
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', page) == []
    script = re.search(r"<script>(.*)</script>", text, re.DOTALL)[1]
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", script) == []
    assert "innerHTML" not in script


def test_figures_are_those_of_the_metrics(world, tmp_path):
    atlas = Atlas(samples=digit_samples(world), method="NCL", reference=world.pixels)
    content = content_of(write_atlas(tmp_path / "atlas.html", atlas).path)
    found = {row["key"]: row["cells"]["NCL"]["value"] for row in content["figures"]}
    Z, y = world.features, world.labels
    assert found["sparsity"] == pytest.approx(metrics.sparsity(Z).value)
    assert found["correlation"] == pytest.approx(metrics.feature_correlation(Z).value)
    assert found["effective_rank"] == pytest.approx(metrics.effective_rank(Z).value)
    assert found["top20_purity"] == pytest.approx(metrics.top_purity(Z, y).value)
    consistency = metrics.class_consistency(Z, y, min_active=20)
    assert found["class_consistency_min20"] == pytest.approx(consistency.value)
    titles = {row["key"]: row["title"] for row in content["figures"]}
    assert titles["class_consistency_min20"] == "Consistency of frequent features (≥ 20 active)"
    alike = metrics.monosemanticity(Z, world.pixels)
    assert found["monosemanticity"] == pytest.approx(alike.value)
    np.testing.assert_allclose(array(content["monosemanticity"]), alike.per_feature, rtol=1e-6)
    np.testing.assert_allclose(
        array(content["features"]["purity"]), metrics.top_purity(Z, y).per_feature
    )
    np.testing.assert_allclose(
        array(content["features"]["expected"]),
        metrics.expected_activation(Z).per_feature,
        rtol=1e-5,
    )


def test_partners_in_another_seed_are_found(world, tmp_path):
    atlas = Atlas(samples=digit_samples(world), other_seed=world.features[:, ::-1])
    content = content_of(write_atlas(tmp_path / "atlas.html", atlas).path)
    partner = array(content["seed"]["partner"])
    assert partner.tolist() == [43 - j if j < 40 else -1 for j in range(44)]
    returned = next(row for row in content["figures"] if row["key"] == "returned")
    assert returned["cells"]["features"]["value"] == 1


def test_more_samples_than_asked_for_are_drawn_and_statistics_stay(world, tmp_path):
    atlas = Atlas(samples=digit_samples(world))
    whole = content_of(write_atlas(tmp_path / "whole.html", atlas).path)
    written = write_atlas(tmp_path / "part.html", atlas, max_samples=50)
    part = content_of(written.path)
    assert written.n_shown == 50
    assert "50 of 360 samples are shown, drawn at random" in " ".join(written.notes)
    numbers = array(part["sides"][0]["numbers"])
    assert array(part["sides"][0]["labels"]).tolist() == world.labels[numbers].tolist()
    assert part["features"]["histogram"] == whole["features"]["histogram"]
    assert part["figures"] == whole["figures"]
    assert array(part["features"]["top"]).max() < 50


def test_samples_have_the_numbers_of_their_own_set(world, tmp_path):
    own = 1000 + 2 * np.arange(360)
    atlas = Atlas(samples=digit_samples(world, numbers=own))
    whole = content_of(write_atlas(tmp_path / "whole.html", atlas).path)
    assert array(whole["sides"][0]["numbers"]).tolist() == own.tolist()
    part = content_of(write_atlas(tmp_path / "part.html", atlas, max_samples=50).path)["sides"][0]
    labels = world.labels[(array(part["numbers"]) - 1000) // 2]
    assert array(part["labels"]).tolist() == labels.tolist()
    features = world.features.copy()
    features[0, 0] = np.nan
    atlas = Atlas(samples=Samples(features=features))
    finite = content_of(write_atlas(tmp_path / "finite.html", atlas).path)["sides"][0]
    assert array(finite["numbers"]).tolist() == list(range(1, 360))


def test_captions_follow_the_samples_that_are_shown(world, tmp_path):
    texts = [f"text {i}" for i in range(720)]
    of = np.repeat(np.arange(360), 2)
    atlas = Atlas(
        samples=digit_samples(world),
        captions=Samples(features=world.features[of], texts=texts),
        caption_of=of,
    )
    content = content_of(write_atlas(tmp_path / "atlas.html", atlas, max_samples=30).path)
    images, captions = content["sides"]
    assert captions["n"] == 30
    shown = array(images["numbers"])
    for text, place in zip(captions["texts"], array(captions["pair"]), strict=True):
        assert int(text.split()[1]) // 2 == shown[place]


def test_dense_signed_features_are_cut_to_the_strongest_and_said_so(tmp_path, monkeypatch):
    monkeypatch.setattr("nonneg.report.contents.MAX_ENTRIES", 1000)
    rng = np.random.default_rng(0)
    samples = Samples(features=rng.normal(size=(100, 40)))
    written = write_atlas(tmp_path / "atlas.html", Atlas(samples=samples, method="CL"))
    content = content_of(written.path)
    assert array(content["sides"][0]["starts"])[-1] == 1000
    notes = " ".join(written.notes)
    assert "keeps the 10 strongest of each sample" in notes
    assert "CL has negative features" in notes


def test_captions_bring_figures_and_agreement(world, tmp_path):
    of = np.arange(len(world.features))
    texts = [f"a drawing of a {label}" for label in world.labels]
    samples = Samples(features=world.features, images=world.images, kind="image")
    captions = Samples(features=world.features, texts=texts, kind="caption")
    atlas = Atlas(samples=samples, captions=captions, caption_of=of)
    content = content_of(write_atlas(tmp_path / "atlas.html", atlas).path)
    rows = {row["key"]: row for row in content["figures"]}
    assert rows["agreement"]["cells"]["features"]["value"] == pytest.approx(1)
    assert rows["alive_both"]["cells"]["features"]["beside"]["n_alive"] == 40
    assert rows["caption_to_sample"]["title"] == "Captions that find their image"
    assert rows["sample_to_caption"]["title"] == "Images that find a caption of theirs"
    agreement = array(content["captions"]["agreement"])
    np.testing.assert_allclose(agreement[:40], 1, rtol=1e-6)
    assert np.isnan(agreement[40:]).all()
    unknown = Atlas(samples=samples, captions=captions)
    written = write_atlas(tmp_path / "unknown.html", unknown)
    assert any("Which sample a caption belongs to is not known" in note for note in written.notes)
    assert "agreement" not in {row["key"] for row in content_of(written.path)["figures"]}
    dead = Samples(features=np.zeros((2, 44)), texts=["a", "b"], kind="caption")
    written = write_atlas(tmp_path / "dead.html", Atlas(samples=samples, captions=dead))
    assert "No feature is active for any caption." in written.notes


def test_what_is_missing_is_said(tmp_path):
    written = write_atlas(tmp_path / "atlas.html", Atlas(samples=Samples(features=np.eye(3))))
    assert written.notes == (
        "There are no labels, so nothing is said of classes and purity.",
        "There are neither images nor texts; samples are shown by number.",
        "SEPIN is left out: it needs two views of each sample, and the run that made them.",
        "Monosemanticity is left out: it needs a reference embedding of the samples.",
    )


def test_too_few_samples_for_a_figure_are_said(tmp_path):
    samples = Samples(features=np.tile(np.eye(4), (8, 1)), labels=np.arange(32) % 4)
    written = write_atlas(tmp_path / "atlas.html", Atlas(samples=samples, method="NCL"))
    said = (
        "Class consistency and purity of NCL are left out: no feature is on for 20 of the 32 "
        "samples. Show more of them: of a run with --split train, or of a fit with a larger "
        "--test-share."
    )
    assert said in written.notes
    many = Samples(features=np.tile(np.eye(4), (20, 1)), labels=np.arange(80) % 4)
    written = write_atlas(tmp_path / "atlas.html", Atlas(samples=many))
    assert not any("left out: no feature" in note for note in written.notes)


def test_one_sample_and_one_feature_are_an_atlas(tmp_path):
    samples = Samples(features=[[2.0]], labels=[0], texts=["one"])
    content = content_of(write_atlas(tmp_path / "atlas.html", Atlas(samples=samples)).path)
    assert content["features"]["names"] == ["0"]  # no word sets it apart: its class does


def test_what_is_known_of_a_run_is_told(tmp_path):
    records = [
        {"epoch": 1, "loss": 2.0, "sparsity": None},
        {"epoch": 2, "loss": 1.0, "alive_features": 30},  # one point is no chart
    ]
    run_info = RunInfo(
        about=["what was trained"],
        figures={"NCL": {"probe_hidden": Figure(0.9, is_rate=True)}},
        training={"NCL": Training(records, {"loss": 3.0})},
        notes=["no accuracies"],
    )
    samples = Samples(features=sparse.csr_array(np.eye(30)))
    atlas = Atlas(samples=samples, method="NCL", run_info=run_info)
    content = content_of(write_atlas(tmp_path / "atlas.html", atlas).path)
    assert content["about"] == ["what was trained"]
    assert content["notes"][0] == "no accuracies"
    assert content["training"] == [
        {"key": "loss", "title": "Loss", "lines": {"NCL": [[1, 2.0], [2, 1.0]]}, "collapse": 3.0}
    ]
    assert content["figures"][-1]["title"] == "Linear probe (hidden)"


def test_ten_thousand_samples_with_images_stay_small(tmp_path):
    """The budget is 30 MB for 10,000 samples × 1,024 features; here a tenth of the samples."""
    rng = np.random.default_rng(0)
    features = sparse.random_array((1000, 1024), density=0.02, rng=rng, format="csr")
    images = rng.integers(0, 256, size=(1000, 28, 28), dtype=np.uint8)  # cannot be compressed
    samples = Samples(features=features, images=images, labels=rng.integers(10, size=1000))
    written = write_atlas(tmp_path / "atlas.html", Atlas(samples=samples))
    assert written.n_bytes < 3_000_000


def test_an_old_page_stays_if_the_new_one_fails(tmp_path):
    path = tmp_path / "atlas.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="max_samples is 0"):
        write_atlas(path, Atlas(samples=Samples(features=np.eye(2))), max_samples=0)
    assert path.read_text() == "old"


def test_texts_that_tell_nothing_leave_features_their_classes(world, tmp_path):
    same = Samples(
        features=world.features,
        labels=world.labels,
        class_names=world.class_names,
        texts=["a scan of a digit"] * len(world.labels),
    )
    names = content_of(write_atlas(tmp_path / "texts.html", Atlas(samples=same)).path)["features"][
        "names"
    ]
    plain = Atlas(samples=digit_samples(world))
    assert (
        names == content_of(write_atlas(tmp_path / "plain.html", plain).path)["features"]["names"]
    )
    assert any(names)
