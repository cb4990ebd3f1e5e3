"""A little of each fault; ``make test-faults`` makes them in thousands.

What is checked is told in tests/support/faults, and there each command is one line of a table.
"""

import shutil
import sys

import pytest
from faults import disks, kills, page, pairs
from faults.commands import COMMANDS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

QUICK = ("embed", "import-checkpoint")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_a_command_that_is_killed_at_a_file_ends_the_same_the_next_time(workplace, name):
    """In the middle of its operations on files; where one is missing, the table has gone stale."""
    n = kills.n_operations(workplace, name)
    assert n >= 5
    assert kills.killed_at(workplace, name, n // 2) == ""
    assert kills.killed_at(workplace, name, n) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["train", "index"])
def test_a_command_that_is_killed_at_any_moment_ends_the_same_the_next_time(workplace, name):
    outcomes = [kills.killed_after(workplace, name, seed) for seed in range(4)]
    assert set(outcomes) <= {"", None}  # None where it had ended before
    assert "" in outcomes


@pytest.mark.slow
def test_a_killed_server_answers_the_same_again(workplace):
    pytest.importorskip("uvicorn", reason="uvicorn is not installed; it is in the dev extra")
    assert kills.killed_server(workplace, 0) == ""


def test_a_kill_that_loses_something_is_noticed(workplace, monkeypatch):
    """The check itself, with an embedding that writes into its file in place."""
    in_place = (
        "import contextlib, nonneg.data.feature_file as module\n"
        "@contextlib.contextmanager\n"
        "def replaced(path):\n"
        "    with open(path, 'wb') as file:\n"
        "        os.chmod(path, 0o644)\n"
        "        yield file\n"
        "module.replaced = replaced\n"
    )
    monkeypatch.setattr(kills, "_COUNTING", in_place + kills._COUNTING)
    said = [kills.killed_at(workplace, "embed", number) for number in (1, 2, 3)]
    assert any(wrong and wrong.startswith("embed lost z.npz") for wrong in said)


@pytest.mark.parametrize(
    "name",
    [
        "fit and fit",
        "curate and curate",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in pairs.PAIRS
            if name not in ("fit and fit", "curate and curate")
        ),
    ],
)
def test_two_commands_at_the_same_instant(workplace, name):
    assert pairs.Together(workplace).outcome(name) == ""


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_a_full_disk_is_one_sentence_and_loses_nothing(workplace, name):
    wrong, was_enough = disks.full_file(workplace, name, 100)
    assert (wrong, was_enough) == ("", False)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_read_only_disk_is_one_sentence(workplace, name, tmp_path):
    with disks.mounted(tmp_path / "disk", 64 << 20) as disk:
        if disk is None:
            pytest.skip("this machine allows no mounting")
        assert disks.read_only(workplace, name, disk) == ""
        shutil.rmtree(disk / "work", ignore_errors=True)


@pytest.mark.slow
def test_hostile_strings_run_no_script(tmp_path):
    pytest.importorskip("playwright.sync_api", reason="playwright is in the dev extra")
    if page.CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with page.browser() as running:
        path = page.write_page(tmp_path, 0)
        assert page.wrong_on(running, path, page.routes()) == []
