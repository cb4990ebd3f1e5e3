"""Texts as vectors: rows of the model, zeros for empty texts, kept by content, resumed."""

import hashlib
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from forking import Forked
from word_sums import TEXTS, WIDTH, WordSums, installed, write_model

from nonneg import texts as embedding
from nonneg.texts import TextEncoder, cached_vectors, embed


@pytest.fixture
def folder(tmp_path):
    return write_model(tmp_path / "model")


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(embedding, "_CHUNK", 10)


def test_rows_are_those_of_the_model():
    some = ["rain and snow", "", "  \n", "a train"]
    rows = embed(some, WordSums())
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows[[0, 3]], WordSums().encode(["rain and snow", "a train"]))
    assert not rows[1:3].any()
    np.testing.assert_array_equal(embed(TEXTS, WordSums()), WordSums().encode(TEXTS))
    late = embed([""] * 25 + ["rain"], WordSums())
    np.testing.assert_array_equal(late[25:], WordSums().encode(["rain"]))
    assert not late[:25].any()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["a", None], "texts holds NoneType in place 1; give a text each"),
        ("abc", "texts is one text; give a list"),
        ([" ", ""], "no text to embed: all are empty"),
    ],
)
def test_what_cannot_be_embedded(given, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        embed(given, WordSums())


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([[1.0]], r"shape \(1, 1\) for 2 texts"),
        ([1.0, 2.0], r"shape \(2,\) for 2 texts"),
        ([[], []], r"shape \(2, 0\) for 2 texts"),
        ([[1.0], [np.nan]], "NaN or infinity for 1 of 2 texts, first for 'b'"),
    ],
)
def test_models_that_give_something_else(rows, sentence):
    class Wrong:
        def encode(self, _texts):
            return rows

    with pytest.raises(ValueError, match=f"^Wrong gave .*{sentence}"):
        embed(["a", "b"], Wrong())


def test_what_is_no_model(tmp_path, monkeypatch):
    with pytest.raises(TypeError, match=r"an object with encode\(texts\), got int"):
        embed(["a"], 3)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        embed(["a"], tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        embed(["a"], "./none")
    with pytest.raises(
        FileNotFoundError, match=r"holds no .*: modules\.json or config\.json is mis"
    ):
        embed(["a"], tmp_path)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    (tmp_path / "modules.json").write_text("{}")
    with pytest.raises(ImportError, match=r"install it with: pip install 'nonneg\[texts\]'"):
        embed(["a"], tmp_path)
    installed(monkeypatch)
    with pytest.raises(ValueError, match=r"cannot be loaded as .* \(no such model\); give the fo"):
        embed(["a"], tmp_path)
    with pytest.raises(ValueError, match=r"^owner/model cannot be loaded .* on the Hugging Face"):
        embed(["a"], "owner/model")


def test_a_folder_needs_no_network_and_a_kept_file_no_model(folder, tmp_path, monkeypatch):
    loaded = installed(monkeypatch)
    seen = []
    rows = embed(TEXTS, folder, cache=tmp_path / "kept", watch=lambda *now: seen.append(now))
    assert seen[0] == (10, len(TEXTS))
    assert seen[-1] == (len(TEXTS), len(TEXTS))
    assert [(one.name, one.local) for one in loaded] == [(str(folder), True)]
    np.testing.assert_array_equal(rows, WordSums().encode(TEXTS))
    np.testing.assert_array_equal(embed(TEXTS, str(folder), cache=tmp_path / "kept"), rows)
    assert len(loaded) == 1
    assert sorted(path.suffix for path in (tmp_path / "kept").iterdir()) == [".json", ".npy"]


def test_other_texts_or_another_model_have_another_file(folder, tmp_path, monkeypatch):
    installed(monkeypatch)
    kept = tmp_path / "kept"
    first = cached_vectors(["ab", "c"], TextEncoder(folder), kept)
    assert cached_vectors(["a", "bc"], TextEncoder(folder), kept).path != first.path
    (folder / "weights.bin").write_bytes(b"other words")
    assert cached_vectors(["ab", "c"], TextEncoder(folder), kept).path != first.path
    (folder / ".lock").write_bytes(b"")  # hidden files do not count
    assert len(list(kept.glob("*.npy"))) == 3
    cached_vectors(["ab", "c"], TextEncoder(folder), kept)
    assert len(list(kept.glob("*.npy"))) == 3


def test_what_a_model_is_known_by(folder, monkeypatch):
    installed(monkeypatch)
    lines = "".join(
        f"{name} {hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n"
        for name in ("modules.json", "weights.bin")
    )
    facts = TextEncoder(folder).facts
    assert facts.name == str(folder)
    assert facts.digest == hashlib.sha256(lines.encode()).hexdigest()
    assert (facts.width, facts.max_seq_length, facts.pooling) == (WIDTH, 64, None)
    assert TextEncoder(WordSums()).facts.digest is None
    with pytest.raises(ValueError, match="vectors by WordSums cannot be kept"):
        embed(["a"], WordSums(), cache=folder.parent / "kept")


class StopError(Exception):
    pass


@pytest.mark.parametrize("n_lost", [0, 1, 700])
def test_what_was_interrupted_goes_on(folder, tmp_path, monkeypatch, n_lost):
    """Also where the last rows were written in part, or their file was cut short."""
    loaded = installed(monkeypatch)
    whole = embed(TEXTS, folder, cache=tmp_path / "whole")

    def stop(n_done, _):
        if n_done >= 50:
            raise StopError

    with pytest.raises(StopError):
        embed(TEXTS, folder, cache=tmp_path / "kept", watch=stop)
    (part,) = (tmp_path / "kept").glob("*.part/rows.npy")
    os.truncate(part, part.stat().st_size - n_lost)
    loaded.clear()
    rows = embed(TEXTS, folder, cache=tmp_path / "kept")
    n_known = 50 if n_lost == 0 else 40 if n_lost == 1 else 30
    assert loaded[0].model.n_encoded == len(TEXTS) - n_known + 1  # and one that tells the width
    np.testing.assert_array_equal(rows, whole)
    (one,), (two,) = ((tmp_path / name).glob("*.npy") for name in ("whole", "kept"))
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()
    assert not list((tmp_path / "kept").glob("*.part"))


def test_rows_of_something_else_are_made_again(folder, tmp_path, monkeypatch):
    installed(monkeypatch)
    whole = embed(TEXTS, folder, cache=tmp_path / "whole")
    (key,) = (tmp_path / "whole").glob("*.npy")
    for content in (b"", b"\x93NUMPY", b"nonsense" * 99):
        work = tmp_path / "kept" / f"{key.stem}.part"
        work.mkdir(parents=True, exist_ok=True)
        (work / "rows.npy").write_bytes(content)
        np.testing.assert_array_equal(embed(TEXTS, folder, cache=tmp_path / "kept"), whole)
        assert (tmp_path / "kept" / key.name).read_bytes() == key.read_bytes()
        (tmp_path / "kept" / key.name).unlink()


KILLED = """
import sys
import pytest
sys.path.insert(0, sys.argv[3])
from word_sums import TEXTS, installed
from nonneg import texts
with pytest.MonkeyPatch.context() as patched:
    installed(patched)
    patched.setattr(texts, "_CHUNK", 10)
    def said(n_done, _):
        parent.send(n_done)
        if n_done == 70:
            parent.recv()
    texts.embed(TEXTS, sys.argv[1], cache=sys.argv[2], watch=said)
"""


def test_what_was_killed_goes_on(folder, tmp_path, monkeypatch):
    support = next(path for path in sys.path if path.endswith("support"))
    process = Forked(KILLED, folder, tmp_path / "kept", support)
    while (n_done := process.said()) != 70:
        assert n_done is not None
    installed(monkeypatch)
    with pytest.raises(BlockingIOError, match="is writing to the run in"):
        embed(TEXTS, folder, cache=tmp_path / "kept")
    process.kill()
    loaded = installed(monkeypatch)
    rows = embed(TEXTS, folder, cache=tmp_path / "kept")
    assert loaded[0].model.n_encoded == len(TEXTS) - 70 + 1
    np.testing.assert_array_equal(rows, WordSums().encode(TEXTS))


def test_a_model_of_the_library_itself(tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is absent")
    model = tiny_model(library)
    model.save(str(tmp_path / "tiny"))
    some = ["the rain", "", "a train and a ferry"]
    rows = embed(some, tmp_path / "tiny", cache=tmp_path / "kept")
    np.testing.assert_allclose(rows[[0, 2]], model.encode([some[0], some[2]]), atol=1e-6)
    facts = TextEncoder(tmp_path / "tiny").facts
    assert (facts.width, facts.pooling) == (rows.shape[1], "mean")
    assert facts.max_seq_length == model.max_seq_length
    first = TextEncoder(model).digest
    np.testing.assert_array_equal(embed(some, model, cache=tmp_path / "kept"), embed(some, model))
    next(model.parameters()).data.add_(1.0)
    assert TextEncoder(model).digest != first


def tiny_model(library):
    """A small transformer with weights from a seed, and a tokenizer of a few words."""
    from sentence_transformers.sentence_transformer import modules
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "and", "rain", "train"]
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "vocab.txt").write_text("\n".join([*words, "ferry"]))
        BertTokenizerFast(f"{place}/vocab.txt").save_pretrained(place)
        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = BertModel(BertConfig(vocab_size=11, intermediate_size=8, **sizes))
        network.save_pretrained(place)
        transformer = modules.Transformer(place, max_seq_length=32)
        pooling = modules.Pooling(8, pooling_mode="mean")
        return library.SentenceTransformer(modules=[transformer, pooling], device="cpu")
