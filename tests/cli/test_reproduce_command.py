"""``nonneg reproduce`` as a user types it: what is refused, and what is never lost."""

import json

import pytest

SMALL = (
    "encoder.backbone.width=4",
    "encoder.projector.hidden=[16]",
    "encoder.projector.n_features=24",
    "training.epochs=1",
    "training.warmup_epochs=0.5",
)


def sets(*changes):
    return [part for change in changes for part in ("--set", change)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["propertis"], "there is no table 'propertis'; nearest: properties"),
        (["properties", "--preset", "digts"], "there is no preset 'digts'; nearest: digits"),
        (["properties", "--preset", "digits-cl"], "there is no preset 'digits-cl'; nearest: digit"),
        (["modalities", "--preset", "digits"], "leave --preset and --set out"),
        (["properties", "--set", "seed=5"], "seeds of a table are 0, 1, …; say how many with"),
        (["properties", "--out", "file"], "file is a file; choose another folder"),
    ],
)
def test_what_cannot_be_made_is_one_sentence(nonneg, tmp_path, arguments, said):
    (tmp_path / "file").touch()
    ended = nonneg("reproduce", *arguments, cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ")
    assert said in ended.stderr
    assert not (tmp_path / "runs").exists()


def test_a_table_is_never_replaced_by_another_or_a_poorer_one(nonneg, tmp_path):
    command = ["reproduce", "properties", "--preset", "digits", *sets(*SMALL)]
    ended = nonneg(*command, "--seeds", 2, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    path = tmp_path / "results" / "properties-digits.json"
    before = path.read_bytes()
    assert json.loads(before)["seeds"] == [0, 1]

    for more, said in (
        (["--seeds", 2, "--set", "loss.temperature=0.3"], "was made by `nonneg reproduce prop"),
        (["--seeds", 1], "has 2 seeds; ask for as many with --seeds"),
        (["--seeds", 2, "--budget", 0, "--runs", "elsewhere"], "has figures of 4 runs, this table"),
    ):
        ended = nonneg(*command, *more, cwd=tmp_path)
        assert ended.returncode == 1
        assert said in ended.stderr
        assert path.read_bytes() == before

    assert nonneg(*command, "--seeds", 2, cwd=tmp_path).returncode == 0


def test_the_help_names_every_table():
    from nonneg.cli.reproduce import MODALITIES, TABLES
    from nonneg.paper.tables import PLANS

    assert (*PLANS, MODALITIES) == TABLES
