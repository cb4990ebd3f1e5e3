"""The tables in results/ were made by the commands that they name: those still give their runs."""

import json
import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from nonneg.paper.filling import RunStore
from nonneg.paper.tables import PLANS
from nonneg.paper.writing import write_picture
from nonneg.runs import Experiment

RESULTS = Path(__file__).parents[2] / "results"
# The table without presets has runs of another kind.
TABLES = sorted(str(path.relative_to(RESULTS)) for path in RESULTS.rglob("*-*.json"))


def options(words, name):
    return [value for key, value in pairwise(words) if key == name]


@pytest.mark.parametrize("name", TABLES)
def test_the_command_of_a_table_gives_the_settings_of_its_runs(name):
    table = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    words = shlex.split(table["command"])
    plan = PLANS[words[2]]
    (preset,) = options(words, "--preset")
    store = RunStore(preset, RESULTS, changes=(*plan.changes, *options(words, "--set")))
    arms = {arm.name: arm for arm in plan.arms}
    assert table["arms"].keys() <= arms.keys()
    for arm_name, recorded in table["arms"].items():
        # What could not be set then had the default of today.
        made = Experiment.read(recorded["settings"])
        given = store.experiment(arms[arm_name], 0)
        if plan.grid is not None:
            assert plan.grid.setting == "optimizer.lr"
            given = given.model_copy(update={"optimizer": made.optimizer})
        made, given = (e.model_dump(exclude={"seed", "start", "about"}) for e in (made, given))
        assert made == given, arm_name


def test_main_figures_are_those_of_their_table():
    for plan in PLANS.values():
        assert set(plan.drawn) <= plan.figures.keys(), plan.name


@pytest.mark.parametrize("name", TABLES)
def test_a_table_shows_its_picture(name):
    title = Path(name).stem
    assert f"({title}.png)" in (RESULTS / name).with_suffix(".md").read_text(encoding="utf-8")
    assert (RESULTS / name).with_suffix(".png").exists()


def test_a_picture_is_drawn_from_the_file_of_its_table(tmp_path):
    path = Path(shutil.copy(RESULTS / "properties-fashion-mnist.json", tmp_path))
    assert write_picture(path) == path.with_suffix(".png")
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    table = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(table | {"name": "another"}), encoding="utf-8")
    assert write_picture(path) is None
    with pytest.raises(FileNotFoundError, match="there is no table"):
        write_picture(tmp_path / "missing.json")
