"""The estimators with fixed seeds: features, facts and texts as they were."""

import numpy as np
import pytest
from scipy import sparse

import nonneg

N_KINDS, N_EACH, N_COLUMNS = 6, 40, 16
N = N_KINDS * N_EACH
KINDS = np.repeat(np.arange(N_KINDS), N_EACH)
WORDS = ("apple", "boat", "cloud", "drum", "engine", "forest")
TEXTS = [f"the {WORDS[kind]} of day {i % 7}" for i, kind in enumerate(KINDS)]
QUICK = {
    "n_components": 24,
    "hidden": 16,
    "batch_size": 64,
    "max_steps": 60,
    "n_neighbors": 5,
    "random_state": 0,
}
# Sixty steps of Adam in single precision drift by up to 0.005 from processor to processor.
DRIFT = {"atol": 0.02, "rtol": 0.02, "share": 0.01}
# What a drift that small can still turn over.
TURNS = ("rank", "text", "top", "found")


def vectors(seed, n_columns=N_COLUMNS):
    directions = np.random.default_rng(n_columns).standard_normal((N_KINDS, n_columns))
    noise = np.random.default_rng(seed).standard_normal((N, n_columns))
    return (directions[KINDS] + 0.4 * noise).astype(np.float32)


X, X_NEW = vectors(1), vectors(2)


def joined():
    """Each vector with the four that follow it in its kind."""
    first = np.arange(N)
    pairs = np.concatenate([np.stack([first, first + step], axis=1) for step in (1, 2, 3, 4)])
    return pairs[pairs[:, 0] // N_EACH == pairs[:, 1] // N_EACH]


def graph():
    """The same as edges, and ever more weak ones from kind to kind, which keep them in order."""
    i, j = joined().T
    k = np.concatenate([kind * N_EACH + np.arange(4 + 3 * kind) for kind in range(N_KINDS - 1)])
    weights = np.concatenate([1.0 + i % 3, np.full(len(k), 0.5)])
    ends = (np.concatenate([i, k]), np.concatenate([j, k + N_EACH]))
    A = sparse.coo_array((weights, ends), shape=(N, N))
    return (A + A.T).tocsr()


FITS = {
    "neighbors": ({}, {}),
    "labels": ({"pairs": "labels"}, {"y": KINDS}),
    "noise": ({"pairs": "noise", "noise": 0.4}, {}),
    "graph": ({"pairs": "graph"}, {"graph": graph()}),
    "index": ({"pairs": "index"}, {"index_pairs": joined()}),
    "target": ({"target_active": 3, "max_active": 4}, {}),
    "signed": ({"nonnegative": "identity"}, {}),
    "linear": ({"hidden": 0, "denoise": 6, "nonnegative": "relu"}, {}),
    "epochs": ({"max_steps": None, "max_epochs": 10, "learning_rate": 1e-3}, {}),
}


def facts(estimator):
    """What a fitted estimator knows of its features."""
    return {
        "expected_activation": estimator.expected_activation_,
        "rank": estimator.rank_,
        "n_alive": estimator.n_alive_,
        "n_dead": estimator.n_dead_,
        "n_axes": estimator.n_axes_,
        "n_iter": estimator.n_iter_,
        "threshold": estimator.threshold_,
        "history": estimator.history_,
    }


def read(explanation):
    parts = {s.feature: [s.name, s.contribution, s.first, s.second] for s in explanation.shared}
    return {"cosine": explanation.cosine, "parts": dict(sorted(parts.items()))}


def told(descriptions):
    return [
        {"name": d.name, "words": d.words, "label_mix": d.label_mix, "top": d.top}
        for d in descriptions
    ]


@pytest.mark.parametrize("name", FITS)
def test_ncl(golden, name):
    settings, given = FITS[name]
    ncl = nonneg.NCL(**QUICK | settings).fit(X, **given)
    found = {**facts(ncl), "features": ncl.transform(X_NEW)}
    golden(f"ncl-{name}", found, **DRIFT, only_exact=TURNS)


def test_sparse_features_and_the_strongest_of_them(golden):
    ncl = nonneg.NCL(**QUICK, sparse_output=True).fit(sparse.csr_array(X))
    Z, few = ncl.transform(X_NEW), ncl.select(8)
    found = {
        "is_sparse": [sparse.issparse(Z), Z.format, Z.dtype.name],
        "features": Z.toarray(),
        "selected": np.sort(few.transform(X_NEW).toarray(), axis=1),
        "names": list(few.get_feature_names_out()),
        **facts(few),
    }
    golden("ncl-sparse", found, **DRIFT, only_exact=TURNS)


def test_explain_describe_edit_and_neighbors(golden):
    ncl = nonneg.NCL(**QUICK, pairs="labels").fit(X, KINDS)
    unnamed = ncl.explain(X[0])
    by_label = ncl.describe(X, labels=KINDS, n_top=10)
    by_words = ncl.describe(X, texts=TEXTS, labels=[WORDS[kind] for kind in KINDS], n_words=2)
    shared, strange = ncl.explain(X[0], X[1]), ncl.explain(X[0], X[-1])
    Z = ncl.transform(X_NEW)
    name = by_words[int(ncl.rank_[0])].name
    Z_edited = ncl.edit(Z, remove=[name], boost={int(ncl.rank_[5]): 2.5})
    numbers, cosine = ncl.neighbors(Z_edited, ncl.transform(X), k=3)
    found = {
        "unnamed": read(unnamed),
        "shared": read(shared),
        "strange": strange.cosine,
        "text": [str(unnamed), str(shared), str(strange)],
        "by_label": [d.name for d in by_label],
        "by_words": told(by_words),
        "names": ncl.feature_names_,
        "removed": name,
        "edited": Z_edited,
        "found": numbers,
        "cosine": cosine,
    }
    golden("ncl-read", found, **DRIFT, only_exact=(*TURNS, "by_words", "unnamed", "shared"))


def test_cross_ncl(golden):
    y = vectors(3, n_columns=10)
    settings = {**QUICK, "noise": 0.3, "temperature": 0.2, "target_active": 4}
    del settings["n_neighbors"]
    both = nonneg.CrossNCL(**settings).fit(X, y, groups=KINDS)
    Z_x, Z_y = both.transform(X_NEW, y)
    of_x, of_y = both.describe(X, y, texts=TEXTS)
    found = {
        **facts(both),
        "features": Z_x,
        "of_y": Z_y,
        "cosine": [both.explain(X[0], y[i]).cosine for i in (0, 1, -1)],
        "names": both.feature_names_,
        "text": [told(of_x), told(of_y), read(both.explain(X[0], y[0]))],
    }
    golden("cross", found, **DRIFT, only_exact=TURNS)


@pytest.mark.parametrize("start", ["eigenvectors", "sampling", "random"])
def test_graph_ncl(golden, start):
    found = nonneg.GraphNCL(N_KINDS, start=start, max_steps=60, random_state=0).fit(graph())
    Z = found.embedding_
    # Signs of eigenvectors, and so the order of the features, depend on the processor.
    middle = np.arange(N) @ Z / Z.sum(axis=0)
    told = {
        "loss": found.loss_,
        "n_isolated": found.n_isolated_,
        "n_iter": found.n_iter_,
        "features": Z,
        "in_order": Z[:, np.argsort(middle)],
    }
    off = {"atol": 0.02, "rtol": 0.02, "share": 0.05}
    golden(f"graph-{start}", told, **off, only_exact=("features", "n_iter"))
