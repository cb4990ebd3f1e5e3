"""An evaluation comes back from its file as it was; a damaged file is named, with what to do."""

import json
from dataclasses import replace

import pytest

from nonneg.evaluation import Evaluation, Figure
from nonneg.evaluation.evaluation import Measured


@pytest.fixture
def path(tmp_path):
    section = Measured({"sparsity": Figure(0.5, beside={"n": 3})}, {"seed": 0}, 0.1, {"torch": "2"})
    data = {"test": {"name": "digits", "n_samples": 360}}
    Evaluation("abc", data, {"properties": section}, {"factors": "none"}).write(
        tmp_path / "evaluation.json"
    )
    return tmp_path / "evaluation.json"


def test_it_comes_back_as_it_was(path):
    before = path.read_text()
    Evaluation.read(path).write(path)
    assert path.read_text() == before


def test_a_sentence_is_kept_and_a_file_of_an_earlier_version_has_none(path):
    found = Evaluation.read(path)
    assert found.sections["properties"].sentence == ""
    assert "sentence" not in path.read_text()
    found.sections["properties"] = replace(found.sections["properties"], sentence="It is sparse.")
    found.write(path)
    assert Evaluation.read(path) == found


WRONG = {
    ("data",): (3, "data is int"),
    ("data", "test"): ("digits", r"data\.test is str"),
    ("data", "test", "n_samples"): ("many", r"data\.test\.n_samples is str"),
    ("model",): (None, "model is NoneType"),
    ("skipped",): ([], "skipped is list"),
    ("sections", "properties"): (1.5, "properties is float"),
    ("sections", "properties", "sentence"): (3, r"properties\.sentence is int"),
    ("sections", "properties", "settings"): ("x", r"properties\.settings is str"),
    ("sections", "properties", "figures", "sparsity"): (0.5, r"properties\.sparsity is float"),
    ("sections", "properties", "figures", "sparsity", "value"): (
        "0.5",
        r"properties\.sparsity\.value is str",
    ),
}


@pytest.mark.parametrize("place", WRONG)
def test_an_entry_of_another_type_is_named(path, place):
    value, sentence = WRONG[place]
    content = json.loads(path.read_text())
    table = content
    for key in place[:-1]:
        table = table[key]
    table[place[-1]] = value
    path.write_text(json.dumps(content))
    with pytest.raises(
        ValueError,
        match=rf"evaluation\.json is not an evaluation \({sentence}\); delete it and",
    ):
        Evaluation.read(path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"nonneg": "evaluation"}'])
def test_anything_else_is_refused_with_what_to_do(path, text):
    path.write_text(text)
    with pytest.raises(
        ValueError, match=r"evaluation\.json is not .*; delete it and evaluate again$"
    ):
        Evaluation.read(path)
