from typing import Annotated, ClassVar, Literal, get_args

import pytest
from pydantic import Field

from nonneg.evaluation import EvaluationSettings
from nonneg.runs import Experiment, read_experiment
from nonneg.runs.vector_fits import VectorExperiment
from nonneg.settings import Settings, differences, explained, with_overrides


class Inner(Settings):
    lr: float = Field(default=0.1, gt=0)
    momentum: float = 0.9


class Outer(Settings):
    seed: int = 0
    optimizer: Inner = Inner()


class Many(Settings):
    name: str
    sizes: tuple[Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, lt=1)], ...] = ()
    level: Literal["auto", "none"] | int = "auto"
    optimizer: Inner | None = None


def test_values_reach_their_fields():
    read = Outer.read({"seed": 3, "optimizer": {"lr": 0.5}})
    assert (read.seed, read.optimizer.lr, read.optimizer.momentum) == (3, 0.5, 0.9)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"sede": 1}, "unknown setting 'sede'; nearest: seed"),
        (
            {"optimizer": {"momentun": 1}},
            "unknown setting 'optimizer.momentun'; nearest: optimizer.momentum",
        ),
        (
            {"optimizer": {"zzz": 1}},
            "unknown setting 'optimizer.zzz'; known: optimizer.lr, optimizer.momentum",
        ),
        ({"lr": 1}, "unknown setting 'lr'; nearest: optimizer.lr"),
        ({"momentun": 1}, "unknown setting 'momentun'; nearest: optimizer.momentum"),
        ({"optimizer": {"seed": 1}}, "unknown setting 'optimizer.seed'; nearest: seed"),
        ({"moment": 1}, "unknown setting 'moment'; nearest: optimizer.momentum"),
        ({"men": 1}, "unknown setting 'men'; known: seed, optimizer"),
        ({"optimizer": {"lr": 0}}, "setting 'optimizer.lr': input should be greater than 0, got 0"),
        ({"seed": "x"}, "setting 'seed': input should be a valid integer, .*, got 'x'"),
        (
            {"optimizer": {"lr": float("nan")}},
            "setting 'optimizer.lr': input should be .*, got nan",
        ),
    ],
)
def test_bad_values_are_one_sentence(values, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        Outer.read(values)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"name": "", "sizes": [2, -1]},
            r"setting 'sizes\[1\]': input should be greater than or equal to 1, or input should be "
            "greater than 0, got -1",
        ),
        (
            {"name": "", "level": "x"},
            "setting 'level': input should be 'auto' or 'none', or input should be a valid "
            "integer, .*, got 'x'",
        ),
        (
            {"name": "", "optimizer": {"lrr": 1}},
            "unknown setting 'optimizer.lrr'; nearest: optimizer.lr",
        ),
        (
            {"name": "", "optimizer": {"lr": -1}},
            "setting 'optimizer.lr': input should be greater than 0, got -1",
        ),
        ({"name": "", "optimizer": 3}, "setting 'optimizer': should be a group of settings, got 3"),
        ({}, "the setting 'name' is missing; add it"),
    ],
)
def test_a_key_is_shown_without_the_names_of_types(values, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        Many.read(values)


def test_an_unknown_key_comes_before_the_one_that_it_was_meant_to_be():
    with pytest.raises(ValueError, match=r"^unknown setting 'nme'; nearest: name$"):
        Many.read({"nme": "x"})


def test_settings_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Outer().seed = 1


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("seed=1", {"seed": 1, "optimizer": {"name": "adamw", "lr": 0.1}}),
        ("optimizer.lr = 3e-4", {"optimizer": {"name": "adamw", "lr": 3e-4}}),
        ("optimizer=lars", {"optimizer": {"name": "lars", "lr": 0.1}}),
        ('optimizer.name="sgd"', {"optimizer": {"name": "sgd", "lr": 0.1}}),
        (
            "views.crop=[0.2, 1]",
            {"optimizer": {"name": "adamw", "lr": 0.1}, "views": {"crop": [0.2, 1]}},
        ),
        ("flag=true", {"optimizer": {"name": "adamw", "lr": 0.1}, "flag": True}),
        ("text=a=b", {"optimizer": {"name": "adamw", "lr": 0.1}, "text": "a=b"}),
    ],
)
def test_overrides(assignment, expected):
    table = {"optimizer": {"name": "adamw", "lr": 0.1}}
    assert with_overrides(table, [assignment]) == expected
    assert table == {"optimizer": {"name": "adamw", "lr": 0.1}}


@pytest.mark.parametrize("assignment", ["seed", "=1", ""])
def test_an_assignment_needs_key_and_value(assignment):
    with pytest.raises(ValueError, match=r"is not a setting; write key=value"):
        with_overrides({}, [assignment])


def test_a_value_is_no_group():
    with pytest.raises(ValueError, match=r"'seed\.x': 'seed' is a value, not a group of settings"):
        with_overrides({"seed": 1}, ["seed.x=1"])


def test_differences_name_both_sides_and_what_is_absent():
    assert differences({"a": 1, "b": {"c": 1}}, {"a": 1, "b": {"c": 2}, "d": 3}) == [
        ("b.c", 1, 2),
        ("d", None, 3),
    ]
    assert differences({"a": {"b": [1]}}, {"a": {"b": [1]}}) == []


def test_settings_are_explained_by_their_docstrings_and_choices():
    class Inner(Settings):
        kind: Literal["a", "b"] = "a"
        """Which
        of both."""

    class Outer(Settings):
        n: int = 3
        """How many."""
        inner: Inner = Inner()

    assert list(explained(Outer())) == [
        ("n", 3, "How many."),
        ("inner.kind", "a", "a, b. Which of both."),
    ]


def is_group(kind):
    return isinstance(kind, type) and issubclass(kind, Settings)


def groups_in(settings):
    """A class of settings and those that it holds, also where they may be absent."""
    yield settings
    for field in settings.model_fields.values():
        for kind in filter(is_group, (field.annotation, *get_args(field.annotation))):
            yield from groups_in(kind)


@pytest.mark.parametrize("settings", [Experiment, EvaluationSettings, VectorExperiment])
def test_no_setting_is_without_a_meaning(settings):
    bare = [
        f"{group.__name__}.{name}"
        for group in groups_in(settings)
        for name, field in group.model_fields.items()
        if not field.description and not is_group(field.annotation)
    ]
    assert bare == []


def test_a_group_that_may_be_absent_is_explained_too():
    keys = {key: meaning for key, _, meaning in explained(read_experiment("digits")[1])}
    assert keys["encoder.gate.prior"].startswith("0.8 where encoder.gate is asked for. The prob")


class Renamed(Settings):
    former_names: ClassVar = {"old": "new"}
    new: int = 1


class Holder(Settings):
    inner: Renamed = Renamed()


def test_a_former_name_is_read_with_a_sentence():
    with pytest.warns(FutureWarning, match="the setting old is called new now"):
        assert Holder.read({"inner": {"old": 3}}).inner.new == 3


def test_a_former_name_beside_the_present_one_is_refused():
    with pytest.raises(ValueError, match="old is the former name of new"):
        Holder.read({"inner": {"old": 3, "new": 4}})


def test_tables_of_earlier_versions_get_the_present_names():
    table = {"inner": {"old": 3}, "unknown": {"old": 4}}
    assert Holder.present_names(table) == {"inner": {"new": 3}, "unknown": {"old": 4}}
    assert table["inner"] == {"old": 3}
