"""``nonneg report`` as a user types it: of runs, of files, of images with captions."""

import json
import re
import shutil
from base64 import b64decode

import numpy as np
import pytest
from PIL import Image

from nonneg.data import load
from nonneg.data.dataset import permutation
from nonneg.data.feature_file import write_features
from nonneg.evaluation import Evaluation, Figure
from nonneg.evaluation.evaluation import Measured
from nonneg.io import digest_of_file

QUICK = [
    "encoder.backbone.width=4",
    "encoder.projector.hidden=[16]",
    "encoder.projector.n_features=32",
    "loss.backbone_weight=0.25",
    "training.epochs=2",
    "training.warmup_epochs=1",
]


@pytest.fixture(scope="module")
def runs(nonneg, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    overrides = [part for override in QUICK for part in ("--set", override)]
    for preset in ("digits", "digits-cl"):
        ended = nonneg("train", preset, *overrides, "--out", folder / preset)
        assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture
def vectors(tmp_path):
    """Features of five samples and what can be shown of them."""
    write_features(tmp_path / "Z.npz", np.eye(5, dtype=np.float32), labels=np.arange(5) % 2)
    (tmp_path / "texts.txt").write_text("one\ntwo\nthree\nfour\n<b>five</b>\n")
    np.save(tmp_path / "images.npy", np.zeros((5, 8, 8), np.uint8))
    np.save(tmp_path / "short.npy", np.zeros((3, 8, 8), np.uint8))
    return tmp_path


def content_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="content">(.*?)</script>', text, re.DOTALL)[1])


def test_a_run_beside_another(nonneg, runs, tmp_path):
    out = tmp_path / "atlas.html"
    options = ["--against", runs / "digits-cl", "--other-seed", runs / "digits", "--out", out]
    ended = nonneg("report", runs / "digits", *options, "--figures", tmp_path / "figures")
    assert ended.returncode == 0, ended.stderr
    assert f"360 samples): {out}" in ended.stdout
    assert "NCL has no accuracies: evaluation.json is missing" in ended.stdout
    content = content_of(out)
    assert content["title"] == "digits: NCL beside CL"
    assert content["against"]["method"] == "CL"
    assert [chart["key"] for chart in content["training"]][:2] == ["loss", "progress_rate"]
    assert list(content["training"][0]["lines"]) == ["CL", "NCL"]
    assert content["training"][0]["collapse"] > 0
    assert content["sepin"]["shape"] == [32]
    assert content["class_names"] == list("0123456789")
    assert "0.5, 25 % of it of the backbone's output" in content["about"][0]
    assert "trained on 1,237 samples for 2 epochs, seed 0" in content["about"][0]
    assert content["about"][-1] == "Partners in another seed are from digits."
    returned = next(row for row in content["figures"] if row["key"] == "returned")
    assert returned["cells"]["NCL"]["value"] == 1
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {
        f"{name}.{ending}"
        for name in ("montage", "properties", "correlation", "sepin")
        for ending in ("png", "svg")
    }


def test_an_evaluation_of_these_weights_is_taken_up(nonneg, runs, tmp_path):
    run = runs / "digits"
    path = run / "evaluation.json"
    figures = {
        "probe_hidden": Figure(0.75, is_rate=True),
        "selection_probe_all": Figure(0.7, beside={"n_features": 32}),
        "selection_probe_0.5_ea_rectified": Figure(0.6, beside={"n_features": 8}),
        "selection_retrieval_0.5_random": Figure(0.5, beside={"n_features": 8, "std": 0.1}),
    }
    evaluation = Evaluation(digest_of_file(run / "model.safetensors"), {})
    evaluation.sections["probe"] = Measured(figures, {}, 0.0, {})
    evaluation.write(path)
    try:
        assert nonneg("report", run, "--out", tmp_path / "a.html").returncode == 0
        content = content_of(tmp_path / "a.html")
        probe = next(row for row in content["figures"] if row["key"] == "probe_hidden")
        assert probe["cells"]["NCL"]["value"] == 0.75
        points = [tuple(point.values()) for point in content["space"]["selection"]["NCL"]]
        assert points == [
            ("probe", "all", 32, 0.7, None),
            ("probe", "ea_rectified", 8, 0.6, None),
            ("retrieval", "random", 8, 0.5, 0.1),
        ]
        evaluation.model = "another"
        evaluation.write(path)
        ended = nonneg("report", run, "--out", tmp_path / "b.html")
        assert "evaluation.json of NCL is of other features" in ended.stdout
        rows = [row["key"] for row in content_of(tmp_path / "b.html")["figures"]]
        assert "probe_hidden" not in rows
    finally:
        path.unlink()


def test_the_atlas_of_a_run_lies_in_its_folder_and_may_be_of_the_training_set(nonneg, runs):
    ended = nonneg("report", runs / "digits-cl", "--split", "train", "--samples", "100")
    assert ended.returncode == 0, ended.stderr
    content = content_of(runs / "digits-cl" / "atlas.html")
    assert content["n_samples"] == 1437
    assert content["sides"][0]["n"] == 100
    assert "100 of 1,437 samples are shown" in ended.stdout
    assert "CL has negative features" in ended.stdout


def test_a_fitted_run_with_the_texts_of_its_test_samples(nonneg, tmp_path):
    rng = np.random.default_rng(0)
    kinds = rng.integers(5, size=200)
    np.save(tmp_path / "X.npy", np.eye(5)[kinds] + 0.05 * rng.normal(size=(200, 5)))
    np.save(tmp_path / "test.npy", np.eye(5)[np.arange(30) % 5])
    (tmp_path / "texts.txt").write_text("".join(f"kind {i % 5} here\n" for i in range(30)))
    files = [tmp_path / "X.npy", "--test", tmp_path / "test.npy"]
    sets = ["--set", "n_components=16", "--set", "max_steps=20"]
    ended = nonneg("fit", *files, *sets, "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    ended = nonneg("report", tmp_path / "run", "--texts", tmp_path / "texts.txt")
    assert ended.returncode == 0, ended.stderr
    content = content_of(tmp_path / "run" / "atlas.html")
    assert (content["n_samples"], content["n_features"]) == (30, 16)
    assert content["sides"][0]["texts"][7] == "kind 2 here"
    assert content["monosemanticity"] is not None
    assert content["training"][0]["key"] == "loss"


def test_texts_of_all_vectors_where_some_were_kept_for_testing(nonneg, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", np.eye(5)[np.arange(200) % 5] + 0.05 * rng.normal(size=(200, 5)))
    (tmp_path / "texts.txt").write_text("".join(f"text {i} of kind {i % 5}\n" for i in range(200)))
    (tmp_path / "kinds.txt").write_text("".join(f"kind {i % 5}\n" for i in range(200)))
    images = np.arange(200, dtype=np.uint8)[:, None, None].repeat(4, 1).repeat(4, 2)
    np.save(tmp_path / "images.npy", images)
    sets = ["--set", "n_components=16", "--set", "max_steps=20"]
    ended = nonneg("fit", tmp_path / "X.npy", *sets, "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    files = ["--texts", tmp_path / "texts.txt", "--labels", tmp_path / "kinds.txt"]
    ended = nonneg("report", tmp_path / "run", *files, "--images", tmp_path / "images.npy")
    assert ended.returncode == 0, ended.stderr
    content = content_of(tmp_path / "run" / "atlas.html")
    kept = permutation(200, seed=0)[:20].sort().values.tolist()
    assert content["sides"][0]["texts"] == [f"text {i} of kind {i % 5}" for i in kept]
    assert content["n_samples"] == 20
    numbers = content["sides"][0]["numbers"]
    assert np.frombuffer(b64decode(numbers["data"]), numbers["type"]).tolist() == kept
    shown = "Shown: 20 test samples of X.npy, numbered by their rows there, from 0."
    assert content["about"][-1] == shown
    (tmp_path / "few.txt").write_text("one\ntwo\n")
    ended = nonneg("report", tmp_path / "run", "--texts", tmp_path / "few.txt")
    assert ended.returncode == 1
    assert "texts has 2 entries for 20 samples; give one each" in ended.stderr


def test_features_of_a_file_with_texts_and_labels(nonneg, vectors):
    (vectors / "labels.txt").write_text("fruit\ntool\nfruit\ntool\nfruit\n")
    options = ["--texts", vectors / "texts.txt", "--labels", vectors / "labels.txt"]
    options += ["--reference", vectors / "Z.npz", "--title", "Mine & <mine>"]
    ended = nonneg("report", vectors / "Z.npz", *options)
    assert ended.returncode == 0, ended.stderr
    content = content_of(vectors / "Z.html")
    assert content["title"] == "Mine & <mine>"
    assert "<title>Mine &amp; &lt;mine&gt;</title>" in (vectors / "Z.html").read_text()
    assert content["sides"][0]["texts"][4] == "<b>five</b>"
    assert content["class_names"] == ["fruit", "tool"]
    assert content["features"]["names"][:2] == ["fruit", "tool"]  # "one" and "two" tell nothing
    assert content["monosemanticity"] is not None


def test_files_beside_each_other_and_numbers_as_labels(nonneg, vectors):
    np.save(vectors / "other.npy", np.ones((5, 2)))
    (vectors / "labels.txt").write_text("2\n0\n1\n0\n1\n")
    (vectors / "names.json").write_text('["red", "blue", "green"]')
    options = ["--against", vectors / "other.npy", "--labels", vectors / "labels.txt"]
    ended = nonneg("report", vectors / "Z.npz", *options, "--class-names", vectors / "names.json")
    assert ended.returncode == 0, ended.stderr
    content = content_of(vectors / "Z.html")
    assert (content["method"], content["against"]["method"]) == ("Z", "other")
    assert content["features"]["names"] == ["green", "red", "blue", "red", "blue"]


def test_images_with_captions(nonneg, vectors):
    write_features(vectors / "T.npz", np.eye(5, dtype=np.float32)[[0, 0, 1]])
    np.save(vectors / "of.npy", np.array([0, 0, 1]))
    (vectors / "captions.jsonl").write_text('{"text": "a"}\n"b"\n{"text": "c", "more": 1}\n')
    options = ["--images", vectors / "images.npy", "--captions", vectors / "T.npz"]
    options += ["--texts", vectors / "captions.jsonl", "--caption-of", vectors / "of.npy"]
    ended = nonneg("report", vectors / "Z.npz", *options)
    assert ended.returncode == 0, ended.stderr
    content = content_of(vectors / "Z.html")
    assert content["title"] == "Z and T"
    assert content["about"] == ["5 images × 5 features of Z.npz.", "3 captions of T.npz."]
    images, captions = content["sides"]
    assert (images["kind"], images["texts"]) == ("image", None)
    assert images["image_sheets"]["width"] == 8
    assert (captions["kind"], captions["texts"]) == ("caption", ["a", "b", "c"])


def test_images_of_a_folder_come_in_the_order_of_their_names(nonneg, tmp_path):
    write_features(tmp_path / "Z.npz", np.eye(3, dtype=np.float32))
    (tmp_path / "pictures").mkdir()
    for name, colour in (("b", 200), ("a", 10), ("c", 90)):
        Image.new("L", (40, 40), colour).save(tmp_path / "pictures" / f"{name}.png")
    ended = nonneg("report", tmp_path / "Z.npz", "--images", tmp_path / "pictures")
    assert ended.returncode == 0, ended.stderr
    side = content_of(tmp_path / "Z.html")["sides"][0]
    assert side["image_sheets"]["width"] == 128
    assert side["ids"] == ["a.png", "b.png", "c.png"]
    (tmp_path / "ids.txt").write_text("x\ny\nz\n")
    options = ["--images", tmp_path / "pictures", "--ids", tmp_path / "ids.txt"]
    assert nonneg("report", tmp_path / "Z.npz", *options).returncode == 0
    assert content_of(tmp_path / "Z.html")["sides"][0]["ids"] == ["x", "y", "z"]


BAD = {
    "no source": (["nowhere"], "nowhere is neither a run folder nor a file; "),
    "no run": (["."], ". holds no run: run.json is missing"),
    "no texts": (["Z.npz", "--texts", "none.txt"], "there is no file none.txt"),
    "few texts": (["Z.npz", "--texts", "few.txt"], "texts has 1 entries for 5 samples"),
    "few images": (["Z.npz", "--images", "short.npy"], "short.npy holds 3 images for 5 samples"),
    "few labels": (["Z.npz", "--labels", "few.txt"], "labels has 1 labels for 5 samples"),
    "no jsonl": (["Z.npz", "--texts", "bad.jsonl"], "line 1 of bad.jsonl is not JSON"),
    "no text": (["Z.npz", "--texts", "no.jsonl"], 'line 1 of no.jsonl has no "text"'),
    "no captions": (["Z.npz", "--caption-of", "short.npy"], "caption_of says whose the captions"),
    "captions only": (
        ["Z.npz", "--captions", "Z.npz"],
        "Z.npz has features of captions; ",
    ),
    "NaN": (["nan.npy"], "all 5 samples have NaN or infinite features"),
    "not features": (["few.txt"], "few.txt is not a readable .npz file: it is no whole zip file"),
    "empty features": (["empty.npz"], "empty.npz is not a readable .npz file: it is empty"),
    "cut features": (["cut.npz"], "cut.npz is not a readable .npz file"),
    "empty npy": (["empty.npy"], "empty.npy is not a readable .npy file: it is empty"),
    "empty texts": (["Z.npz", "--texts", "empty.txt"], "texts has 0 entries for 5 samples"),
    "other letters": (["Z.npz", "--texts", "latin.txt"], "latin.txt is no text in UTF-8"),
    "other labels": (["Z.npz", "--labels", "latin.txt"], "latin.txt is no text in UTF-8"),
    "flat images": (["Z.npz", "--images", "flat.npy"], "flat.npy holds an array of shape (5,)"),
    "names of nothing": (["bare.npy", "--class-names", "few.txt"], "few.txt names classes, but"),
    "names of words": (
        ["Z.npz", "--labels", "texts.txt", "--class-names", "few.txt"],
        "few.txt names the classes 0, 1, …, but texts.txt has other labels, such as '<b>five</b>'",
    ),
    "few captions": (
        ["Z.npz", "--captions", "Z.npz", "--texts", "few.txt"],
        "texts has 1 entries for 5 captions; give one each",
    ),
    "whose captions": (
        ["Z.npz", "--captions", "Z.npz", "--texts", "texts.txt", "--caption-of", "short.npy"],
        "caption_of holds uint8 of shape (3, 8, 8); give one whole number per caption",
    ),
    "flat reference": (["Z.npz", "--reference", "flat.npy"], "reference has shape (5,); give one"),
    "unfinished run": (["unfinished"], "unfinished is not finished: config.json is missing"),
    "split": ([".", "--split", "valid"], "unknown split 'valid'; known: test, train, held-out"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_one_sentence_and_writes_nothing(nonneg, runs, vectors, case):
    arguments, sentence = BAD[case]
    (vectors / "few.txt").write_text("1\n")
    (vectors / "bad.jsonl").write_text("{\n")
    (vectors / "no.jsonl").write_text('{"words": 1}\n')
    np.save(vectors / "nan.npy", np.full((5, 2), np.nan))
    np.save(vectors / "flat.npy", np.ones(5))
    np.save(vectors / "bare.npy", np.eye(5))
    for name in ("empty.npz", "empty.npy", "empty.txt"):
        (vectors / name).touch()
    (vectors / "cut.npz").write_bytes((vectors / "Z.npz").read_bytes()[:100])
    (vectors / "latin.txt").write_bytes("café\n".encode("latin-1") * 5)
    (vectors / "unfinished").mkdir()
    shutil.copy(runs / "digits" / "run.json", vectors / "unfinished")
    before = sorted(vectors.iterdir())
    ended = nonneg("report", *arguments, cwd=vectors)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: {sentence}")
    assert ended.stderr.count("\n") == 1
    assert sorted(vectors.iterdir()) == before


def test_runs_on_other_samples_are_not_put_side_by_side(nonneg, runs, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(runs / "digits-cl", other)
    record = (other / "run.json").read_text()
    (other / "run.json").write_text(record.replace('"name": "digits"', '"name": "sprites"'))
    ended = nonneg("report", runs / "digits", "--against", other)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: {other} is on sprites (")
    assert "side by side they need the same samples" in ended.stderr
    assert ended.stderr.count("\n") == 1
    ended = nonneg("report", runs / "digits", "--against", runs / "Z.npz")
    assert ended.stderr.startswith(f"error: {runs / 'Z.npz'} is no run folder")


def test_what_differs_besides_the_transform_is_said(nonneg, runs, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(runs / "digits-cl", other)
    record = (
        (other / "run.json").read_text().replace('"backbone_weight": 0.25', '"backbone_weight": 1')
    )
    (other / "run.json").write_text(record.replace('"lr": 0.002', '"lr": 0.5'))
    options = ["--against", other, "--out", tmp_path / "atlas.html"]
    ended = nonneg("report", runs / "digits", *options)
    assert "The two runs differ by more than the transform: " in ended.stdout
    assert "loss.backbone_weight" in ended.stdout
    assert "optimizer.lr" in ended.stdout
    about = content_of(tmp_path / "atlas.html")["about"]
    assert "0.5, the backbone by the same loss of its own output" in about[1]


def test_another_seed_that_is_more_than_that_is_said(nonneg, runs, vectors):
    options = ["--other-seed", runs / "digits-cl", "--out", vectors / "atlas.html"]
    ended = nonneg("report", runs / "digits", *options)
    assert ended.returncode == 0, ended.stderr
    said = f"{runs / 'digits-cl'} is not only another seed; it differs by encoder.nonnegative."
    assert said in ended.stdout
    np.save(vectors / "wide.npy", np.eye(5, 7))
    ended = nonneg("report", "Z.npz", "--other-seed", "wide.npy", cwd=vectors)
    assert "wide.npy is not only another seed: it has 7 features, not 5." in ended.stdout
    ended = nonneg("report", "Z.npz", "--other-seed", "Z.npz", cwd=vectors)
    assert "not only another seed" not in ended.stdout


def test_help_has_an_example_and_the_options(nonneg):
    ended = nonneg("report", "--help")
    assert ended.returncode == 0
    assert "Example: nonneg report" in ended.stdout
    for option in ("--against", "--other-seed", "--texts", "--captions", "--figures"):
        assert option in ended.stdout


def test_the_shown_samples_are_those_of_the_set(nonneg, runs, tmp_path):
    nonneg("report", runs / "digits", "--out", tmp_path / "atlas.html")
    packed = content_of(tmp_path / "atlas.html")["sides"][0]["labels"]
    labels = np.frombuffer(b64decode(packed["data"]), packed["type"])
    assert labels.tolist() == load("digits", split="test").labels.tolist()
