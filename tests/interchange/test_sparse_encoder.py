"""Fitted features as a SparseEncoder: by modules of sentence-transformers, equal to our own."""

import copy
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from tiny_sentences import WIDTH, sentence_model
from torch import nn
from twelve_kinds import X_NEW, X, Y
from word_sums import TEXTS

import nonneg
from nonneg.interchange import sparse_encoder, write_sparse_encoder
from nonneg.interchange.sparse_encoder import folded_head, head_modules, title_and_licence

library = pytest.importorskip(
    "sentence_transformers", reason="sentence-transformers is not installed"
)
# What PyTorch says of sparse tensors, which that library uses.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse invariant checks"),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support"),
]
FEW = {"max_steps": 20, "batch_size": 128, "random_state": 0}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A model, the vectors of some texts by it, and features fitted to them."""
    model, folder = sentence_model(tmp_path_factory.mktemp("words"))
    vectors = model.encode(TEXTS)
    ncl = nonneg.NCL(max_active=4, n_components=32, max_steps=30, random_state=0).fit(vectors)
    ncl.describe(vectors, texts=TEXTS)
    return model, folder, vectors, ncl


@pytest.fixture(scope="module")
def written(words, tmp_path_factory):
    model, _, _, ncl = words
    folder = tmp_path_factory.mktemp("out") / "my encoder"
    facts = {"fitted to": "texts | of mine"}
    names = list(ncl.get_feature_names_out())
    write_sparse_encoder(ncl.encoder_, model, folder, names=names, facts=facts)
    return folder


def by_modules(encoder, vectors):
    """Features by the other library's own modules and its own choice of the largest."""
    head = folded_head(encoder)
    features = {"sentence_embedding": torch.from_numpy(np.asarray(vectors, np.float32))}
    with torch.no_grad():
        for module in head_modules(head):
            features = module(features)
    choose = library.util.select_max_active_dims
    return choose(features["sentence_embedding"], max_active_dims=head.max_active).numpy()


def assert_equal(found, expected):
    assert expected.any()
    np.testing.assert_allclose(found, expected, atol=1e-5 * max(1, expected.max()), rtol=0)


@pytest.mark.parametrize(
    "settings",
    [
        {"detail": "concepts"},
        {"detail": "balanced", "max_active": None},
        {"detail": "full"},
        {"hidden": 24, "denoise": 7},
        {"pairs": "labels", "n_components": 64, "max_active": 5},
        {"pairs": "noise", "n_components": 64, "nonnegative": "relu", "hidden": 0},
    ],
)
def test_the_head_of_every_kind_of_fit_folds(settings):
    y = Y if settings.get("pairs") == "labels" else None
    ncl = nonneg.NCL(**FEW, **settings).fit(X, y)
    assert_equal(by_modules(ncl.encoder_, X_NEW), ncl.transform(X_NEW))


def test_both_sides_of_a_cross_fit_fold(tmp_path):
    both = nonneg.CrossNCL(64, **FEW, hidden=16, max_active=6).fit(X, X[:, :9] ** 2)
    Z_x, Z_y = both.transform(X_NEW, X_NEW[:, :9] ** 2)
    assert_equal(by_modules(both.encoder_x_, X_NEW), Z_x)
    assert_equal(by_modules(both.encoder_y_, X_NEW[:, :9] ** 2), Z_y)
    both.save(tmp_path / "both")
    again = nonneg.Encoder.load(tmp_path / "both" / "y")
    assert_equal(by_modules(again, X_NEW[:, :9] ** 2), Z_y)


def test_hidden_features_are_folded():
    ncl = nonneg.NCL(**FEW, max_active=3).fit(X)
    a, b, c = ncl.rank_[:3].tolist()
    ncl.curate({"hide": [c]})
    expected = ncl.transform(X_NEW)
    assert not expected[:, c].any()
    assert_equal(by_modules(ncl.encoder_, X_NEW), expected)
    ncl.restore()
    ncl.curate({"merge": [[a, b]], "hide": [a]})  # a group that is hidden as a whole is all zero
    assert_equal(by_modules(ncl.encoder_, X_NEW), ncl.transform(X_NEW))
    assert not by_modules(ncl.encoder_, X_NEW)[:, [a, b]].any()


def test_encode_is_transform(words, written):
    model, _, vectors, ncl = words
    found = library.SparseEncoder(str(written), device="cpu")
    Z = found.encode(TEXTS)
    assert Z.is_sparse
    assert_equal(Z.to_dense().numpy(), ncl.transform(vectors))
    assert found.max_active_dims == 4
    assert (found.encode(TEXTS, max_active_dims=2).to_dense() > 0).sum(1).max() == 2
    assert found.get_embedding_dimension() == ncl.encoder_.n_features
    assert model.device.type == "cpu"


def test_similarity_is_the_cosine(words, written):
    _, _, vectors, ncl = words
    found = library.SparseEncoder(str(written), device="cpu")
    Z = found.encode(TEXTS[:20])
    rows = ncl.transform(vectors[:20])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(found.similarity(Z, Z).numpy(), rows @ rows.T, atol=1e-5)


def test_decode_has_the_values(words, written):
    """It names them by the encoder's vocabulary, as the card says."""
    _, _, vectors, ncl = words
    found = library.SparseEncoder(str(written), device="cpu")
    decoded = found.decode(found.encode(TEXTS[:30]))
    for row, pairs in zip(ncl.transform(vectors[:30]), decoded, strict=True):
        values = [value for _, value in pairs]
        np.testing.assert_allclose(values, np.sort(row[row > 0])[::-1], atol=1e-5 * row.max())
        assert found.tokenizer.convert_tokens_to_ids([word for word, _ in pairs]) == sorted(
            np.flatnonzero(row), key=lambda number: -row[number]
        )


def test_saved_again_it_is_the_same(written, tmp_path):
    first = library.SparseEncoder(str(written), device="cpu")
    first.save(str(tmp_path / "again"))
    again = library.SparseEncoder(str(tmp_path / "again"), device="cpu")
    assert (again.max_active_dims, again.similarity_fn_name) == (4, "cosine")
    assert torch.equal(again.encode(TEXTS[:9]).to_dense(), first.encode(TEXTS[:9]).to_dense())


def test_its_modules_are_the_library_s_own(written):
    kinds = {part["type"] for part in json.loads((written / "modules.json").read_text())}
    assert all(kind.startswith("sentence_transformers.") for kind in kinds)
    assert not list(written.rglob("*.py"))
    assert not list(written.rglob("*.bin"))


@pytest.mark.slow
def test_it_needs_no_code_of_ours(written, words):
    code = (
        "import sys, warnings; sys.modules['nonneg'] = None; warnings.simplefilter('ignore')\n"
        "from sentence_transformers import SparseEncoder\n"
        f"Z = SparseEncoder({str(written)!r}, device='cpu').encode(['please help with rain'])\n"
        "print(float(Z.to_dense().sum()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300
    )
    model, _, _, ncl = words
    expected = ncl.transform(model.encode(["please help with rain"])).sum()
    assert float(done.stdout) == pytest.approx(expected, rel=1e-5)


def test_the_card_and_the_names(words, written, monkeypatch, capsys):
    names = json.loads((written / "feature_names.json").read_text(encoding="utf-8"))
    assert names == list(words[3].get_feature_names_out())
    text = (written / "README.md").read_text(encoding="utf-8")
    assert text.startswith("---\nlibrary_name: sentence-transformers\n")
    assert "# my encoder" in text
    assert "| active | at most 4 per text |" in text
    assert "| fitted to | texts \\| of mine |" in text
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(written.parent)
    exec(compile(code, "card", "exec"), {})
    assert any(line.rsplit(" ", 1)[0] in names for line in capsys.readouterr().out.splitlines())


def test_prompts_go_along(words):
    model, _, _, ncl = words
    prompted = library.SentenceTransformer(
        modules=list(model), prompts={"ask": "tell me about "}, default_prompt_name="ask"
    )
    built = sparse_encoder(ncl.encoder_, prompted)
    expected = ncl.transform(model.encode(["tell me about soup"]))
    assert_equal(built.encode(["soup"]).to_dense().cpu().numpy(), expected)


def thinned(ncl, **changes):
    other = copy.deepcopy(ncl)
    other.encoder_.thin(**{"threshold": None, "max_active": None, **changes})
    return other


class Foreign(nn.Identity):
    pass


class TestRefusals:
    def test_a_threshold(self, words):
        with pytest.raises(ValueError, match=r"up to 0.05 of their row's length .* max_active"):
            folded_head(thinned(words[3], threshold=0.05).encoder_)

    def test_merged_features(self, words):
        ncl = copy.deepcopy(words[3])
        ncl.curate({"merge": [ncl.rank_[:2].tolist()]})
        with pytest.raises(ValueError, match=r"were merged, .* nonneg curate RUN --undo"):
            folded_head(ncl.encoder_)

    @pytest.mark.parametrize("kind", ["softplus", "identity"])
    def test_a_transform_without_zeros(self, kind):
        ncl = nonneg.NCL(**FEW, nonnegative=kind).fit(X)
        with pytest.raises(ValueError, match=f"the transform '{kind}' gives no exact zeros"):
            folded_head(ncl.encoder_)

    def test_a_gate_and_a_norm(self, words):
        encoder = copy.deepcopy(words[3].encoder_)
        encoder.gate = nn.Identity()
        with pytest.raises(ValueError, match="no module for a gate"):
            folded_head(encoder)
        encoder.gate, encoder.projector = None, nn.Sequential(nn.LayerNorm(16), *encoder.projector)
        with pytest.raises(ValueError, match="a LayerNorm folds into no module"):
            folded_head(encoder)

    def test_another_backbone(self):
        settings = nonneg.EncoderSettings(frozen=True)
        encoder = nonneg.Encoder(settings, (1, 2, 2), backbone=nn.Flatten())
        with pytest.raises(ValueError, match="only encoders of fitted vectors fold"):
            folded_head(encoder)

    def test_what_is_no_sentence_transformer(self, words):
        with pytest.raises(ValueError, match="a Linear is no SentenceTransformer"):
            sparse_encoder(words[3].encoder_, nn.Linear(2, 2))

    def test_code_of_the_model_s_own(self, words):
        model = library.SentenceTransformer(modules=[*words[0], Foreign()], device="cpu")
        with pytest.raises(ValueError, match="has a module of its own, Foreign"):
            sparse_encoder(words[3].encoder_, model)

    def test_vectors_that_are_cut(self, words):
        model = library.SentenceTransformer(modules=[*words[0]], device="cpu", truncate_dim=8)
        with pytest.raises(ValueError, match="cuts vectors to 8 numbers"):
            sparse_encoder(words[3].encoder_, model)

    def test_half_precision(self, words):
        model = library.SentenceTransformer(modules=copy.deepcopy([*words[0]]), device="cpu")
        with pytest.raises(ValueError, match="computes in bfloat16, and the head in float32"):
            sparse_encoder(words[3].encoder_, model.bfloat16())

    def test_another_width(self, words):
        ncl = nonneg.NCL(**FEW).fit(X)
        with pytest.raises(ValueError, match=f"gives {WIDTH} numbers per text and the run reads"):
            sparse_encoder(ncl.encoder_, words[0])

    def test_vectors_far_from_zero(self, words, tmp_path):
        """Centre and axes as one map lose the digits that subtracting first keeps."""
        modules = sys.modules["sentence_transformers.sentence_transformer.modules"]
        shift = modules.Dense(
            WIDTH,
            WIDTH,
            activation_function=nn.Identity(),
            init_weight=torch.eye(WIDTH),
            init_bias=torch.full((WIDTH,), 3e3),
        )
        model = library.SentenceTransformer(modules=[*words[0], shift], device="cpu")
        ncl = nonneg.NCL(**FEW).fit(model.encode(TEXTS))
        with pytest.raises(ValueError, match="subtract their mean before the fit"):
            write_sparse_encoder(ncl.encoder_, model, tmp_path / "x", names=[])
        assert list(tmp_path.iterdir()) == []

    def test_without_the_library(self, words, monkeypatch):
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
        with pytest.raises(ImportError, match=r"pip install 'nonneg\[texts\]'"):
            sparse_encoder(words[3].encoder_, words[0])


def test_title_and_licence(words, tmp_path):
    assert title_and_licence(words[1]) == ("Tiny words", "mit")
    assert title_and_licence(tmp_path) == (None, None)
    (tmp_path / "README.md").write_text("# Only a title\nlicense: no\n")
    assert title_and_licence(tmp_path) == ("Only a title", None)
