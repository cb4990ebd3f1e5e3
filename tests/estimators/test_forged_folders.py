"""Folders of estimators that somebody has changed by hand."""

import json
import os
import tracemalloc

import numpy as np
import pytest

import nonneg


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    X = np.random.default_rng(0).standard_normal((120, 8))
    folder = tmp_path_factory.mktemp("saved") / "ncl"
    nonneg.NCL(n_components=8, hidden=0, max_steps=3, random_state=0).fit(X).save(folder)
    return folder


@pytest.fixture
def forge(saved, tmp_path):
    """Change ``config.json`` of a copy; gives what loading it says."""

    def forged(change):
        config = json.loads((saved / "config.json").read_text())
        change(config)
        for path in saved.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        (tmp_path / "config.json").write_text(json.dumps(config))
        with pytest.raises(ValueError, match=r".") as caught:
            nonneg.NCL.load(tmp_path)
        return str(caught.value)

    return forged


@pytest.mark.parametrize("name", ["/dev/zero", "../../other", "run.json", "model.safetensors/.."])
def test_only_files_that_a_save_writes_are_looked_at(forge, name):
    """/dev/zero never ends, and whether another file has some digest is nobody's business."""
    said = forge(lambda config: config["estimator"]["files"].update({name: "0" * 64}))
    assert f"names the file {name!r}, which NCL.save never writes" in said


def test_a_pipe_in_the_place_of_weights_does_not_hang(saved, tmp_path):
    for path in saved.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.safetensors").unlink()
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"model\.safetensors is a pipe, a socket or a device"):
        nonneg.NCL.load(tmp_path)


FACTS = {
    "expected_activation": [[], "many", [None] * 8, [0.1] * 7],
    "feature_names": [["a"], "abcdefgh", [1] * 8, {}],
    "n_alive": [9, -1, "all", True],
    "history": [[], [{}], "x", [3]],
    "renamed_before": [[], {"3": 4}],
}


@pytest.mark.parametrize(("fact", "value"), [(f, v) for f, vs in FACTS.items() for v in vs])
def test_facts_of_another_form(forge, fact, value):
    said = forge(lambda config: config["estimator"].update({fact: value}))
    assert f"config.json has no such {fact} as a save writes for 8 features; copy" in said


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: c.update(sample_shape=[10**9]), "holds other weights than those of"),
        (lambda c: c.update(sample_shape=[8, 8]), "not the length of a vector"),
        (lambda c: c["estimator"].update(n_axes=10**9), "holds other weights than those of"),
        (lambda c: c["estimator"].update(n_axes="many"), "holds other weights than those of"),
        (
            lambda c: c["settings"]["projector"].update(n_features=10**9, hidden=[10**6]),
            "holds other weights than those of",
        ),
        (lambda c: c["estimator"].update(files=[]), "does not describe a whole NCL"),
    ],
)
def test_sizes_are_compared_before_memory_is_taken(forge, change, sentence):
    tracemalloc.start()
    try:
        assert sentence in forge(change)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
