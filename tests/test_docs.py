"""The documentation's settings can be read, its Python runs, and its links lead somewhere.

The examples of docs/metrics.md are doctests, which pytest runs by itself.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from nonneg.evaluation import EvaluationSettings
from nonneg.runs import read_experiment
from nonneg.settings import explained

DOCS = Path(__file__).parent.parent / "docs"


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), flags=re.S)


def test_settings_of_the_training_page(tmp_path):
    """Those of photographs can be read, and the others are the digits preset."""
    read = {}
    for number, block in enumerate(blocks("training.md", "toml")):
        path = tmp_path / f"shown{number}.toml"
        path.write_text(block)
        experiment = read_experiment(str(path))[1]
        read[experiment.data.name] = experiment
    assert set(read) == {"photos", "digits"}
    assert read["digits"] == read_experiment("digits")[1]


def test_the_evaluation_page_has_every_setting():
    page = (DOCS / "evaluation.md").read_text()
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.*?) \|", page, re.MULTILINE))
    for key, value, _ in explained(EvaluationSettings()):
        assert rows[key] == ("all" if value is None else json.dumps(value)), key


def test_python_of_the_atlas_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("atlas.md", "python"):
        exec(compile(block, "atlas.md", "exec"), names)
    assert names["Z_images"].shape == (200, 256)
    assert np.load("captions.npz")["caption_of"].shape == (1000,)
    assert (tmp_path / "atlas.html").exists()
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", (DOCS / page).read_text()):
        if not target.startswith("http"):
            assert (DOCS / target).exists(), target
