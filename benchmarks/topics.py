"""Topics of texts: NCL beside BERTopic, turftopic and k-means, by the measures of the field.

    export NONNEG_EMBEDDINGS=folder       # made by python -m benchmarks.embedding_vectors
    python -m benchmarks.topics --sets bbc --methods ncl kmeans --seeds 0
    python -m benchmarks topics           # all, into results.md

Every run is kept in the folder as it ends, so that a benchmark that was stopped goes on, and the
peers may be run in an environment of their own.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

import nonneg
from benchmarks.embedding_runs import Store, source_digest
from benchmarks.embedding_sets import missing, prepared
from benchmarks.embedding_vectors import text_of
from benchmarks.topic_methods import METHODS, N_WORDS, Corpus, Topics
from nonneg import metrics
from nonneg.metrics.coherence import text_words

FILE = "topic_runs.jsonl"
SEEDS = (0, 1, 2)
# Texts of a topic that the intruder test draws from.
_N_TOP = 20
_GENSIM_EPSILON = 1e-12
# What the bar is about, and how far behind the best NCL may be.
BAR = ("npmi", "ami", "intruder")
_BEHIND = 0.03
_PACKAGE = Path(nonneg.__file__).parent
_HERE = Path(__file__).parent

Figures = dict[str, Any]
Some = dict[str, list[Figures] | str]  # by method: the figures of each seed, or why there are none
Runs = dict[tuple[str, int, str], list[Figures] | str]

NOTES = f"""\
All methods have the same texts, the same MiniLM vectors and the same number of topics k; the last k
of a set is the number that BERTopic finds by itself with its first seed (with others it has fewer).
*NCL* is `NCL().fit(X).clusters(X, k)` and the `words(texts)` of these clusters; beside it, not
ranked, `NCL(n_components=k)` with each text in its strongest feature. Peers have their own words,
of a vocabulary of words in at least ten texts without stop words, and BERTopic and turftopic their
defaults otherwise; each text belongs to its strongest topic. *NPMI* is that of the first {N_WORDS}
words by whole texts. NCL's words are chosen by how they occur together in these texts, too, so it
is also measured on *new texts*, the test part of 20 Newsgroups, where words that none of them holds
count against a method. *c_npmi* is gensim's, by runs of ten words; *diversity* the share of
different words; *AMI* the agreement of topics with classes, texts without a topic (*none*) being a
group of their own; *intruder* how often a text of another topic is told from five of a topic's
{_N_TOP} strongest by the vectors (chance 1/6); *stability* the mean cosine of the topics' texts
with those of another seed, matched one to one. *Seconds* are of processor time, from vectors and
texts to topics and words, the least of all seeds because others used the machine too (of turftopic
those of the first seed); time to load and compile is left out, time to embed words is not. Mean ±
standard deviation over seeds. *Rank* is the mean rank of NPMI, AMI and intruder among the ranked
methods. How many texts words are read from (200 per cluster) was chosen on these sets."""


class TopicSet(NamedTuple):
    """A corpus by its title, its files, the numbers of topics, and what reads it.

    ``new_texts`` is a file of further texts of the same kind, on which words are judged again.
    """

    title: str
    files: tuple[str, ...]
    numbers: tuple[int, ...]
    read: Callable[[Path], Corpus]
    new_texts: str | None = None


class TopicRun(NamedTuple):
    """What identifies a run; ``n_topics`` is 0 for a method's own number."""

    set_name: str
    method: str
    n_topics: int
    seed: int
    code: str

    @property
    def key(self) -> str:
        """The run in one line of text."""
        return json.dumps(self)


def _bbc(folder: Path) -> Corpus:
    records = json.loads((folder / "bbc_raw.json").read_text())
    vectors, labels = np.load(folder / "bbc.npy"), np.load(folder / "bbc_labels.npy")
    return Corpus([text_of(record) for record in records], vectors, labels)


def _newsgroups20(folder: Path) -> Corpus:
    texts = json.loads((folder / "newsgroups20_train_texts.json").read_text())
    vectors, labels = (np.load(folder / f"newsgroups20_train{end}.npy") for end in ("", "_labels"))
    return Corpus(texts, vectors, labels)


SETS: dict[str, TopicSet] = {
    "bbc": TopicSet("BBC News", ("bbc.npy", "bbc_labels.npy", "bbc_raw.json"), (10, 20), _bbc),
    "newsgroups20": TopicSet(
        "20 Newsgroups",
        tuple(f"newsgroups20_train{end}" for end in (".npy", "_labels.npy", "_texts.json")),
        (20, 50),
        _newsgroups20,
        new_texts="newsgroups20_test_texts.json",
    ),
}


def figures(found: Topics, corpus: Corpus, seed: int, new_texts: Sequence[str] = ()) -> Figures:
    """Every figure of some topics, with what the stability over seeds is measured by.

    Args:
        found: What a method made.
        corpus: Of what it made it.
        seed: Which of equally strong texts count as the strongest is drawn.
        new_texts: Others of the same kind; without any, words are not judged on them.
    """
    words = [_first_words(own) for own in found.words]
    assigned = np.asarray(found.assigned)
    agreement = metrics.cluster_agreement(corpus.labels, assigned)
    strongest = _one_hot(assigned, len(words))
    for topic in range(len(words)):
        own = np.flatnonzero(assigned == topic)
        order = np.random.default_rng(seed).permutation(len(own))  # ties in no order
        weakest = own[order][np.argsort(-found.strength[own[order]], kind="stable")][_N_TOP:]
        strongest[weakest, topic] = 0
    return {
        "k": len(words),
        "npmi": float(metrics.npmi_coherence(words, corpus.texts, n_words=N_WORDS)),
        "npmi_new": new_coherence(words, new_texts),
        "c_npmi": float(
            metrics.npmi_coherence(
                words, corpus.texts, n_words=N_WORDS, window=10, epsilon=_GENSIM_EPSILON
            )
        ),
        "diversity": float(metrics.topic_diversity(words, n_words=N_WORDS)),
        "ami": float(agreement),
        "v_measure": agreement.v_measure,
        "intruder": float(metrics.intruder_accuracy(strongest, corpus.vectors, n_top=_N_TOP)),
        "none": agreement.n_unassigned / len(assigned),
        "seconds": found.seconds,
        "words": words,
        "assigned": assigned.tolist(),
    }


def new_coherence(words: list[list[str]], texts: Sequence[str]) -> float:
    """The NPMI of words on texts that no method has seen; NaN without any."""
    return float(metrics.npmi_coherence(words, texts, n_words=N_WORDS)) if texts else float("nan")


def _first_words(entries: Sequence[str]) -> list[str]:
    """The first different words; a phrase counts as its words."""
    return list(dict.fromkeys(w for entry in entries for w in text_words(entry)))[:N_WORDS]


def _one_hot(assigned: Any, n_topics: int) -> Any:  # noqa: ANN401
    return (assigned[:, None] == np.arange(n_topics)).astype(np.float32)


def stability(runs: list[Figures]) -> float:
    """The mean cosine of topics' texts with those of another seed, matched; NaN of one seed."""
    found = [
        metrics.match_features(*(_one_hot(np.array(run["assigned"]), run["k"]) for run in pair))
        for pair in combinations(runs, 2)
    ]
    return float(np.mean([float(match) for match in found])) if found else float("nan")


def measure(
    sets: Sequence[str], methods: Sequence[str], seeds: Sequence[int], store: Store, *, is_run: bool
) -> Runs:
    """The runs of each set, number of topics and method, or why there are none."""
    found: Runs = {}
    for name in sets:
        corpus = SETS[name].read(prepared())
        own = _measured(name, "bertopic", 0, seeds, corpus, store, is_run=is_run)
        numbers = [*SETS[name].numbers, *([] if isinstance(own, str) else [own[0]["k"]])]
        for n_topics in numbers:
            is_own = n_topics == numbers[-1] and not isinstance(own, str)
            for method in methods:
                if method == "bertopic" and is_own:
                    found[name, n_topics, method] = own
                    continue
                found[name, n_topics, method] = _measured(
                    name, method, n_topics, seeds, corpus, store, is_run=is_run
                )
    return found


def _measured(
    name: str,
    method: str,
    n_topics: int,
    seeds: Sequence[int],
    corpus: Corpus,
    store: Store,
    *,
    is_run: bool,
) -> list[Figures] | str:
    found, reason = [], ""
    for seed in seeds:
        run = TopicRun(name, method, n_topics, seed, _code(method))
        known = store.find(run)  # type: ignore[arg-type]
        if known is None:
            reason = METHODS[method].why_not() or ("" if is_run else "not measured")
            if reason:
                continue
            made = METHODS[method].run(corpus, n_topics or None, seed)
            known = figures(made, corpus, seed, _new_texts(name))
            store.keep(run, known)  # type: ignore[arg-type]
            _report(run, known)
        found.append(known)
    return found or reason


def _new_texts(name: str) -> list[str]:
    file = SETS[name].new_texts
    found: list[str] = []
    if file is not None and missing([file]) is None:
        found = json.loads((prepared() / file).read_text())
    return found


def _code(method: str) -> str:
    """A short name of the code that a run depends on."""
    names = ("coherence", "monosemanticity", "stability")
    places = [*(_PACKAGE / "metrics" / f"{name}.py" for name in names), _HERE / "topic_methods.py"]
    ours = [_PACKAGE / "estimators"] if method.startswith("ncl") else []
    return source_digest((*places, *ours))


def _report(run: TopicRun, found: Figures) -> None:
    shown = ", ".join(f"{key} {v:.3f}" for key, v in found.items() if isinstance(v, float))
    print(
        f"{run.set_name}, {run.method}, k {found['k']}, seed {run.seed}: {shown}", file=sys.stderr
    )


def section() -> str:
    """All tables as Markdown, or why there are none."""
    reason = missing() or next(filter(None, (missing(one.files) for one in SETS.values())), None)
    if reason is not None:
        return f"Skipped: {reason}."
    runs = measure(list(SETS), list(METHODS), SEEDS, Store(prepared() / FILE), is_run=True)
    return "\n\n".join(tables(runs))


def tables(runs: Runs) -> Iterator[str]:
    """A table for each set and number of topics, then whether the bar holds."""
    for name in dict.fromkeys(name for name, _, _ in runs):
        numbers = list(dict.fromkeys(k for other, k, _ in runs if other == name))
        for n_topics in numbers:
            some = {m: found for (s, k, m), found in runs.items() if (s, k) == (name, n_topics)}
            yield f"### {SETS[name].title}, {n_topics} topics\n\n{table(some)}"
        yield bar(name, runs)
    yield NOTES


_COLUMNS = (
    ("NPMI", "npmi", 3),
    ("NPMI, new texts", "npmi_new", 3),
    ("c_npmi", "c_npmi", 3),
    ("diversity", "diversity", 3),
    ("AMI", "ami", 3),
    ("intruder", "intruder", 3),
    ("none", "none", 3),
)


def table(some: Some) -> str:
    """A line for each method, with its rank."""
    ranks = mean_ranks(some)
    heads = ["", "topics", *(head for head, _, _ in _COLUMNS), "stability", "seconds", "rank"]
    lines = [heads, ["---"] * len(heads)]
    for method, found in some.items():
        if isinstance(found, str):
            lines.append([METHODS[method].title, found, *[""] * (len(heads) - 2)])
            continue
        cells = [_mean([run[key] for run in found], digits) for _, key, digits in _COLUMNS]
        n_topics = f"{np.mean([run['k'] for run in found]):.0f}"
        seconds = np.fmin.reduce([run["seconds"] for run in found])
        last = [(stability(found), 3), (seconds, 1), (ranks.get(method, np.nan), 2)]
        cells += [_number(value, digits) for value, digits in last]
        lines.append([METHODS[method].title, n_topics, *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def mean_figures(some: Some, key: str) -> dict[str, float]:
    """A figure of each ranked method that was measured, as its mean over seeds."""
    return {
        method: float(np.mean([run[key] for run in found]))
        for method, found in some.items()
        if METHODS[method].is_ranked and not isinstance(found, str)
    }


def mean_ranks(some: Some, keys: Sequence[str] = BAR) -> dict[str, float]:
    """The mean rank of each ranked method over some figures, 1 for the best; ties share theirs."""
    found = [mean_figures(some, key) for key in keys]
    ranks = np.mean([rankdata([-value for value in one.values()]) for one in found], axis=0)
    return dict(zip(found[0], ranks.tolist(), strict=True))


def bar(name: str, runs: Runs) -> str:
    """Whether NCL has the best mean rank on a set, and is nowhere far behind."""
    numbers = list(dict.fromkeys(k for other, k, _ in runs if other == name))
    some = [{m: f for (s, k, m), f in runs.items() if (s, k) == (name, n)} for n in numbers]
    said = [
        f"with {title} it is {_checked(some, (key, *BAR[1:]))}"
        for key, title in _COHERENCES.items()
        if not any(np.isnan(value) for one in some for value in mean_figures(one, key).values())
    ]
    return (
        f"Bar of {SETS[name].title}: best mean rank over all k, and at no k more than {_BEHIND} "
        f"behind the best; {'; '.join(said)}."
    )


_COHERENCES = {
    "npmi": "NPMI",
    "npmi_new": "NPMI on new texts in its place",
    "c_npmi": "c_npmi in its place",
}


def _checked(some: Sequence[Some], keys: Sequence[str]) -> str:
    """Whether the bar is held, by the runs of each number of topics, with what it is judged by."""
    if not all("ncl" in mean_figures(one, keys[0]) for one in some):
        return "not measured"
    ranks = [mean_ranks(one, keys) for one in some]
    methods = set.intersection(*(set(one) for one in ranks))
    mean = {method: float(np.mean([one[method] for one in ranks])) for method in methods}
    mine = mean.pop("ncl")
    others = min(mean.values(), default=np.inf)
    behind = {
        key: max(max(one.values()) - one["ncl"] for one in (mean_figures(o, key) for o in some))
        for key in keys
    }
    is_held = mine < others and max(behind.values()) <= _BEHIND
    gaps = ", ".join(f"{key} {gap:.3f}" for key, gap in behind.items())
    return (
        f"{'held' if is_held else '**missed**'}: mean rank {mine:.2f} (next {others:.2f}), "
        f"most behind the best at any k: {gaps}"
    )


def _mean(values: list[float], digits: int) -> str:
    mean = _number(float(np.mean(values)), digits)
    return (
        mean
        if len(values) == 1 or np.isnan(values).any()
        else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"
    )


def _number(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def main() -> None:
    """Measure what is missing and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.topics")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--runs", type=Path, help=f"file of runs; default: {FILE} in the folder")
    parser.add_argument("--tables-only", action="store_true", help="measure nothing")
    given = parser.parse_args()
    reason = missing() or next(filter(None, (missing(SETS[n].files) for n in given.sets)), None)
    if reason is not None:
        sys.exit(f"skipped: {reason}")
    store = Store(given.runs or prepared() / FILE)
    is_run = not given.tables_only
    print(
        "\n\n".join(tables(measure(given.sets, given.methods, given.seeds, store, is_run=is_run)))
    )


if __name__ == "__main__":
    main()
