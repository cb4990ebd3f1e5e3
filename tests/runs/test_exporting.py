"""Runs in the formats of other programs: what is written, and what is refused before any work."""

import csv
import json

import numpy as np
import pytest
from tiny_sentences import sentence_model
from word_sums import KINDS, TEXTS

import nonneg
from nonneg.data.feature_file import read_features
from nonneg.runs import embed_run, export_run, fit_run, text_files, vector_experiment
from nonneg.runs.exporting import TARGETS

QUICK = ["n_components=32", "max_active=4", "max_steps=30"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse invariant checks"),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table of texts, a sentence encoder, and a run on both."""
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    folder = tmp_path_factory.mktemp("exports")
    sentence_model(folder / "words")
    with (folder / "t.csv").open("w", newline="") as file:
        rows = [
            ["" if number == 7 else text, kind, f"2024-0{number % 9 + 1}"]
            for number, (text, kind) in enumerate(zip(TEXTS, KINDS, strict=True))
        ]
        csv.writer(file).writerows([["body", "kind", "day"], *rows])
    files = text_files(
        folder / "t.csv",
        out=folder / "run",
        text="body",
        label="kind",
        date="day",
        encoder=folder / "words" / "model",
    )
    experiment, machine = vector_experiment(files, QUICK)
    fit_run(experiment, out=folder / "run", machine=machine)
    return folder


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """A run on vectors of which nothing else is known."""
    folder = tmp_path_factory.mktemp("vectors")
    X = np.random.default_rng(0).standard_normal((200, 16)).astype(np.float32)
    np.save(folder / "x.npy", X)
    nonneg.NCL(n_components=12, max_steps=10, random_state=0).fit(X).save(folder / "ncl")
    both = nonneg.CrossNCL(8, max_steps=4, random_state=0).fit(X, X[:, :5])
    both.save(folder / "both")
    return folder


def names_of(folder):
    return json.loads((folder / "feature_names.json").read_text(encoding="utf-8"))


def test_a_run_on_texts_as_a_sparse_encoder(place, tmp_path):
    from sentence_transformers import SentenceTransformer, SparseEncoder

    done = export_run(place / "run", "sentence-transformers", out=tmp_path / "st")
    assert done.summary.startswith("a SparseEncoder of ")
    assert done.notes == ()
    ncl = nonneg.NCL.load(place / "run")
    found = SparseEncoder(str(tmp_path / "st"), device="cpu").encode(TEXTS).to_dense().numpy()
    words = SentenceTransformer(str(place / "words" / "model"), device="cpu")
    expected = ncl.transform(words.encode(TEXTS))
    np.testing.assert_allclose(found, expected, atol=1e-5 * expected.max())
    assert names_of(tmp_path / "st") == list(ncl.get_feature_names_out())
    card = (tmp_path / "st" / "README.md").read_text()
    for line in (
        "| sentence encoder | Tiny words, SHA-256 ",
        "| its licence | mit |",
        "| fitted to | t.csv, SHA-256 ",
        f"| alive features | {ncl.n_alive_} |",
        "on average, of 239 of the run's samples |",
    ):
        assert line in card
    again = export_run(place / "run", "sentence-transformers", out=tmp_path / "st")
    assert again == done
    assert [path.name for path in tmp_path.iterdir()] == ["st"]


def test_vectors_of_an_unknown_encoder(place, vectors, tmp_path):
    model = place / "words" / "model"
    done = export_run(vectors / "ncl", "sentence-transformers", out=tmp_path / "st", encoder=model)
    assert done.notes == (
        f"{vectors / 'ncl'} does not know what made its vectors; {model} is taken to have",
    )
    side = vectors / "both" / "x"
    export_run(side, "sentence-transformers", out=tmp_path / "side", encoder=model)
    assert names_of(tmp_path / "side")[:2] == ["feature 0", "feature 1"]


def test_points_are_the_run_s_features(place, tmp_path):
    done = export_run(place / "run", "jsonl", source=str(place / "t.csv"), out=tmp_path / "points")
    embed_run(place / "run", str(place / "t.csv"), out=tmp_path / "z.npz")
    Z, _ = read_features(tmp_path / "z.npz")
    Z = Z.toarray() if not isinstance(Z, np.ndarray) else Z
    assert done.summary == (f"240 points of {Z.shape[1]} features in 1 file: {tmp_path / 'points'}")
    lines = (tmp_path / "points" / "points.jsonl").read_text().splitlines()
    assert len(lines) == 240
    for number, line in enumerate(map(json.loads, lines)):
        row = np.zeros(Z.shape[1], np.float32)
        row[line["indices"]] = line["values"]
        np.testing.assert_array_equal(row, Z[number])
        assert line["id"] == number
        assert line["text"] == ("" if number == 7 else TEXTS[number])
        assert line["label"] == KINDS[number]
        assert line["date"] == f"2024-0{number % 9 + 1}-01"
    assert not Z[7].any()
    mark = json.loads((tmp_path / "points" / "export.json").read_text())
    assert (mark["nonneg"], mark["target"], mark["n_points"]) == ("export", "jsonl", 240)


def test_points_of_vectors_have_no_payload(vectors, tmp_path):
    told = []
    export_run(
        vectors / "ncl",
        "qdrant",
        source=str(vectors / "x.npy"),
        out=tmp_path / "q",
        watch=lambda *counts: told.append(counts),
    )
    points = json.loads((tmp_path / "q" / "points-00000.json").read_text())["points"]
    assert len(points) == 200
    assert all(point["payload"] == {} for point in points)
    assert told[-1] == (200, 200)
    assert names_of(tmp_path / "q") == [
        f"ncl{number}" for number in range(len(names_of(tmp_path / "q")))
    ]


def test_points_of_images(tmp_path):
    from nonneg.runs import read_experiment, run_experiment

    changes = ["training.epochs=1", "training.warmup_epochs=0", "encoder.backbone.width=4"]
    run_experiment(read_experiment("digits", changes)[1], out=tmp_path / "digits")
    export_run(
        tmp_path / "digits", "elasticsearch", source="digits", split="test", out=tmp_path / "e"
    )
    lines = (tmp_path / "e" / "points-00000.ndjson").read_text().splitlines()
    assert len(lines) == 720
    assert json.loads(lines[1])["label"] in [str(n) for n in range(10)] + list(range(10))
    assert names_of(tmp_path / "e")[0] == "feature 0"
    with pytest.raises(ValueError, match="only encoders of fitted vectors fold"):
        export_run(tmp_path / "digits", "sentence-transformers", out=tmp_path / "st")


@pytest.mark.parametrize(
    ("run", "target", "given", "sentence"),
    [
        ("ncl", "weaviate", {}, "unknown target 'weaviate'; known: sentence-transformers, onnx, q"),
        ("ncl", "sentence-transformers", {}, "does not know what made its vectors; name the fold"),
        ("ncl", "qdrant", {}, "an export to qdrant is of samples: name them, as RUN DATA"),
        ("ncl", "onnx", {"source": "x.npy", "text": "t"}, "leave out DATA and --text"),
        ("ncl", "onnx", {"encoder": "m"}, "has no encoder of texts; leave out --encoder"),
        ("ncl", "onnx", {}, "would be a .onnx file; let its name end in .onnx"),
        ("both", "sentence-transformers", {}, r"is a CrossNCL .*; export one of them, .*both/x"),
        ("both", "jsonl", {"source": "x.npy"}, "is a CrossNCL with an encoder for each side"),
        ("ncl", "jsonl", {"source": "t.csv"}, "was not fitted to texts; embed them by"),
        ("ncl", "jsonl", {"source": "{}/x.npy", "split": "test"}, "leave out --split"),
        ("ncl", "jsonl", {"source": "{}/x.npy", "encoder": "m"}, "holds vectors: leave out --enc"),
        ("both/x", "jsonl", {"source": "digits", "column": "m"}, "set: leave out --column"),
    ],
)  # fmt: skip
def test_refusals_leave_nothing(vectors, tmp_path, run, target, given, sentence):
    if "source" in given:
        given = {**given, "source": given["source"].format(vectors)}
    with pytest.raises((ValueError, OSError), match=sentence):
        export_run(vectors / run, target, out=tmp_path / "out", **given)
    assert list(tmp_path.iterdir()) == []


def test_no_run(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no encoder in .*: config.json is missing"):
        export_run(tmp_path / "run", "onnx", out=tmp_path / "x.onnx")


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "onnx"])
def test_what_is_something_else_is_never_replaced(vectors, tmp_path, target):
    given = {"source": str(vectors / "x.npy")} if target in TARGETS[2:] else {}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    other = "jsonl" if target == "qdrant" else "qdrant"
    export_run(vectors / "ncl", other, source=str(vectors / "x.npy"), out=tmp_path / "other")
    for name, sentence in (
        ("mine", "holds something else than an export; choose another folder"),
        ("file", "is a file; name a folder to export to"),
        ("other", f"holds an export for {other}; choose another folder"),
    ):
        with pytest.raises(FileExistsError, match=sentence):
            export_run(vectors / "ncl", target, out=tmp_path / name, **given)
    with pytest.raises(FileExistsError, match="holds something else"):
        export_run(vectors / "ncl", target, out=vectors / "ncl", **given)
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"
    assert nonneg.NCL.load(vectors / "ncl").n_iter_ == 10


def test_an_encoder_that_has_changed(place, tmp_path):
    sentence_model(tmp_path / "other")
    (tmp_path / "other" / "model" / "README.md").write_text("another one")
    with pytest.raises(ValueError, match="is not the model that embedded the texts of"):
        export_run(
            place / "run",
            "sentence-transformers",
            out=tmp_path / "st",
            encoder=tmp_path / "other" / "model",
        )
    assert not (tmp_path / "st").exists()


@pytest.fixture
def small_disk():
    """No file may be larger than 2,000 bytes, as on a disk that is full."""
    resource = pytest.importorskip("resource", reason="there are no limits of file sizes")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))

    yield fill
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "target",
    [
        "sentence-transformers",
        "qdrant",
        "jsonl",
        pytest.param("onnx", marks=pytest.mark.slow),
    ],
)
def test_a_full_disk_leaves_what_was_there(place, tmp_path, target, small_disk):
    if target == "onnx":
        pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    out = tmp_path / ("x.onnx" if target == "onnx" else "out")
    given = {"source": str(place / "t.csv")} if target in TARGETS[2:] else {}
    export_run(place / "run", target, out=out, **given)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    small_disk()
    with pytest.raises(OSError, match=r"cannot write .*(out|x\.onnx): "):
        export_run(place / "run", target, out=out, **given)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
