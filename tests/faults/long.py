"""The long form: thousands of faults, resumed where it stopped; writes docs/reliability.md.

    python tests/faults/long.py                       all suites, to their goals
    python tests/faults/long.py kills --goal 2000     one suite, further

What is done is kept in .faults/. When the sources have changed, a suite begins again, unless --keep
says that it goes on; what had failed is then tried again before anything new. Damaged files that
fail are also kept in tests/faults/corpus, which the quick tests read again and again.
"""

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from datetime import date
from functools import partial
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "src")]

STATE = ROOT / ".faults" / "state.json"
PAGE = ROOT / "docs" / "reliability.md"
# Servers that are killed at some moment: they make no operation on a file.
N_SERVERS = 40
AT_ANY_MOMENT = ", at any moment"
CORPUS = Path(__file__).parent / "corpus"
GOALS = {"kills": 500, "pairs": 120, "disks": 100, "files": 10_000, "strings": 1_000, "large": 4}


class Suite:
    """How far a suite has come.

    Args:
        name: A key of ``GOALS``.
        goal: Cases to do.
        keep: Whether it goes on though the sources have changed.
    """

    def __init__(self, name, goal, *, keep):
        self.name, self.goal = name, goal
        states = json.loads(STATE.read_text()) if STATE.exists() else {}
        now = _digest_of_sources()
        self.state = states.get(name)
        if self.state is None or (self.state["sources"] != now and not keep):
            self.state = {"next": 0, "counts": {}, "failures": [], "seconds": 0, "n_sources": 0}
        if self.state.get("sources") != now:
            self.state["sources"] = now
            self.state["n_sources"] += 1
        self._saved, self._again = time.monotonic(), None

    @property
    def n_counted(self):
        """Cases that have held or failed."""
        return sum(sum(found.values()) for found in self.state["counts"].values())

    @property
    def numbers(self):
        """Numbers of the cases that are left: those that failed when it stopped, then new ones."""
        for failure in list(self.state["failures"]):
            self._again = failure
            yield failure[0]
        self._again = None
        while self.n_counted < self.goal:
            yield self.state["next"]

    def note(self, kind, outcome, *, n=1):
        """Count n cases as done; an outcome says what was wrong with them.

        None for a case that there was not, as where a command had ended before it was killed: that
        is not counted.
        """
        number = self.state["next"]
        if self._again:
            self.state["failures"].remove(self._again)
            number, earlier, n_earlier, _ = self._again
            self.state["counts"][earlier]["failed"] -= n_earlier
        else:
            self.state["next"] += n
        if outcome is not None:
            counts = self.state["counts"].setdefault(kind, {})
            key = "failed" if outcome else "held"
            counts[key] = counts.get(key, 0) + n
        if outcome:
            self.state["failures"].append([number, kind, n, outcome])
            print(f"{self.name} {number}: {outcome}", flush=True)
        self.state["date"] = date.today().isoformat()
        if time.monotonic() - self._saved > 5:
            self.save()

    def save(self):
        """Keep how far it has come, and write the page."""
        now = time.monotonic()
        self.state["seconds"] += now - self._saved
        self._saved = now
        states = json.loads(STATE.read_text()) if STATE.exists() else {}
        states[self.name] = self.state
        STATE.parent.mkdir(exist_ok=True)
        part = STATE.with_suffix(f".{self.name}")
        part.write_text(json.dumps(states, indent=1))
        part.replace(STATE)
        write_page(states)
        print(f"{self.name}: {self.n_counted:,} of {self.goal:,}", flush=True)


def _digest_of_sources():
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def kills(suite, folder):
    """At each operation of each command on a file, then at moments that chance chooses."""
    from faults.commands import COMMANDS, Workplace
    from faults.kills import killed_after, killed_at, killed_server, n_operations

    workplace = Workplace(folder)
    cases = {name: list(range(1, n_operations(workplace, name) + 1)) for name in COMMANDS}
    suite.state["operations"] = sum(map(len, cases.values()))
    cases["serve"] = list(range(N_SERVERS))
    for name, numbers in cases.items():
        random.Random(name).shuffle(numbers)
    # In turns, so that a part of them is of all commands alike.
    turns = zip_longest(
        *([(name, number) for number in numbers] for name, numbers in cases.items())
    )
    cases = [case for turn in turns for case in turn if case is not None]
    for number in suite.numbers:
        if number < len(cases):
            name, operation = cases[number]
            kill = killed_server if name == "serve" else partial(killed_at, name=name)
            suite.note(name, kill(workplace, number=operation))
        else:
            name = list(COMMANDS)[number % len(COMMANDS)]
            suite.note(f"{name}{AT_ANY_MOMENT}", killed_after(workplace, name, number))


def pairs(suite, folder):
    """Two commands at the same instant."""
    from faults.commands import Workplace
    from faults.pairs import PAIRS, Together

    together, names = Together(Workplace(folder)), list(PAIRS)
    for number in suite.numbers:
        name = names[number % len(names)]
        suite.note(name, together.outcome(name))


def disks(suite, folder):
    """Files and disks with too little room, and a disk that is read-only."""
    from faults.commands import COMMANDS, Workplace
    from faults.disks import full_disk, full_file, mounted, read_only

    workplace, names, n_bytes = Workplace(folder), list(COMMANDS), {}
    with mounted(folder / "disk", 64 << 20) as disk:
        for number in suite.numbers:
            name, turn = names[number % len(names)], number // len(names)
            if disk and turn == 0:
                suite.note(f"{name}, read-only", read_only(workplace, name, disk))
                continue
            # From nothing on ever more, until it is enough; then other sizes between.
            fault = full_disk if disk and turn % 2 else full_file
            room = n_bytes.get((name, fault), 1_000)  # the sentence itself needs some
            given = (workplace, name, disk, room) if fault is full_disk else (workplace, name, room)
            wrong, was_enough = fault(*given)
            n_bytes[name, fault] = 777 * (turn + 1) if was_enough else int(room * 1.7) + 1_000
            suite.note(f"{name}, {'full disk' if fault is full_disk else 'full file'}", wrong)


def files(suite, folder):
    """Damaged files, each reader in turn, in processes that may be killed."""
    from faults.damage import READERS

    names, per_turn, reading = list(READERS), 50, None
    for number in suite.numbers:
        turn, place = divmod(number, per_turn)
        name, file = names[turn % len(names)], turn // len(names) * per_turn + place
        if reading is None or reading.name != name:
            if reading is not None:
                reading.end()
            reading = _Reading(name)
        outcome = reading.outcome(file)
        if outcome in ("read", "refused"):
            outcomes = suite.state.setdefault("outcomes", {})
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            suite.note(name, "")
        else:
            suite.note(name, f"{outcome} (file {file})")
            _keep_failure(name, file)
            reading.end()  # it may have lost its memory, or its mind
            reading = None


class _Reading:
    """A process that reads damaged files of one reader."""

    # One that never comes back to Python notices no alarm. The machine may be busy otherwise.
    _SECONDS = 300

    def __init__(self, name):
        self.name = name
        context = get_context("forkserver")
        context.set_forkserver_preload(["faults.damage"])
        self._link, other = context.Pipe()
        self._process = context.Process(target=_read_damaged, args=(other, name))
        self._process.start()
        other.close()

    def outcome(self, number):
        try:
            self._link.send(number)
            if self._link.poll(self._SECONDS):
                return self._link.recv()
        except (EOFError, OSError):
            self._process.join(10)
            return f"the process ended with {self._process.exitcode}"
        return f"no answer for {self._SECONDS} s"

    def end(self):
        self._link.close()
        self._process.join(10)
        self._process.kill()


def _read_damaged(link, name):
    from faults.damage import Bench, limit_memory

    limit_memory()
    bench = Bench(name)
    try:
        while True:
            link.send(bench.outcome(bench.content_of(link.recv())))
    except EOFError:
        bench.close()


def _keep_failure(name, number):
    from faults.damage import Bench

    bench = Bench(name)
    content = bench.content_of(number)
    bench.close()
    place = CORPUS / name.replace(" ", "-")
    place.mkdir(parents=True, exist_ok=True)
    (place / hashlib.sha256(content).hexdigest()[:12]).write_bytes(content)


def strings(suite, folder):
    """Strings that want to be scripts, on pages in a browser."""
    from faults.page import N_STRINGS, browser, routes, write_page, wrong_on

    folder.mkdir()
    with browser() as running:
        for number in suite.numbers:
            path = write_page(folder, number)
            wrong = wrong_on(running, path, routes())
            suite.note("pages of the atlas", "; ".join(wrong[:3]), n=N_STRINGS)
            path.unlink()


def large(suite, folder):
    """Inputs of the largest size that is promised."""
    from faults.large import (
        GIB,
        memory_of_an_atlas,
        memory_of_measuring,
        seconds_to_list,
        seconds_to_open,
    )

    folder.mkdir()
    cases = {
        "evaluate features 200,000 × 2,048": (memory_of_measuring, 8 * GIB),
        "an atlas of 50,000 samples": (lambda: memory_of_an_atlas(folder), 2 * GIB),
        "opening it": (lambda: seconds_to_open(folder / "atlas.html"), 3),
        "listing 100,000 images": (lambda: seconds_to_list(folder / "images", 100_000), 10),
    }
    for number in suite.numbers:
        name, (measure, most) = list(cases.items())[number]
        if name == "opening it" and not (folder / "atlas.html").exists():
            memory_of_an_atlas(folder)
        found = measure()
        is_memory = most >= GIB
        said = "no browser" if found is None else _size(found) if is_memory else f"{found:.1f} s"
        suite.state.setdefault("figures", {})[name] = said
        suite.note(name, "" if found is None or found < most else f"{name}: {said}")


def _size(n_bytes):
    return f"{n_bytes / (1 << 30):.1f} GiB"


_ABOUT = """# Reliability

What happens when something goes wrong around `nonneg`: a process is killed, two commands meet, the
disk is full, a file is damaged, a text wants to be a script. `make test-faults` makes all of it
happen, thousands of times, and writes this page; a little of each is in the quick tests. It goes on
where it stopped.

| | cases | held | failed | what has to hold |
|---|--:|--:|--:|---|
"""
_HOLDS = {
    "kills": "SIGKILL, then the same command again: nothing that was there is lost, and the end "
    "has the same bytes as without the kill",
    "pairs": "two commands on one folder at the same instant: what is left is what one of them "
    "makes, or one after the other",
    "disks": "a full disk or a read-only one: one sentence, nothing lost, and the same end once "
    "there is room",
    "files": "a damaged file is read or refused in a sentence: no other error, no 10 seconds, no "
    "2 GB; where there is a digest, refused",
    "large": "features 200,000 × 2,048 are measured within 8 GiB, an atlas of 50,000 samples takes "
    "2 GiB and opens in 3 s, 100,000 images are listed in 10 s",
    "strings": "shown on a page in a browser: no script, no dialog, no request, nothing refused by "
    "the page's own policy",
}
_TITLES = {
    "kills": "Kills",
    "pairs": "Concurrent pairs",
    "disks": "Full and read-only disks",
    "files": "Damaged files",
    "strings": "Hostile strings",
    "large": "Large inputs",
}


def write_page(states):
    """Write the counts as they are."""
    lines = [_ABOUT]
    for name, title in _TITLES.items():
        counts = states.get(name, {"counts": {}})["counts"].values()
        held, failed = (sum(kind.get(key, 0) for kind in counts) for key in ("held", "failed"))
        lines.append(f"| {title} | {held + failed:,} | {held:,} | {failed:,} | {_HOLDS[name]} |\n")
    lines.append("\n## By kind\n")
    for name, title in _TITLES.items():
        if name in states:
            state = states[name]
            mended = _MENDED if state["n_sources"] > 1 else ""
            lines.append(f"\n**{title}** ({state['date']}, {_beside(name, state)}{mended}): ")
            lines.append(
                ", ".join(
                    (kind if "figures" in state else f"{kind} {sum(found.values()):,}")
                    + (f" ({found['failed']:,} failed)" if found.get("failed") else "")
                    + (f": {state['figures'][kind]}" if "figures" in state else "")
                    for kind, found in state["counts"].items()
                )
                + ".\n"
            )
    failures = [(name, *failure) for name in states for failure in states[name]["failures"]]
    if failures:
        lines.append("\n## What failed\n\n")
        lines += [
            f"- {name} {number}: `{_short(said)}`\n" for name, number, _, _, said in failures[:50]
        ]
    lines.append(_LIMITS)
    PAGE.write_text("".join(lines))


_LIMITS = """
## What this does not say

These are faults of software on one machine with a file system that keeps its promises. Power cuts,
network file systems that lose locks, broken memory and disks that lie are not tried. Several
processes under `torchrun` are killed in other tests. Damaged files are mutations of small good
ones, so what takes a large file to go wrong is not found here. The counts are of the sources as
they were on the day that stands beside them.
"""


_MENDED = "; sources changed meanwhile, what had failed was tried again"


def _beside(name, state):
    if name == "kills":
        counts = {kind: sum(found.values()) for kind, found in state["counts"].items()}
        n_random = sum(n for kind, n in counts.items() if kind.endswith(AT_ANY_MOMENT))
        n, n_at = state["operations"], sum(counts.values()) - n_random - counts.get("serve", 0)
        if not n_random:
            return f"at {n_at:,} of the {n:,} operations on files, drawn by chance"
        return f"at each of the {n:,} operations on files, and at {n_random:,} random moments"
    if name == "files":
        outcomes = state.get("outcomes", {})
        return f"{outcomes.get('read', 0):,} read, {outcomes.get('refused', 0):,} refused"
    return f"{state['seconds'] / 60:.0f} minutes"


def _short(said):
    text = " ".join(said.replace(str(ROOT), ".").replace(tempfile.gettempdir(), "…").split())
    return text.replace("`", "'")[:200]


def main():
    """Run the suites that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("suites", nargs="*", choices=[[], *GOALS], default=list(GOALS))
    parser.add_argument("--goal", type=int, help="cases of each suite")
    parser.add_argument("--keep", action="store_true", help="go on though sources have changed")
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])  # for the server that forks
    failed = 0
    for name in asked.suites or GOALS:
        suite = Suite(name, asked.goal or GOALS[name], keep=asked.keep)
        with tempfile.TemporaryDirectory() as folder:
            try:
                globals()[name](suite, Path(folder) / name)
            finally:
                suite.save()
        failed += len(suite.state["failures"])
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
