"""The tuning of the peers: every trial on CLINC150's validation texts, one seed.

The trial of the largest mean of precision@10, 1-NN and top-20 purity wins; the winners are the
constants of ``benchmarks.embedding_peers``. Steps and batches are such that a fit costs about as
much as one of NCL.

    NONNEG_EMBEDDINGS=folder python -m benchmarks.embedding_tuning [peer …]
"""

import sys
from typing import Any

from sklearn.decomposition import NMF, PCA, FastICA
from sklearn.pipeline import make_pipeline

from benchmarks.contrastive_autoencoder import CSR
from benchmarks.embedding_peers import Denoised, Shifted, dictionary
from benchmarks.embedding_sets import clinc150
from benchmarks.embeddings import labelled_figures
from benchmarks.sparse_autoencoders import SparseAutoencoder
from nonneg import NCL

Settings = dict[str, Any]

_RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
PEERS: dict[str, tuple[Any, list[Settings]]] = {
    "ncl": (NCL, [{}]),
    "pca": (PCA, [{"n_components": n} for n in (32, 48, 64, 96, 128)]),
    "ica": (FastICA, [{"n_components": n} for n in (64, 96, 128, 192)]),
    "nmf": (
        lambda random_state, **settings: make_pipeline(
            Shifted(), NMF(init="nndsvda", random_state=random_state, **settings)
        ),
        [{"n_components": n} for n in (32, 64)],
    ),
    "dictionary": (
        lambda random_state, **settings: dictionary(8, random_state, **settings),
        [{"n_components": 512, "alpha": 0.2, "batch_size": 512, "max_iter": 1}],
    ),
    "topk": (
        lambda **settings: SparseAutoencoder(8, **settings),
        [{"learning_rate": rate} for rate in _RATES],
    ),
    "topk-denoised": (
        lambda random_state, **settings: make_pipeline(
            Denoised(random_state), SparseAutoencoder(8, random_state=random_state, **settings)
        ),
        [{"learning_rate": rate} for rate in _RATES[2:]],
    ),
    "batchtopk": (
        lambda **settings: SparseAutoencoder(8, across="batch", **settings),
        [{"learning_rate": rate} for rate in _RATES[1:4]],
    ),
    "csr": (
        lambda **settings: CSR(8, **settings),
        [
            *({"learning_rate": rate} for rate in (1e-3, 3e-3, 1e-2)),
            *({"learning_rate": 3e-3, "scale": scale} for scale in (5.0, 20.0)),
            {"learning_rate": 1e-2, "scale": 5.0},
        ],
    ),
}


def main() -> None:
    """Print every trial as it ends."""
    data = clinc150("val")
    for name in sys.argv[1:] or PEERS:
        make, trials = PEERS[name]
        for settings in trials:
            found = labelled_figures(make(random_state=0, **settings), data)
            mean = (found["p10"] + found["nn1"] + found["purity"]) / 3
            figures = ", ".join(f"{key} {value:.4g}" for key, value in found.items())
            print(f"{name} {settings}: mean {mean:.4f}, {figures}", flush=True)


if __name__ == "__main__":
    main()
