"""The data and the encoder of a fitted run: sizes, classes that keep their numbers, features."""

import numpy as np
import pytest
import torch

from nonneg import Encoder
from nonneg.estimators import NCL
from nonneg.runs import VectorFiles, fit_run, read_run, run_data, run_encoder, vector_experiment
from nonneg.runs import vector_fits as vector_sets

WORDS = np.array(["ant", "bee", "cow", "dog"])
Y = np.repeat(np.arange(4), 40)
X = np.eye(4)[Y] + 0.1 * np.random.default_rng(0).standard_normal((160, 4))
QUICK = ["n_components=8", "hidden=0", "batch_size=64", "max_steps=5", "n_neighbors=3"]


@pytest.fixture
def place(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "words.npy", WORDS[Y])
    return tmp_path


def fitted(place, *assignments, out="run", **files):
    known = VectorFiles.at(**{"vectors": place / "x.npy", **files})
    experiment, machine = vector_experiment(known, [*QUICK, *assignments])
    return fit_run(experiment, out=place / out, machine=machine)


def test_at_most_so_many_are_kept_out_and_looked_at(place, monkeypatch):
    monkeypatch.setattr(vector_sets, "MOST_KEPT_OUT", 7)
    monkeypatch.setattr("nonneg.runs.record._MOST_VECTORS", 50)
    run = fitted(place)
    assert (run.n_train, run.n_test) == (153, 7)
    train, test = run_data(read_run(run.folder))
    assert (len(train), len(test)) == (50, 7)
    whole, _ = vector_sets.vector_sets(VectorFiles.at(vectors=place / "x.npy"))
    kept = {tuple(row) for row in whole.fetch(torch.arange(153)).tolist()}
    assert {tuple(row) for row in train.fetch(torch.arange(50)).tolist()} < kept
    assert not {tuple(row) for row in test.fetch(torch.arange(7)).tolist()} & kept


def test_a_class_has_one_number_in_every_file(place):
    run = fitted(place, labels=place / "words.npy")
    train, test = run_data(read_run(run.folder))
    assert train.class_names == test.class_names == tuple(WORDS)
    later = np.array(["dog", "cow", "eel"])
    np.savez(place / "later.npz", inputs=X[:3], labels=later)
    train, test = run_data(read_run(run.folder), source=str(place / "later.npz"))
    assert len(train) == 144
    assert test.class_names == train.class_names == (*WORDS, "eel")
    assert [test.class_names[i] for i in test.labels] == later.tolist()
    rows = train.fetch(torch.arange(144))
    assert [train.class_names[i] for i in train.labels] == WORDS[rows.argmax(dim=1)].tolist()


def test_words_and_numbers_are_never_the_same_class(place):
    run = fitted(place, labels=place / "words.npy")
    np.savez(place / "later.npz", inputs=X[:3], labels=[0, 1, 2])
    with pytest.raises(ValueError, match="words on one side and numbers on the other; write both"):
        run_data(read_run(run.folder), source=str(place / "later.npz"))
    np.savez(place / "signed.npz", inputs=X, labels=np.arange(len(X)) % 3 - 1)
    run = fitted(place, vectors=place / "signed.npz", out="signed")
    _, test = run_data(read_run(run.folder), source=str(place / "later.npz"))
    assert [test.class_names[i] for i in test.labels] == ["0", "1", "2"]


@pytest.mark.parametrize("assignments", [[], ["target_active=2"], ["max_active=1"]])
def test_the_encoder_of_a_run_gives_what_transform_gives(place, assignments):
    run = fitted(place, *assignments)
    expected = NCL.load(run.folder).transform(X)
    for encoder in (run_encoder(run.folder), Encoder.load(run.folder)):
        features = encoder.encode(X.astype(np.float32)).features
        np.testing.assert_array_equal(features.numpy(), expected)


def test_settings_of_the_machine_do_not_belong_to_the_run(place):
    experiment, machine = vector_experiment(
        VectorFiles.at(vectors=place / "x.npy"), ["device=cpu", "verbose=0", "seed=3"]
    )
    assert machine == {"device": "cpu", "sparse_output": False, "verbose": 0}
    assert not set(machine) & set(experiment.ncl)
    assert experiment.estimator_arguments["random_state"] == 3


def test_a_failure_after_the_fit_leaves_no_folder(place, monkeypatch):
    def fail(*_):
        raise ValueError("nothing could be measured")

    monkeypatch.setattr("nonneg.runs.fitting._some_features", fail)
    with pytest.raises(ValueError, match="nothing could be measured"):
        fitted(place)
    assert not (place / "run").exists()


def test_a_failed_fit_leaves_no_folder_and_takes_nothing_from_others(place):
    np.save(place / "x.npy", np.ones((20, 3)))
    with pytest.raises(ValueError, match="constant"):
        fitted(place)
    assert not (place / "run").exists()
    (place / "run").mkdir()
    (place / "run" / ".hidden").write_text("mine")
    with pytest.raises(ValueError, match="constant"):
        fitted(place)
    assert [path.name for path in (place / "run").iterdir()] == [".hidden"]
