"""Two commands that start on the same folder at the same instant."""

import json
import shutil
import time
from importlib.util import find_spec

from faults.commands import ARROW, COMMANDS, FIT, TRAIN, contents, ran, started

_TOGETHER = "parent.send('here')\nparent.recv()\n"
_REFUSED = (
    "is writing to the run in",
    "holds a run with other settings",
    "already holds this run",
    "has been fitted or curated meanwhile",
)


def _seed(command, seed):
    return (*command[:-2], "--set", f"seed={seed}", *command[-2:])


_TRAIN, _FIT = COMMANDS["train"].arguments, COMMANDS["fit"].arguments
assert _TRAIN[-2:] == _FIT[-2:] == ("--out", "new"), (TRAIN, FIT)

# Pairs by name, with the prepared folder they start in.
PAIRS = {
    "train and train": ("train", _seed(_TRAIN, 1), _seed(_TRAIN, 2)),
    "train twice": ("train", _TRAIN, _TRAIN),
    "fit and fit": ("fit", _seed(_FIT, 1), _seed(_FIT, 2)),
    "fit twice": ("fit", _FIT, _FIT),
    "train and fit": ("train", _TRAIN, _FIT),
    "evaluate two sections": (
        "evaluate",
        COMMANDS["evaluate"].arguments,
        ("evaluate", "fitted", "--only", "few_labels", "--set", "n_permutations=2"),
    ),
    "embed and embed": (
        "embed",
        COMMANDS["embed"].arguments,
        ("embed", "fitted", "few.npy", "--out", "z.npz"),
    ),
    "curate and curate": (
        "curate",
        COMMANDS["curate"].arguments,
        ("curate", "fitted", "earlier.json", "--undo"),
    ),
}
_INDEX, _INDEX_TEXTS = COMMANDS["index"].arguments, COMMANDS["index of texts"].arguments
_POINTS, _IMPORT = COMMANDS["export to qdrant"].arguments, COMMANDS["import-checkpoint"].arguments
_TEXTS, _REPORT = COMMANDS["fit of texts"].arguments, COMMANDS["report"].arguments
_LIKE = ("search", "fitted", "--like", "7")
_SAID = ("search", "read", "tea", "--index", "lists")
PAIRS |= {
    "index and index": ("index", _INDEX, ("index", "fitted", "few.npy")),
    "index and curate": ("index", _INDEX, COMMANDS["curate"].arguments),
    "index and search": ("index", _INDEX, _LIKE),
    "index of texts and search": ("index of texts", _INDEX_TEXTS, _SAID),
    "export and export": (
        "export to qdrant",
        _POINTS,
        ("export", "fitted", "few.npy", *_POINTS[3:]),
    ),
    "report and report": ("report", _REPORT, ("report", "few.npz", *_REPORT[2:])),
    "import twice": ("import-checkpoint", _IMPORT, _IMPORT),
    "fits of the same texts": ("fit of texts", _TEXTS, (*_TEXTS[:-1], "runs/other")),
    "reproduce twice": ("reproduce", *2 * (COMMANDS["reproduce"].arguments,)),
}
if find_spec(ARROW):
    _MANY, _SHARD = COMMANDS["fit of many files"].arguments, COMMANDS["embed a shard"].arguments
    PAIRS |= {
        "fits of the same files": ("fit of many files", _MANY, (*_MANY[:-1], "runs/other")),
        "two shards": ("embed a shard", _SHARD, (*_SHARD[:-1], "3/3")),
        "one shard twice": ("embed a shard", _SHARD, _SHARD),
    }
_EVALUATIONS = ("evaluate two sections",)


class Together:
    """Runs pairs; keeps what each of their commands makes by itself."""

    def __init__(self, workplace):
        self.workplace, self._alone = workplace, {}

    def alone(self, start, *commands):
        """The contents after commands that run one after the other, and what searches have said."""
        if (start, commands) not in self._alone:
            place = self.workplace.copy(start)
            said = [ran(place, command) for command in commands]
            found = _found(commands, said)
            self._alone[start, commands] = contents(place), found
            shutil.rmtree(place)
        return self._alone[start, commands]

    def outcome(self, name):
        """What is wrong after a pair has ended, "" for nothing."""
        start, *commands = PAIRS[name]
        place = self.workplace.copy(start)
        both = [started(place, command, _TOGETHER) for command in commands]
        for process in both:
            assert process.said() == "here"
        for process in both:
            process.link.send("go")
        ended = [process.end() for process in both]
        wrong = self._wrong(name, start, commands, place, ended)
        if not wrong:
            shutil.rmtree(place)
        return f"{name}: {wrong} ({place})" if wrong else ""

    def _wrong(self, name, start, commands, place, ended):
        for one in ended:
            if "Traceback" in one.stderr:
                return f"a traceback: {one.stderr[-300:]}"
            if one.returncode and not any(words in one.stderr for words in _REFUSED):
                return one.stderr.strip()
        both = [pair for pair in zip(commands, ended, strict=True) if not pair[1].returncode]
        if not both:
            return "neither has worked"
        worked = [command for command, _ in both]
        if name in _EVALUATIONS:
            return _both_sections(place)
        orders = [tuple(worked), tuple(reversed(worked))]
        possible = [self.alone(start, *order) for order in orders]
        found = contents(place), _found(worked, [one for _, one in both])
        return "" if found in possible else "what is left is of neither"


def _found(commands, ended):
    """What searches have printed."""
    pairs = zip(commands, ended, strict=True)
    return [one.stdout for command, one in pairs if command[0] == "search"]


def _both_sections(place):
    deadline = time.monotonic() + 5
    while not (place / "fitted" / "evaluation.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    found = json.loads((place / "fitted" / "evaluation.json").read_text())
    known = {*found["sections"], *found["skipped"]}
    missing = {"probe", "properties", "few_labels"} - known
    return f"{', '.join(sorted(missing))} is lost" if missing else ""
