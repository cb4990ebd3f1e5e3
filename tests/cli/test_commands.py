"""The commands as a user types them; errors are one sentence and leave earlier results alone."""

import shutil
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest

import nonneg as package
from nonneg import Encoder
from nonneg.data import load
from nonneg.data.feature_file import read_features
from nonneg.runs import read_experiment

QUICK = [
    "encoder.backbone.width=4",
    "encoder.projector.hidden=[16]",
    "encoder.projector.n_features=32",
    "training.epochs=2",
    "training.warmup_epochs=1",
    "training.revive=false",  # so that features stay sparse enough for a sparse file
]


def quick(*overrides):
    return [part for override in (*QUICK, *overrides) for part in ("--set", override)]


@pytest.fixture(scope="module")
def run(nonneg, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "quick"
    ended = nonneg("train", "digits", *quick(), "--out", folder)
    assert ended.returncode == 0, ended.stderr
    assert "epoch   2/2 · loss" in ended.stdout
    assert " samples/s\n" in ended.stdout
    assert f"encoder, settings and history: {folder}" in ended.stdout
    return folder


def test_a_run_folder_has_all_that_is_needed(run):
    names = sorted(path.name for path in run.iterdir())
    assert names == ["checkpoints", "config.json", "history.jsonl", "model.safetensors", "run.json"]


def test_embed_writes_the_features_of_the_encoder(nonneg, run, tmp_path):
    ended = nonneg("embed", run, "digits", "--hidden", "--out", tmp_path / "Z.npz")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == f"360 samples × 32 features, sparse: {tmp_path / 'Z.npz'}"
    features, arrays = read_features(tmp_path / "Z.npz")
    test = load("digits", split="test")
    encoded = Encoder.load(run).encode(test)
    np.testing.assert_allclose(features.toarray(), encoded.features.numpy(), atol=1e-6)
    np.testing.assert_allclose(arrays["hidden"], encoded.hidden.numpy(), atol=1e-6)
    assert arrays["labels"].tolist() == test.labels.tolist()
    assert arrays["class_names"].tolist() == list("0123456789")


def test_embed_reads_a_file_of_ones_own(nonneg, run, tmp_path):
    np.save(tmp_path / "mine.npy", np.zeros((3, 8, 8), np.uint8))
    ended = nonneg("embed", run, tmp_path / "mine.npy", "--out", tmp_path / "Z.npz")
    assert ended.returncode == 0, ended.stderr
    features, arrays = read_features(tmp_path / "Z.npz")
    assert features.shape == (3, 32)
    assert arrays == {}


def test_presets_lists_each_with_what_it_is(nonneg):
    ended = nonneg("presets")
    assert ended.returncode == 0, ended.stderr
    for name in ("digits", "sprites", "fashion-mnist", "cifar10-small", "cifar100", "imagenet100"):
        assert name in ended.stdout


def test_presets_explains_every_setting_of_one(nonneg, tmp_path):
    (tmp_path / "mine.toml").write_text(
        '[data]\nname = "digits"\n[loss]\ntemperature = 0.3\n[encoder]\n[views]\nflip_rate = 0.5'
    )
    for name, value in (("fashion-mnist", "0.12"), (tmp_path / "mine.toml", "0.3")):
        ended = nonneg("presets", name)
        assert ended.returncode == 0, ended.stderr
        lines = ended.stdout.splitlines()
        place = lines.index(f"loss.temperature = {value}")
        assert lines[place + 1].strip().startswith("Of losses that compare by cosine.")
        assert "views.blur_sigma = [0.1, " in ended.stdout
        assert "Undefined" not in ended.stdout


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["train"],
        ["evaluate"],
        ["compare"],
        ["fit"],
        ["embed"],
        ["demo"],
        ["presets"],
        ["theory"],
    ],
)
def test_help_has_an_example(nonneg, command):
    ended = nonneg(*command, "--help")
    assert ended.returncode == 0
    assert not command or f"Example: nonneg {command[0]}" in ended.stdout


def test_the_same_folder_is_never_written_over(nonneg, run):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for more in ([], ["--resume"]):
        again = nonneg("train", "digits", *quick(), "--out", run, *more)
        assert again.returncode == 0, again.stderr
        assert again.stdout == f"already done: {run}\n"
    other = nonneg("train", "digits", *quick("optimizer.lr=0.3"), "--out", run, "--resume")
    assert other.returncode == 1
    assert other.stderr.strip() == (
        f"error: {run} holds a run with other settings (optimizer.lr: 0.002 there, 0.3 here); "
        "choose another folder, or delete this one"
    )
    cl = nonneg("train", "digits-cl", *quick(), "--out", run, "--resume")
    assert "(encoder.nonnegative: 'relu' there, 'identity' here)" in cl.stderr
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_run_that_is_not_finished_is_not_begun_again(nonneg, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "config.json").unlink()
    again = nonneg("train", "digits", *quick(), "--out", copy)
    assert again.returncode == 1
    assert again.stderr.strip() == (
        f"error: {copy} already holds this run; resume it (--resume, from Python resume=True) or "
        "choose another folder"
    )
    for command in (["evaluate", copy], ["report", copy], ["embed", copy, "digits"]):
        ended = nonneg(*command, cwd=tmp_path)
        assert ended.returncode == 1
        assert ended.stderr.startswith(f"error: {copy} is not finished: config.json is missing; ")
        assert "nonneg train … --resume" in ended.stderr
    assert nonneg("train", "digits", *quick(), "--out", copy, "--resume").returncode == 0
    assert (copy / "config.json").read_bytes() == (run / "config.json").read_bytes()


def test_the_version_is_that_of_the_package(nonneg):
    ended = nonneg("--version")
    assert ended.returncode == 0
    assert ended.stdout == f"nonneg {version('nonneg')}\n"
    assert package.__version__ == version("nonneg")


def test_help_says_where_a_run_goes(nonneg):
    said = " ".join(nonneg("train", "--help").stdout.split())
    for overrides in ([], ["seed=1"]):
        name, _ = read_experiment("digits-cl" if overrides else "digits", overrides)
        assert f"runs/{name}" in said


def test_theory_looks_at_its_folder_first(nonneg, tmp_path):
    (tmp_path / "file").write_text("mine")
    ended = nonneg("theory", "--out", tmp_path / "file")
    assert ended.returncode == 1
    assert ended.stderr == f"error: {tmp_path / 'file'} is a file; choose another folder\n"
    assert (tmp_path / "file").read_text() == "mine"


BAD = {
    "preset": (
        ["train", "digit"],
        "there is no preset 'digit'; nearest: digits (each also as NAME-cl), or give a .toml file",
    ),
    "file": (["train", "none.toml"], "there is no file none.toml"),
    "key": (
        ["train", "digits", "--set", "optimizer.lrate=1"],
        "unknown setting 'optimizer.lrate'; nearest: optimizer.lr\n",
    ),
    "far key": (
        ["train", "digits", "--set", "optimizer.zzz=1"],
        "unknown setting 'optimizer.zzz'; known: optimizer.name, optimizer.lr, optimizer.weight",
    ),
    "key without its group": (
        ["train", "digits", "--set", "epochs=3"],
        "unknown setting 'epochs'; nearest: training.epochs\n",
    ),
    "misspelt key": (
        ["train", "digits", "--set", "loss.temprature=0.2"],
        "unknown setting 'loss.temprature'; nearest: loss.temperature",
    ),
    "view key": (
        ["train", "digits", "--set", "views.flip=1"],
        "setting 'views': unknown setting 'flip'; nearest: flip_rate",
    ),
    "temperature": (
        ["train", "digits", "--set", "loss.temperature=0"],
        "setting 'loss.temperature': input should be greater than 0, got 0",
    ),
    "batch of one": (
        ["train", "digits", "--set", "training.batch_size=1"],
        "setting 'training.batch_size': input should be greater than or equal to 2, got 1",
    ),
    "too few samples": (
        ["train", "digits", "--set", "training.batch_size=5000"],
        "the data has 1237 samples, fewer than training.batch_size = 5000; "
        "lower it or give more data",
    ),
    "transform": (
        ["train", "digits", "--set", "encoder.nonnegative=elu"],
        "setting 'encoder.nonnegative': unknown transform; known: relu, rep_relu",
    ),
    "warm-up": (
        ["train", "digits", "--set", "training.epochs=3"],
        "training.warmup_epochs (4) must be below training.epochs (3)",
    ),
    "data": (
        ["train", "digits", "--set", "data.name=digit"],
        "'digit' is neither a known data set nor a file or folder in FOLDER; known: digits, ",
    ),
    "no encoder": (
        ["embed", "nowhere", "digits"],
        "no encoder in nowhere: config.json is missing; give the folder of a finished run",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(nonneg, case, tmp_path):
    arguments, sentence = BAD[case]
    ended = nonneg(*arguments, cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: {sentence.replace('FOLDER', str(tmp_path))}")
    assert ended.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []  # nothing half made


ARRAYS = {
    "NaN": (np.full((300, 1, 8, 8), np.nan, np.float32), "has NaN or Inf in 300 of 300 samples"),
    "Inf": (np.full((300, 1, 8, 8), np.inf, np.float32), "has NaN or Inf in 300 of 300 samples"),
    "range": (np.full((300, 1, 8, 8), 7, np.float32), "has float images with values from 7 to 7"),
    "empty": (np.zeros((0, 1, 8, 8), np.uint8), "holds no samples"),
    "few": (np.zeros((9, 1, 8, 8), np.uint8), "the data has 9 samples, fewer than"),
    "shape": (
        np.zeros((300, 8), np.float32),
        "backbone 'resnet10' needs images (c, h, w), got samples",
    ),
    "dimensions": (np.zeros((300, 8, 8, 8, 8), np.uint8), "has inputs of shape"),
    "dtype": (np.zeros((300, 1, 8, 8), np.int64), "has images of type int64"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_bad_arrays_are_one_sentence(nonneg, case, tmp_path):
    array, sentence = ARRAYS[case]
    np.save(tmp_path / "mine.npy", array)
    overrides = quick(f"data.name={tmp_path / 'mine.npy'}", "data.held_out=0")
    ended = nonneg("train", "digits", *overrides, "--out", tmp_path / "run")
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ")
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written(nonneg, tmp_path):
    (tmp_path / "file").write_text("mine")
    ended = nonneg("train", "digits", *quick(), "--out", tmp_path / "file" / "run")
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: cannot write {tmp_path / 'file' / 'run'}: ")
    assert (tmp_path / "file").read_text() == "mine"
    ended = nonneg("train", "digits", *quick(), "--out", tmp_path / "file")
    assert ended.stderr == (
        f"error: {tmp_path / 'file'} is a file; choose another folder for the run\n"
    )


def test_a_folder_of_something_else_is_refused(nonneg, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    ended = nonneg("train", "digits", *quick(), "--out", tmp_path)
    assert ended.stderr == (
        f"error: {tmp_path} is not empty and holds no run; choose another folder\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_error_of_the_system_names_the_file(nonneg, run, tmp_path):
    (tmp_path / "file").touch()
    ended = nonneg("embed", run, "digits", "--out", tmp_path / "file" / "Z.npz")
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: cannot write {tmp_path / 'file' / 'Z.npz'}: ")
    (tmp_path / "config.json").mkdir()
    (tmp_path / "model.safetensors").touch()
    ended = nonneg("embed", tmp_path, "digits")
    assert ended.stderr == f"error: {tmp_path / 'config.json'}: Is a directory\n"


def test_debug_shows_the_traceback(nonneg, tmp_path):
    with pytest.raises(ValueError, match="there is no preset 'digit'"):
        nonneg("train", "digit", "--debug", cwd=tmp_path)


def test_it_is_started_as_a_module_too(tmp_path):
    command = [sys.executable, "-m", "nonneg", "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert ended.returncode == 0
    assert ended.stdout.split() == ["nonneg", version("nonneg")]


@pytest.mark.parametrize("command", [[], ["train"], ["embed"], ["compare"]])
def test_help_has_no_types_of_python(nonneg, command):
    ended = nonneg(*command, "--help")
    assert ended.returncode == 0
    assert "--help" in ended.stdout
    assert "<bool>" not in ended.stdout
    assert "<list" not in ended.stdout


def test_images_of_another_size_are_embedded_with_a_note(nonneg, run, tmp_path):
    np.save(tmp_path / "large.npy", np.zeros((9, 1, 64, 64), dtype=np.uint8))
    ended = nonneg("embed", run, tmp_path / "large.npy", "--out", tmp_path / "Z.npz")
    assert ended.returncode == 0, ended.stderr
    note = "the images of large have 64 × 64 pixels, those of training had 8 × 8"
    assert note in ended.stdout.splitlines()
    ended = nonneg("embed", run, "digits", "--split", "val", "--out", tmp_path / "digits.npz")
    assert ended.returncode == 0, ended.stderr
    assert "pixels" not in ended.stdout
    assert "360 samples" in ended.stdout
