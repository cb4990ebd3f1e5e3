"""The quality of readable features of embeddings: NCL, its dial and its peers on all sets.

Settings are chosen on the validation parts; the test parts are for the published tables.

    export NONNEG_EMBEDDINGS=folder       # made by python -m benchmarks.embedding_vectors
    python -m benchmarks.embeddings --part validation --sets clinc150 bbc --methods ncl full
    python -m benchmarks.embeddings --part test

Every run is kept in the folder as it ends (``benchmarks.embedding_runs``): a benchmark that was
stopped goes on, and what has not changed is not measured again.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import embedding_bars
from benchmarks.embedding_figures import Figures, bootstrap_interval
from benchmarks.embedding_peers import METHODS, MOST_TOPICS
from benchmarks.embedding_runs import FILE, Measured, Plan, Store, measure
from benchmarks.embedding_sets import PARTS, SETS, missing, prepared

SEEDS = (0, 1, 2)
DIAL = ("dense", "concepts", "ncl", "full")
PEERS = ("dense", "ncl", *(name for name, method in METHODS.items() if method.group == "peer"))
_DIAL_TITLES = {"dense": "vectors", "concepts": "concepts", "ncl": "balanced", "full": "full"}

NOTES = """\
Texts are MiniLM vectors (384 numbers), images EfficientNet-Lite0 vectors (1,280). Every method is
fitted without labels on the vectors that are searched in, by cosine. Mean ± standard deviation over
seeds. *Purity* is the share of the commonest class among the 20 strongest asked samples of a
feature, over the features that are on for at least 20 (their number in brackets), by absolute value
where features are signed. *Twins* are the share of the alive features that have another whose
column has a cosine above 0.9. Twins, alive features and purity are those on the asked samples, for
searches those on the documents; *active* is per asked sample, and *empty* counts asked samples
without any feature, which find nothing. *Gain* is nDCG@10 minus that of the vectors, mean over
seeds, with its 95 % interval by bootstrap over questions, paired. *Fit* is in seconds of processor
time. Bars of texts and searches are those of the tuning sets, bars of images those of sets that
nothing was tuned on; they are meant for the test parts."""

DIAL_NOTES = """\
`NCL(detail=…)`. *Bytes* are per sample searched in, as CSR with float32 values, int16 columns and
an int32 per row, or as a dense float32 matrix where that is smaller."""

PEER_NOTES = f"""\
Peers have as many active numbers per sample as NCL has on the set. PCA and FastICA have no more
numbers than that; autoencoders and CSR have as many features as NCL (CSR at least four times as
many as are active). S³ has as many topics as NCL has features, but no more than the vectors have
directions in which they vary (381 for MiniLM); SensTopic has at most {MOST_TOPICS:,}, in case it
needs all iterations. Of both the largest topics of each sample are kept. *Inductive* methods are
fitted only on what is searched in, and then asked for the topics of all samples in one call;
*transductive* ones are fitted on what is asked too, which no other method sees. One seed of PCA,
FastICA, S³ and SensTopic."""

Runs = dict[str, dict[str, Measured]]
Column = tuple[str, Callable[[list[Figures], list[Figures]], str]]


def section() -> str:
    """All tables of the test parts as Markdown, or why there are none."""
    reason = missing()
    if reason is not None:
        return f"Skipped: {reason}."
    plan = Plan("test", tuple(SETS), tuple(METHODS), SEEDS)
    return "\n\n".join(tables(measure(plan, Store(prepared() / FILE)), plan))


def tables(runs: Runs, plan: Plan) -> Iterator[str]:
    """The tables that the measured methods are for, with what their columns mean."""
    yield f"### Default NCL, {plan.part} parts\n\n{default_table(runs)}\n\n{NOTES}"
    if {"concepts", "full"} & set(plan.methods):
        yield f"### The dial, {plan.part} parts\n\n{dial_table(runs)}\n\n{DIAL_NOTES}"
    if any(METHODS[name].group == "peer" for name in plan.methods):
        yield f"### Peers, {plan.part} parts\n\n{peer_table(runs)}\n\n{PEER_NOTES}"


def default_table(runs: Runs) -> str:
    """NCL as it comes beside the vectors, set by set, with the bars."""
    columns: list[Column] = [
        _figure("P@10", "p10"),
        _figure("1-NN", "nn1"),
        _figure("nDCG@10", "ndcg"),
        ("gain (95 % interval)", gain),
        _figure("active", "active", 1),
        ("top-20 purity (features)", _purity),
        _figure("twins", "twins"),
        _figure("alive", "alive", 0),
        _figure("empty", "empty", 0),
        _figure("fit, s", "seconds", 1),
    ]
    lines = []
    for name, measured in runs.items():
        lines += _lines(SETS[name].title, measured, {"dense": "vectors", "ncl": "NCL"}, columns)
        lines[-1] += _bar_cells(embedding_bars.DEFAULT[name], measured, "ncl")
    return _table(["", *(head for head, _ in columns), "bar"], lines)


def dial_table(runs: Runs) -> str:
    """What each level of detail gives and costs."""
    columns: list[Column] = [
        _figure("active", "active", 1),
        _figure("P@10", "p10"),
        _figure("1-NN", "nn1"),
        _figure("nDCG@10", "ndcg"),
        ("gain (95 % interval)", gain),
        ("top-20 purity (features)", _purity),
        _figure("bytes", "bytes", 0),
    ]
    lines = []
    for name, measured in runs.items():
        lines += _lines(SETS[name].title, measured, _DIAL_TITLES, columns)
        lines[-1] += _bar_cells(embedding_bars.FULL.get(name, ()), measured, "full")
    return _table(["", *(head for head, _ in columns), "bar"], lines)


def peer_table(runs: Runs) -> str:
    """Every method at the number active and the number of features that NCL has."""
    columns: list[Column] = [
        _figure("features", "n_features", 0),
        _figure("active", "active", 1),
        _figure("P@10", "p10"),
        _figure("1-NN", "nn1"),
        _figure("nDCG@10", "ndcg"),
        ("gain (95 % interval)", gain),
        ("top-20 purity (features)", _purity),
        _figure("twins", "twins"),
        _figure("empty", "empty", 0),
        _figure("fit, s", "seconds", 1),
    ]
    titles = {name: METHODS[name].title for name in PEERS}
    lines = [
        line
        for name, measured in runs.items()
        for line in _lines(SETS[name].title, measured, titles, columns)
    ]
    return _table(["", *(head for head, _ in columns)], lines)


def gain_per_question(runs: list[Figures], dense: list[Figures]) -> Any:  # noqa: ANN401
    """nDCG@10 of each question, mean over seeds, minus that of the vectors ``(n_questions,)``."""
    ours, theirs = (
        np.mean([run["ndcg_per_question"] for run in some], axis=0) for some in (runs, dense)
    )
    return ours - theirs


def gain(runs: list[Figures], dense: list[Figures]) -> str:
    """The gain in nDCG@10 over the vectors with its interval; empty for labelled sets."""
    if "ndcg" not in runs[0] or runs is dense:
        return ""
    differences = gain_per_question(runs, dense)
    low, high = bootstrap_interval(differences)
    return f"{differences.mean():+.3f} ({low:+.3f} to {high:+.3f})".replace("-", "−")


def means(runs: list[Figures], dense: list[Figures]) -> dict[str, float]:
    """Every figure as its mean over seeds, and the upper end of the gain of a search."""
    values = {
        key: float(np.mean([run[key] for run in runs])) for key in runs[0] if "_per" not in key
    }
    if "ndcg" in values:
        values["ndcg_gain_high"] = bootstrap_interval(gain_per_question(runs, dense))[1]
    return values


def _bar_cells(
    bars: tuple[embedding_bars.Bar, ...], measured: dict[str, Measured], method: str
) -> list[str]:
    runs, dense = measured.get(method, ""), measured["dense"]
    if isinstance(runs, str) or isinstance(dense, str):
        return []
    return [embedding_bars.checked(bars, means(runs, dense), means(dense, dense))]


def _lines(
    title: str, measured: dict[str, Measured], titles: dict[str, str], columns: Sequence[Column]
) -> list[list[str]]:
    """A line for each method that was asked for, or what it lacks; one line of a missing set."""
    dense = measured["dense"]
    if isinstance(dense, str):
        return [[title, dense]]
    lines = []
    for name in titles:
        runs = measured.get(name)
        if runs is not None:
            cells = [runs] if isinstance(runs, str) else [cell(runs, dense) for _, cell in columns]
            lines.append([f"{title}: {titles[name]}", *cells])
    return lines


def _figure(head: str, key: str, digits: int = 3) -> Column:
    return head, lambda runs, _: _mean(runs, key, digits) if key in runs[0] else ""


def _purity(runs: list[Figures], _dense: list[Figures]) -> str:
    if "purity" not in runs[0]:
        return ""
    return f"{_mean(runs, 'purity', 3)} ({np.mean([run['n_pure'] for run in runs]):.0f})"


def _mean(runs: list[Figures], key: str, digits: int) -> str:
    values = [run[key] for run in runs]
    if np.isnan(values).any():
        return "–"
    mean = f"{np.mean(values):,.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):,.{digits}f}"


def _table(heads: list[str], lines: list[list[str]]) -> str:
    filled = [line + [""] * (len(heads) - len(line)) for line in lines]
    return "\n".join(
        "| " + " | ".join(line) + " |" for line in [heads, ["---"] * len(heads), *filled]
    )


def main() -> None:
    """Measure what is missing and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embeddings")
    parser.add_argument("--part", choices=PARTS, default="validation")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--runs", type=Path, help=f"file of runs; default: {FILE} in the folder")
    parser.add_argument("--fresh", action="store_true", help="measure again what is there already")
    parser.add_argument("--tables-only", action="store_true", help="measure nothing")
    given = parser.parse_args()
    reason = missing()
    if reason is not None:
        sys.exit(f"skipped: {reason}")
    plan = Plan(given.part, given.sets, given.methods, given.seeds, not given.tables_only)
    store = Store(given.runs or prepared() / FILE, is_fresh=given.fresh)
    print("\n\n".join(tables(measure(plan, store), plan)))


if __name__ == "__main__":
    main()
