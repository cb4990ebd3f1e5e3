"""Tables: filled from runs, each made once; tuned on held-out samples; written as Markdown."""

import json
import math
from dataclasses import replace

import pytest

from nonneg.evaluation import SECTIONS, EvaluationSettings, Figure
from nonneg.paper import (
    PLANS,
    Arm,
    Filled,
    Grid,
    Plan,
    RunStore,
    filled,
    filling,
    markdown,
    n_runs,
    write_table,
)
from nonneg.paper.filling import fixed_accuracies, steps_to_reach, tuned
from nonneg.runs import read_experiment
from nonneg.settings import with_overrides

SMALL = (
    "encoder.backbone.width=4",
    "encoder.projector.hidden=[16]",
    "encoder.projector.n_features=24",
    "training.epochs=2",
    "training.warmup_epochs=0.5",
    "training.batch_size=64",
)
CL, NCL = Arm("CL", signed=True), Arm("NCL")
PLAN = Plan(
    "small",
    "A small table.",
    (CL, NCL),
    {"sparsity": "sparsity, %", "class_consistency": "class consistency", "step_ms": "step, ms"},
    ("properties",),
    paper={("NCL", "sparsity"): "90"},
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return RunStore("digits", tmp_path_factory.mktemp("runs"), changes=SMALL)


def test_a_table_is_filled_once(store, tmp_path, monkeypatch):
    first = filled(PLAN, store, range(2))
    assert set(first.figures) == {"CL", "NCL"}
    assert all(set(runs) == {0, 1} for runs in first.figures.values())
    assert not first.missing
    monkeypatch.setattr(filling, "run_experiment", None)
    monkeypatch.setattr(filling, "evaluate_run", None)
    again = filled(PLAN, store, range(2))
    assert again.figures == first.figures
    path = write_table(again, tmp_path, command="nonneg reproduce small")
    text = path.read_text()
    assert path.name == "small-digits.md"
    assert "| sparsity, % |" in text
    assert "paper: CL / NCL" in text
    assert "| step, ms |" in text
    assert first.figures["CL"][0]["step_ms"].value > 0
    assert "null" in text
    kept = json.loads(path.with_suffix(".json").read_text())
    arms = kept["arms"]
    assert arms["CL"]["settings"]["encoder"]["nonnegative"] == "identity"
    assert arms["NCL"]["figures"]["1"]["sparsity"]["value"] == pytest.approx(
        first.figures["NCL"][1]["sparsity"].value
    )


def test_what_was_measured_before_a_setting_came_is_not_measured_again(store, monkeypatch):
    """A file without the setting was made with its default; another value is another figure."""
    filled(PLAN, store, range(1))
    path = store.folder(CL, 0) / "evaluation.json"
    values = json.loads(path.read_text())
    del values["sections"]["properties"]["settings"]["train_samples"]
    path.write_text(json.dumps(values))
    monkeypatch.setattr(filling, "evaluate_run", None)
    store.figures(CL, 0, ["properties"], evaluation=PLAN.evaluation)
    with pytest.raises(TypeError):
        store.figures(CL, 0, ["properties"], evaluation=(*PLAN.evaluation, "train_samples=100"))


def test_a_ranking_that_could_not_be_written_is_written_by_the_next_call(tmp_path, monkeypatch):
    store = RunStore("digits", tmp_path, changes=SMALL)

    def killed(path, content):
        raise KeyboardInterrupt(path)

    with monkeypatch.context() as patched:
        patched.setattr("nonneg.runs.evaluating.write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            store.figures(NCL, 0, ["properties"])
    store.figures(NCL, 0, ["properties"])
    assert (store.folder(NCL, 0) / "ranking.json").is_file()


def test_arms_differ_by_one_switch(store):
    """The two arms of a table are the same experiment, but for the transform."""
    one, other = (store.experiment(arm, 3).model_dump() for arm in (CL, NCL))
    assert one["encoder"].pop("nonnegative") == "identity"
    assert other["encoder"].pop("nonnegative") != "identity"
    assert one == other
    assert one["seed"] == 3


def test_a_run_is_named_by_what_counts(store):
    assert store.folder(NCL, 0) == store.folder(Arm("another name"), 0)
    assert store.folder(NCL, 0) != store.folder(NCL, 1)
    warmer = Arm("NCL", ("loss.temperature=0.3",))
    assert store.folder(NCL, 0) != store.folder(warmer, 0)
    # Where it is computed does not matter.
    assert store.folder(NCL, 0) == store.folder(Arm("NCL", ("training.checkpoint_every=7",)), 0)


def test_without_time_nothing_begins(tmp_path):
    store = RunStore("digits", tmp_path, changes=SMALL, may_begin=lambda: False)
    table = filled(PLAN, store, range(2))
    assert not table.figures
    assert len(table.missing) == 4
    assert not list(tmp_path.iterdir())
    assert "Not there yet: CL, seed 0: training" in markdown(table, command="x")


def test_fine_tuning_starts_from_the_run_of_the_same_seed(store):
    tune = Arm("CE", ("task=supervised", "loss=ce"), starts_from=CL)
    for seed in (0, 1):
        assert store.experiment(tune, seed).start == str(store.folder(CL, seed))


class Landscape:
    """A store whose figure is known for every value of a setting."""

    def __init__(self, best):
        self.best, self.asked = best, []

    def figures(self, arm, seed, sections, *, split):
        assert split == "held-out"
        value = float(arm.changes[-1].split("=")[1])
        self.asked.append(value)
        return {"accuracy": Figure(-abs(math.log(value / self.best)))}


@pytest.mark.parametrize(
    ("best", "found", "n_tried"),
    [(0.002, 0.002, 3), (0.006, 0.006, 4), (0.02, 0.018, 5), (0.0007, 0.00067, 4), (9.0, 0.054, 5)],
)
def test_tuning_goes_on_while_the_best_is_at_an_edge(best, found, n_tried):
    store = Landscape(best)
    result = tuned(store, NCL, Grid("optimizer.lr", 0.002, 3.0, "accuracy", "probe"), seed=0)
    assert result.best == found
    assert len(store.asked) == n_tried == len(result.tried)
    assert result.arm.changes == (f"optimizer.lr={found!r}",)
    assert list(result.tried) == sorted(result.tried)


class Steep(Landscape):
    """Training diverges above a value."""

    def figures(self, arm, seed, sections, *, split):
        if float(arm.changes[-1].split("=")[1]) > self.best:
            raise FloatingPointError("training diverged")
        return super().figures(arm, seed, sections, split=split)


def test_a_value_with_which_training_diverges_is_not_the_best():
    grid = Grid("optimizer.lr", 0.002, 3.0, "accuracy", "probe")
    found = tuned(Steep(0.003), NCL, grid, seed=0)
    assert found.best == 0.002
    assert found.tried[0.006] is None
    with pytest.raises(FloatingPointError, match=r"diverged, .* with every optimizer\.lr"):
        tuned(Steep(1e-9), NCL, grid, seed=0)


def test_what_cannot_be_measured_is_named_and_asked_for_again(store, monkeypatch):
    plan = replace(PLAN, sections=("properties", "factors"))
    table = filled(plan, store, [0])
    assert list(table.not_measured) == ["factors"]
    assert f"Not measured: factors ({table.not_measured['factors']})." in markdown(
        table, command="x"
    )
    asked = []
    monkeypatch.setattr(
        filling, "evaluate_run", lambda folder, *, only, **_: asked.append(list(only))
    )
    filled(plan, store, [0])
    assert asked == [["factors"]] * 2


def test_an_arm_that_diverges_is_missing_and_the_others_are_there(store, monkeypatch):
    store.trained(CL, 0)

    def diverging(*args, **kwargs):
        raise FloatingPointError("training diverged: the loss is nan")

    monkeypatch.setattr(filling, "run_experiment", diverging)
    table = filled(replace(PLAN, arms=(CL, Arm("steep", ("optimizer.lr=1",)))), store, [0])
    assert set(table.figures) == {"CL"}
    assert table.missing[0].startswith("steep, seed 0: training diverged")


def test_a_run_that_lost_its_last_file_is_finished(store):
    folder = store.trained(NCL, 0)
    (folder / "config.json").unlink()
    assert store.trained(NCL, 0) == folder
    assert (folder / "config.json").exists()


def table_of(values, *, curves=None, against=None):
    arms = tuple(
        Arm(name, against=against if number else None) for number, name in enumerate(values)
    )
    plan = Plan("made", "By hand.", arms, {"accuracy": "accuracy, %"}, ())
    return Filled(
        plan,
        "digits",
        (0, 1, 2),
        figures={
            name: {
                seed: {"accuracy": Figure(value, higher_is_better=True, is_rate=True)}
                for seed, value in enumerate(seeds)
            }
            for name, seeds in values.items()
        },
        arms={arm.name: arm for arm in arms},
        seconds={name: dict.fromkeys(range(len(seeds)), 60.0) for name, seeds in values.items()},
        curves=curves or {},
    )


def test_cells_show_mean_spread_and_paired_difference():
    text = markdown(
        table_of({"A": [0.5, 0.6, 0.7], "B": [0.51, 0.612, 0.709], "C": [0.4, 0.6, 0.8]}),
        command="x",
    )
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines[2:] == [
        "| A | 60.00 ± 10.00 |",
        "| B | 61.03 ± 9.95 (+1.03 *) |",
        "| C | 60.00 ± 20.00 (+0.00) |",
    ]
    assert "training took 9.0 minutes" in text


def test_one_seed_has_no_spread_and_says_so():
    text = markdown(table_of({"A": [0.5], "B": [0.6]}), command="x")
    assert "| accuracy, % | 50.00 | 60.00 (+10.00) |" in text
    assert "One seed: what another would change is not known." in text
    assert "±" not in text


def test_two_seeds_have_no_star_and_say_so():
    text = markdown(table_of({"A": [0.5, 0.5], "B": [0.6, 0.6]}), command="x")
    assert "paired by seed. It takes 3 seeds to say which of them are sure." in text
    assert "*" not in text


def test_an_arm_is_compared_with_the_one_it_names():
    table = table_of({"A": [0.1] * 3, "B": [0.5] * 3, "C": [0.6] * 3})
    table.arms["C"] = Arm("C", against="B")
    assert "| C | 60.00 ± 0.00 (+10.00 *) |" in markdown(table, command="x")


def test_an_arm_whose_rival_is_not_there_yet_stands_alone():
    table = table_of({"A": [0.1] * 3, "C": [0.6] * 3}, curves={"C": {0: [(10, 0.6)]}})
    table.arms["C"] = Arm("C", against="B")
    text = markdown(table, command="x")
    assert "| accuracy, % | 10.00 ± 0.00 | 60.00 ± 0.00 |" in text
    assert "| C | 10 | 10 | 10 |" in text


def test_the_early_stage_is_told_in_steps():
    slow = [(10, 0.3), (20, 0.5), (40, 0.6)]
    fast = [(10, 0.5), (20, 0.75), (40, 0.8)]
    curves = {"A": dict.fromkeys(range(3), slow), "B": dict.fromkeys(range(3), fast)}
    assert fixed_accuracies(curves) == [0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8]
    text = markdown(table_of({"A": [0.6] * 3, "B": [0.8] * 3}, curves=curves), command="x")
    assert "| A | 18 | 20 | 30 | 40 | – | – | – | – |" in text
    assert "| B | 10 (× 0.57) | 10 (× 0.50) | 12 (× 0.40) | 14 (× 0.35) |" in text


def test_an_accuracy_that_is_never_reached_has_no_step():
    assert steps_to_reach([(10, 0.4)], 0.5) is None
    assert steps_to_reach([], 0.5) is None


def test_settings_of_a_plan_hold_unless_the_command_has_others(tmp_path):
    wide = replace(PLAN, changes=("encoder.projector.n_features=32", "loss.temperature=0.3"))
    store = RunStore("digits", tmp_path, changes=SMALL)
    for settings in filled(wide, store, [0]).settings.values():
        assert settings["encoder"]["projector"]["n_features"] == 24
        assert settings["loss"]["temperature"] == 0.3


def test_the_mlp_of_supervised_runs_has_a_hidden_layer(tmp_path):
    plan = PLANS["supervised"]
    store = RunStore("fashion-mnist", tmp_path, changes=plan.changes)
    starts = [arm.starts_from for arm in plan.arms if arm.starts_from is not None]
    for arm in (*plan.arms, *starts):
        assert store.experiment(arm, 0).encoder.projector.hidden == (1024,)


@pytest.mark.parametrize("preset", ["fashion-mnist", "cifar10-small"])
def test_sensitivity_has_the_presets_way_but_width_and_angles_among_its_arms(preset, tmp_path):
    plan = PLANS["sensitivity"]
    store = RunStore(preset, tmp_path, changes=plan.changes)
    arms = {arm.name: store.experiment(arm, 0) for arm in plan.arms}
    assert arms["NCL"].loss.backbone_weight == 0
    recipe = "projector beside the backbone"
    others = ["training.keep_angles=false", "encoder.projector.n_features=2048"]
    assert arms[f"{recipe}, NCL"] == read_experiment(preset, others)[1]
    assert arms[f"{recipe}, CL"] == read_experiment(f"{preset}-cl", others)[1]


def leaves(settings, prefix=""):
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@pytest.mark.parametrize("preset", ["fashion-mnist", "cifar10-small"])
def test_the_recipe_is_the_preset_and_each_row_below_it_changes_one_setting(preset, tmp_path):
    plan = PLANS["recipe"]
    store = RunStore(preset, tmp_path, changes=plan.changes)
    settings = {
        arm.name: dict(leaves(store.experiment(arm, 0).model_dump(mode="json")))
        for arm in plan.arms
    }
    assert settings["NCL"] == dict(leaves(read_experiment(preset)[1].model_dump(mode="json")))
    for arm in plan.arms[2:]:
        assert arm.against == "NCL"
        changed = {
            key for key, value in settings[arm.name].items() if value != settings["NCL"][key]
        }
        assert len(changed) == 1, arm.name


@pytest.mark.parametrize("name", sorted(PLANS))
def test_every_plan_can_be_carried_out(name, tmp_path):
    """Its settings are known, its sections exist, and its arms are told apart."""
    plan = PLANS[name]
    store = RunStore("fashion-mnist", tmp_path, changes=plan.changes)
    folders = [store.folder(arm, 0) for arm in plan.arms]
    assert len(set(folders)) == len(folders)
    names = {arm.name for arm in plan.arms}
    assert all(arm.against in {None, *names} for arm in plan.arms)
    assert {arm for arm, _ in plan.paper} <= names
    assert {figure for _, figure in plan.paper} <= set(plan.figures)
    assert n_runs(plan, 3) >= 3 * len(plan.arms)
    assert set(plan.sections) <= set(SECTIONS)
    EvaluationSettings.read(with_overrides({}, plan.evaluation))
