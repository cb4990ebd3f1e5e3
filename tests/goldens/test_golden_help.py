"""Help texts and the list of presets, letter by letter: a change of them is meant to be seen."""

import re

import pytest

COMMANDS = (
    "demo", "train", "evaluate", "compare", "presets", "fit", "embed", "curate", "index", "search",
    "export", "import-checkpoint", "report", "reproduce", "theory",
)  # fmt: skip
TEXTS = {
    "nonneg": ("--help",),
    **{f"nonneg-{name}": (name, "--help") for name in COMMANDS},
    "presets": ("presets",),
    "presets-digits": ("presets", "digits"),
    "presets-fashion-mnist": ("presets", "fashion-mnist"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_command_says_of_itself(command, golden_text, name):
    golden_text(f"help/{name}.txt", command(*TEXTS[name]))


def test_every_command_is_here(command):
    listed = re.findall(r"^│ (\w[\w-]*) ", command("--help"), re.MULTILINE)
    assert tuple(listed) == COMMANDS
