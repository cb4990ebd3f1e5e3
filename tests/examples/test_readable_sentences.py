"""The notebook runs from top to bottom and shows what its text promises, as it was saved."""

import json
from pathlib import Path

import numpy as np
import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "readable_sentences.ipynb"


def code_cells():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def names():
    found = {}
    for number, cell in enumerate(code_cells(), start=1):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), found)
    return found


def test_features_are_few_and_each_has_a_name_and_a_topic(names):
    Z, ncl = names["Z"], names["ncl"]
    assert Z.min() >= 0
    assert (Z > 0).sum(axis=1).mean() == pytest.approx(7, rel=0.2)
    for feature in names["shown"]:
        assert feature.name == ncl.feature_names_[feature.feature]
        assert len(feature.words) == 3
        assert feature.label_mix[0][1] > 0.6
    assert names["purity"].value > 0.85
    assert names["purity"].null < 0.4


def test_the_match_is_about_the_same_and_its_explanation_adds_up(names):
    assert [names["topics"][i] for i in names["found"].numbers[0]] == ["health"] * 3
    explanation = names["explanation"]
    assert sum(s.contribution for s in explanation.shared) == pytest.approx(explanation.cosine)
    assert explanation.cosine == pytest.approx(names["found"].cosine[0, 0], abs=1e-4)
    assert all(s.name for s in explanation.shared)


def test_the_edit_brings_up_the_other_topic(names):
    before, after = names["before"], names["after"]
    assert before.get("sport", 0) >= 5
    assert "sport" not in after
    assert after["food"] >= 8
    assert np.count_nonzero(names["z"][0, names["about_sport"]]) > 0


def test_outputs_are_saved_with_it():
    for cell in code_cells():
        assert any(output["text"] for output in cell["outputs"])
    assert NOTEBOOK.stat().st_size < 50_000
