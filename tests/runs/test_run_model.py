"""A fitted run as one function: the features of NCL for vectors, and by its encoder for texts."""

import json

import numpy as np
import pytest
from word_sums import TEXTS, WordSums, installed, write_model

import nonneg
from nonneg.runs import fit_run, text_files, vector_experiment
from nonneg.runs.run_model import RunModel

QUICK = ["n_components=16", "max_active=3", "max_steps=20"]


@pytest.fixture(autouse=True)
def loaded(monkeypatch):
    return installed(monkeypatch)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    write_model(place / "model")
    (place / "t.txt").write_text("\n".join(TEXTS))
    with pytest.MonkeyPatch.context() as patched:
        installed(patched)
        files = text_files(place / "t.txt", out=place / "run", encoder=place / "model")
        experiment, machine = vector_experiment(files, QUICK)
        fit_run(experiment, out=place / "run", machine=machine)
    return place / "run"


def test_vectors_as_by_transform(run, loaded):
    model, X = RunModel(run), WordSums().encode(TEXTS)
    np.testing.assert_array_equal(model.of_vectors(X).toarray(), nonneg.NCL.load(run).transform(X))
    assert (model.n_inputs, model.n_features) == (16, model.of_vectors(X).shape[1])
    assert model.names == tuple(nonneg.NCL.load(run).get_feature_names_out())
    assert loaded == []  # no text, no encoder


def test_texts_by_their_vectors_and_empty_ones_without_features(run):
    model = RunModel(run)
    found = model.of_texts([TEXTS[3], " ", TEXTS[9], ""]).toarray()
    expected = model.of_vectors(WordSums().encode([TEXTS[3], TEXTS[9]])).toarray()
    np.testing.assert_allclose(found[[0, 2]], expected, atol=1e-6)
    assert expected.any()
    assert not found[[1, 3]].any()


def test_no_text_at_all(run, loaded):
    model = RunModel(run)
    assert model.of_texts([]).shape == (0, model.n_features)
    assert not model.of_texts(["", "\n"]).nnz
    assert loaded == []


def test_what_is_no_list_of_texts(run):
    with pytest.raises(TypeError, match="texts is one text; give a list of texts, also of one"):
        RunModel(run).of_texts("rain")
    with pytest.raises(TypeError, match="texts holds NoneType in place 1; give a text"):
        RunModel(run).of_texts(["rain", None])


def test_the_digest_is_of_how_features_are_thinned(run, tmp_path):
    digests = set()
    ncl = nonneg.NCL.load(run)
    for max_active, threshold in [(2, 0.0), (3, 0.0), (3, 0.2)]:
        ncl.set_params(max_active=max_active).threshold_ = threshold
        ncl.save(tmp_path / "thinned")
        digests.add(RunModel(tmp_path / "thinned").digest)
    assert len(digests) == 3


def test_the_digest_is_of_weights_and_curation(run, tmp_path):
    first = RunModel(run)
    assert RunModel(run).digest == first.digest
    ncl = nonneg.NCL.load(run)
    ncl.save(tmp_path / "same")
    assert RunModel(tmp_path / "same").digest == first.digest
    ncl.curate({"hide": [int(ncl.rank_[0])]})
    ncl.save(tmp_path / "other")
    assert RunModel(tmp_path / "other").digest != first.digest


def test_refusals(run, tmp_path):
    with pytest.raises(ValueError, match="holds no fitted estimator; give a folder of nonneg fit"):
        RunModel(tmp_path)
    nonneg.NCL.load(run).save(tmp_path / "ncl")
    with pytest.raises(ValueError, match="was not fitted to texts; embed them by the model of"):
        RunModel(tmp_path / "ncl").of_texts(["rain"])
    other = write_model(tmp_path / "other")
    (other / "weights.bin").write_bytes(json.dumps("others").encode())
    with pytest.raises(ValueError, match="is not the model that embedded the texts of"):
        RunModel(run, encoder=other).of_texts(["rain"])
    moved = write_model(tmp_path / "moved")
    assert RunModel(run, encoder=moved).of_texts(["rain"]).shape[0] == 1
