"""The table of other kinds of data: each estimator fitted once, what is absent named."""

import numpy as np
import pytest

from nonneg.evaluation import Figure
from nonneg.paper import modalities
from nonneg.paper.modalities import (
    GRAPHS,
    IMAGES_AND_TEXTS,
    VECTORS,
    Part,
    filled_modalities,
    planted_graph,
    recalls,
    sides_agree,
)
from nonneg.paper.writing import markdown


def test_parts_are_fitted_once_and_what_is_absent_is_named(tmp_path, monkeypatch):
    asked = []

    def measure(folder, signed, seed):
        asked.append((signed, seed))
        return {"graph_match": Figure(0.5 if signed else 0.9, higher_is_better=True)}

    fake = Part("graph", (), (), measure, lambda signed: {"signed": signed})
    absent = Part("vectors", ("nowhere.npy",), (), measure, lambda _: {})
    monkeypatch.setattr(modalities, "PARTS", (fake, absent))
    found = filled_modalities(range(3), tmp_path / "runs", data_dir=tmp_path)
    assert len(asked) == 6
    assert found.figures["NCL"][2]["graph_match"].value == 0.9
    (missing,) = found.missing
    assert "vectors lacks nowhere.npy" in missing
    assert "(+0.400 *)" in markdown(found, command="x")
    again = filled_modalities(range(3), tmp_path / "runs", data_dir=tmp_path)
    assert len(asked) == 6
    assert again.figures == found.figures
    late = filled_modalities(
        range(4), tmp_path / "runs", data_dir=tmp_path, may_begin=lambda: False
    )
    assert len(asked) == 6
    assert {"CL, graph, seed 3", "NCL, graph, seed 3"} <= set(late.missing)


@pytest.fixture
def few_steps(monkeypatch):
    """Fits that are short, and otherwise the table's."""
    own = modalities._estimator_settings
    monkeypatch.setattr(
        modalities, "_estimator_settings", lambda signed: own(signed) | {"max_steps": 100}
    )


@pytest.mark.usefixtures("few_steps")
@pytest.mark.filterwarnings("ignore:.*features are dead")
def test_vectors_differ_by_one_switch(tmp_path):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((6, 12))
    for part, n in (("train", 120), ("test", 120)):
        labels = np.arange(n) % 6
        vectors = centres[labels] + 0.3 * rng.standard_normal((n, 12))
        np.save(tmp_path / f"clinc150_{part}.npy", vectors.astype(np.float32))
        np.save(tmp_path / f"clinc150_{part}_labels.npy", labels)
    signed, own = VECTORS.settings(True), VECTORS.settings(False)
    assert {key for key in own if own[key] != signed[key]} == {"nonnegative"}
    figures = VECTORS.measure(tmp_path, False, 0)
    assert tuple(figures) == VECTORS.figures
    assert figures["vectors_precision"].value > 0.9
    assert figures["vectors_active"].value < 100


@pytest.mark.usefixtures("few_steps")
def test_images_and_texts_are_read_by_split(tmp_path):
    rng = np.random.default_rng(0)
    things = rng.standard_normal((90, 8))
    groups = np.repeat(np.arange(90), 2)
    arrays = {
        "images": (things @ rng.standard_normal((8, 10))).astype(np.float32),
        "captions": (things[groups] @ rng.standard_normal((8, 12))).astype(np.float32),
        "groups": groups,
        "splits": np.array(["train"] * 60 + ["test"] * 30),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"flickr_{name}.npy", array)
    figures = IMAGES_AND_TEXTS.measure(tmp_path, True, 0)
    assert figures.keys() >= set(IMAGES_AND_TEXTS.figures)
    # By chance one of thirty images is right.
    assert figures["cross_images_1"].value > 0.2


def test_communities_are_found_by_ncl_only(tmp_path):
    own, signed = (GRAPHS.measure(tmp_path, is_signed, 0)["graph_match"] for is_signed in (0, 1))
    assert own.value > 0.9 > 0.8 > signed.value
    assert own.beside["null"] < 0.3


def test_a_planted_graph_joins_members():
    graph, members = planted_graph(300, 10, 3_000, seed=1)
    assert graph.shape[0] == len(members) <= 300
    assert (graph != graph.T).nnz == 0
    assert members.sum(axis=1) == pytest.approx(1)
    one, other = graph.nonzero()
    assert (np.minimum(members[one], members[other]).sum(axis=1) > 0).all()


def test_recalls_count_queries():
    Z = np.eye(12, dtype=np.float32)
    belongs = np.roll(np.eye(12, dtype=bool), 1, axis=1)
    # Of features without anything in common the order is that of the rows.
    found = recalls("it", Z, Z, belongs)
    assert found["it_1"] == 0
    assert 0 < found["it_10"] < 1


def test_sides_agree_by_chance_and_when_they_do():
    rng = np.random.default_rng(0)
    kinds = rng.integers(8, size=200)
    strength = rng.random((200, 1)) + 0.5
    Z = (np.eye(8)[kinds] * strength).astype(np.float32)
    captions = (np.eye(8)[kinds] + 0.1 * rng.standard_normal((200, 8))).astype(np.float32)
    assert sides_agree(Z, Z, captions, np.arange(200)) == 1
    moved = np.roll(Z, 3, axis=1)
    assert sides_agree(Z, moved, captions, np.arange(200)) < 0.6
