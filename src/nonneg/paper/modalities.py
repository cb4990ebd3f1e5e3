"""The table of other kinds of data: vectors, two kinds of vectors, and graphs."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nonneg import metrics
from nonneg.data.sources import data_folder
from nonneg.estimators.cross import CrossNCL
from nonneg.estimators.graph import GraphNCL
from nonneg.estimators.ncl import NCL
from nonneg.estimators.reading import nearest_samples
from nonneg.factorization.identification import identification_score
from nonneg.factorization.solvers import eigen_factor
from nonneg.factorization.worlds import graph_world
from nonneg.io import digest_of_file, read_json, write_json
from nonneg.metrics.figures import Figure, Figures, figure_kind
from nonneg.paper.filling import Filled
from nonneg.paper.tables import Arm, Plan

_N_NODES, _N_COMMUNITIES, _N_EDGES = 2_000, 50, 30_000
_N_TOP, _N_FEATURES = 10, 300

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Part:
    """One kind of data, measured with signed and with non-negative features.

    Args:
        name: In the table.
        files: What it reads from the folder of vectors.
        figures: Keys of the figures that the table shows.
        measure: Given the folder, whether features are signed, and the seed.
        settings: Of the estimator, given whether features are signed.
    """

    name: str
    files: tuple[str, ...]
    figures: tuple[str, ...]
    measure: Callable[[Path, bool, int], Figures]
    settings: Callable[[bool], dict[str, Any]]


def _estimator_settings(signed: bool) -> dict[str, Any]:
    """The one switch; all else is as the estimator has it."""
    return {"nonnegative": "identity"} if signed else {}


def _of_vectors(folder: Path, signed: bool, seed: int) -> Figures:
    train, labels, asked, wanted = (np.load(folder / name) for name in VECTORS.files)
    ncl = NCL(**_estimator_settings(signed), random_state=seed).fit(train)
    gallery, Z = (np.asarray(ncl.transform(X)) for X in (train, asked))
    nearest = nearest_samples(Z, gallery, k=1).numbers[:, 0]
    is_right = (labels[nearest] == wanted) & (nearest >= 0)
    precision = metrics.precision_at_k(Z, wanted, 10, gallery=(gallery, labels))
    purity = metrics.top_purity(Z, wanted, 20)
    return {
        "vectors_precision": Figure.of("vectors_precision", float(precision)),
        "vectors_nearest": Figure.of("vectors_nearest", float(is_right.mean())),
        "vectors_purity": Figure.of(
            "vectors_purity",
            float(purity),
            n_features=int(np.isfinite(purity.per_feature).sum()),
        ),
        "vectors_active": Figure.of("vectors_active", float(metrics.active_per_sample(Z))),
        "vectors_alive": Figure.of("vectors_alive", float(ncl.n_alive_)),
    }


def _of_images_and_texts(folder: Path, signed: bool, seed: int) -> Figures:
    images, captions, groups, splits = (np.load(folder / name) for name in IMAGES_AND_TEXTS.files)
    here, told = splits[groups] == "train", splits[groups] == "test"
    tested = np.flatnonzero(splits == "test")
    place = np.searchsorted(tested, groups[told])  # the image of each caption, among the tested
    both = CrossNCL(**_estimator_settings(signed), random_state=seed)
    both.fit(images[groups[here]], captions[here], groups=groups[here])
    Z_images, Z_captions = (np.asarray(Z) for Z in both.transform(images[tested], captions[told]))
    belongs = place == np.arange(len(tested))[:, None]  # (images, captions)
    found = {
        **recalls("captions", Z_images, Z_captions, belongs),
        **recalls("images", Z_captions, Z_images, belongs.T),
    }
    agree = sides_agree(Z_images, Z_captions, captions[told], place)
    active = {
        f"cross_active_{side}": float(metrics.active_per_sample(Z))
        for side, Z in (("images", Z_images), ("captions", Z_captions))
    }
    values = {f"cross_{name}": value for name, value in found.items()} | active
    return {
        **{key: Figure.of(key, value) for key, value in values.items()},
        "cross_agree": Figure.of("cross_agree", agree, null=0.5),
    }


def _of_graphs(_: Path, signed: bool, seed: int) -> Figures:
    graph, members = planted_graph(_N_NODES, _N_COMMUNITIES, _N_EDGES, seed)
    Z: NDArray[Any]
    if signed:
        Z = eigen_factor(graph_world(graph).normalized, _N_COMMUNITIES)
    else:
        Z = GraphNCL(_N_COMMUNITIES, random_state=seed).fit_transform(graph)
    start = GraphNCL(_N_COMMUNITIES, start="random", max_steps=0, random_state=seed)
    null = identification_score(start.fit_transform(graph), members).value
    found = identification_score(Z, members).value
    return {"graph_match": Figure.of("graph_match", found, null=null)}


VECTORS = Part(
    "vectors",
    tuple(f"clinc150_{part}{end}.npy" for part in ("train", "test") for end in ("", "_labels")),
    (
        "vectors_precision",
        "vectors_nearest",
        "vectors_purity",
        "vectors_active",
        "vectors_alive",
    ),
    _of_vectors,
    lambda signed: NCL(**_estimator_settings(signed)).get_params(),
)
IMAGES_AND_TEXTS = Part(
    "image–text",
    tuple(f"flickr_{part}.npy" for part in ("images", "captions", "groups", "splits")),
    (
        "cross_captions_1",
        "cross_captions_10",
        "cross_images_1",
        "cross_images_10",
        "cross_agree",
        "cross_active_images",
        "cross_active_captions",
    ),
    _of_images_and_texts,
    lambda signed: CrossNCL(**_estimator_settings(signed)).get_params(),
)
GRAPHS = Part(
    "graph",
    (),
    ("graph_match",),
    _of_graphs,
    lambda signed: {
        "n_nodes": _N_NODES,
        "n_edges": _N_EDGES,
        **(
            {"solver": "eigenvectors", "n_components": _N_COMMUNITIES}
            if signed
            else GraphNCL(_N_COMMUNITIES).get_params()
        ),
    },
)
PARTS = (VECTORS, IMAGES_AND_TEXTS, GRAPHS)


def recalls(
    name: str, Z_query: Vectors, Z_gallery: Vectors, belongs: NDArray[np.bool_]
) -> dict[str, float]:
    """The share of queries with something that belongs to them among the nearest 1, 5 and 10.

    Args:
        name: Of what is looked for; keys are ``NAME_1`` and so on.
        Z_query: Features ``(n, d)``.
        Z_gallery: Features to search in ``(m, d)``.
        belongs: ``(n, m)``.

    Example:
        >>> Z = np.eye(12, dtype=np.float32)
        >>> recalls("it", Z, Z[::-1], np.eye(12, dtype=bool)[::-1])
        {'it_1': 1.0, 'it_5': 1.0, 'it_10': 1.0}
    """
    nearest = nearest_samples(Z_query, Z_gallery, k=10).numbers  # (n, 10)
    hit = np.take_along_axis(belongs, nearest.clip(min=0), axis=1) & (nearest >= 0)
    return {f"{name}_{k}": float(hit[:, :k].any(axis=1).mean()) for k in (1, 5, 10)}


def sides_agree(
    Z_images: Vectors, Z_captions: Vectors, captions: Vectors, place: NDArray[np.int64]
) -> float:
    """How often a feature's top captions fit its own top images better than another feature's.

    Fit: the cosine of the mean vector of its ten strongest captions with that of all captions of
    its ten strongest images. Over the 300 strongest features that are on for ten images and ten
    captions; chance is one half, and with fewer than two such features it is NaN. Signed features
    count by absolute value.

    Args:
        Z_images: ``(n_images, d)``.
        Z_captions: ``(n_captions, d)``.
        captions: The vectors that captions came from, ``(n_captions, width)``.
        place: The image of each caption; every image has one at least.
    """
    strengths = [
        np.abs(Z) / np.linalg.norm(Z, axis=1, keepdims=True).clip(1e-12)
        for Z in (Z_images, Z_captions)
    ]
    often = np.logical_and(
        *((s > metrics.ACTIVE_THRESHOLD).sum(axis=0) >= _N_TOP for s in strengths)
    )
    chosen = np.flatnonzero(often)
    chosen = chosen[np.argsort(-strengths[0][:, chosen].mean(axis=0))][:_N_FEATURES]
    if len(chosen) < 2:
        return float("nan")
    unit = captions / np.linalg.norm(captions, axis=1, keepdims=True)
    of_image = np.stack([unit[place == i].mean(axis=0) for i in range(len(Z_images))])
    sides = []
    for strength, vectors in zip(strengths, (of_image, unit), strict=True):
        top = np.argsort(-strength[:, chosen], axis=0, kind="stable")[:_N_TOP]  # (10, features)
        mean = vectors[top].mean(axis=0)
        sides.append(mean / np.linalg.norm(mean, axis=1, keepdims=True))
    cosine = sides[0] @ sides[1].T  # (features, features)
    is_nearer = cosine.diagonal()[:, None] > cosine
    return float(is_nearer[~np.eye(len(chosen), dtype=bool)].mean())


def planted_graph(
    n_nodes: int, n_communities: int, n_edges: int, seed: int
) -> tuple[sparse.csr_array, NDArray[np.float64]]:
    """A graph whose edges are drawn inside communities, and the memberships of its nodes.

    Each node is in one community; every second one, at random, is in another too, half in each.
    Nodes that drew no edge are left out.

    Args:
        n_nodes: Before these are left out.
        n_communities: Columns of the memberships.
        n_edges: Drawn, over all communities.
        seed: Of all draws.
    """
    rng = np.random.default_rng(seed)
    members = np.zeros((n_nodes, n_communities))
    first = rng.integers(n_communities, size=n_nodes)
    members[np.arange(n_nodes), first] = 1
    twice = np.flatnonzero(rng.random(n_nodes) < 0.5)
    second = first + rng.integers(1, n_communities, size=n_nodes)
    members[twice, second[twice] % n_communities] = 1
    members /= members.sum(axis=1, keepdims=True)
    ends = np.concatenate(
        [
            rng.choice(n_nodes, size=(2, n_edges // n_communities), p=share / share.sum())
            for share in members.T
        ],
        axis=1,
    )
    ends = ends[:, ends[0] != ends[1]]
    shape = (n_nodes, n_nodes)
    half = sparse.coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=shape).tocsr()
    graph = half + half.T
    joined = np.flatnonzero(np.asarray(graph.sum(axis=1)) > 0)
    return graph[joined][:, joined], members[joined]


MODALITIES = Plan(
    name="modalities",
    about="The switch on other data than images: vectors that are there (MiniLM, CLINC150), two "
    "kinds of vectors (EfficientNet-Lite0 and MiniLM, Flickr8k), and planted graphs, for which "
    "CL's optimum is known: eigenvectors.",
    arms=(Arm("CL", signed=True), Arm("NCL")),
    figures={key: figure_kind(key).heading for part in PARTS for key in part.figures},
    sections=(),
)
N_FITS = len(PARTS) * len(MODALITIES.arms)
"""Of one seed."""
FOLDER = "vectors"


def filled_modalities(
    seeds: Sequence[int],
    runs: Path,
    *,
    data_dir: Path | None = None,
    may_begin: Callable[[], bool] = lambda: True,
    watch: Callable[[str], None] = lambda _: None,
) -> Filled:
    """Fit and measure what is missing, and gather all figures.

    Args:
        seeds: Of the estimators, and of the graphs.
        runs: Where figures of earlier fits are kept.
        data_dir: Where data sets lie; vectors are in its folder ``vectors``, as
            ``clinc150_train.npy``. A part whose files are absent is left out; the table says so.
        may_begin: Called before each fit; False ends the work.
        watch: Told what is being done.
    """
    folder = data_folder(data_dir) / FOLDER
    table = Filled(
        MODALITIES,
        None,
        tuple(seeds),
        arms={arm.name: arm for arm in MODALITIES.arms},
        timed="fitting and measuring",
    )
    parts = [part for part in PARTS if _is_there(part, folder, table)]
    for seed in seeds:
        for arm in MODALITIES.arms:
            for part in parts:
                what = f"{arm.name}, {part.name}, seed {seed}"
                settings = part.settings(arm.signed)
                path = runs / f"modalities-{_digest(part, folder, settings)}-seed{seed}.json"
                if not path.exists():
                    if not may_begin():
                        table.missing.append(what)
                        continue
                    watch(f"{what}: training")
                    _measure(part, folder, arm.signed, seed, path)
                kept = read_json(path)
                figures = {key: Figure.from_json(values) for key, values in kept["figures"].items()}
                table.figures.setdefault(arm.name, {}).setdefault(seed, {}).update(
                    {key: figure for key, figure in figures.items() if key in MODALITIES.figures}
                )
                seconds = table.seconds.setdefault(arm.name, {})
                seconds[seed] = seconds.get(seed, 0.0) + kept["seconds"]
                table.settings.setdefault(arm.name, {})[part.name] = settings
    return table


def _is_there(part: Part, folder: Path, table: Filled) -> bool:
    absent = [name for name in part.files if not (folder / name).exists()]
    if absent:
        table.missing.append(f"{part.name} ({folder} lacks {', '.join(absent)})")
    return not absent


def _measure(part: Part, folder: Path, signed: bool, seed: int, path: Path) -> None:
    began = time.perf_counter()
    figures = part.measure(folder, signed, seed)
    seconds = time.perf_counter() - began
    kept = {key: figure.as_json() for key, figure in figures.items()}
    write_json(path, {"figures": kept, "seconds": seconds})


def _digest(part: Part, folder: Path, settings: dict[str, Any]) -> str:
    """A digest of all that determines the figures: the part, its settings and its files."""
    files = [digest_of_file(folder / name) for name in part.files]
    text = json.dumps([part.name, settings, files], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
