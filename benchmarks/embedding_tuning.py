"""The tuning of the peers: every trial on CLINC150's validation texts, one seed.

The trial of the largest mean of precision@10, 1-NN and top-20 purity wins; the winners are the
constants of ``benchmarks.embedding_peers``. Steps and batches are such that a fit costs about as
much as one of NCL 0.1.

    NONNEG_EMBEDDINGS=folder python -m benchmarks.embedding_tuning [peer …]
"""

import sys
from typing import Any

from benchmarks.contrastive_autoencoder import CSR
from benchmarks.embedding_figures import labelled_figures
from benchmarks.embedding_peers import inductive
from benchmarks.embedding_sets import Labelled, read_set
from benchmarks.sparse_autoencoders import SparseAutoencoder
from nonneg import NCL

Settings = dict[str, Any]

_RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
PEERS: dict[str, tuple[Any, list[Settings]]] = {
    "ncl": (NCL, [{}]),
    "topk": (
        lambda **settings: SparseAutoencoder(8, **settings),
        [{"learning_rate": rate} for rate in _RATES],
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
    data = read_set("clinc150", "validation")
    assert isinstance(data, Labelled)
    for name in sys.argv[1:] or PEERS:
        make, trials = PEERS[name]
        for settings in trials:
            features = inductive(make(random_state=0, **settings))(data.train, data.queries)
            found = labelled_figures(features, data)
            mean = (found["p10"] + found["nn1"] + found["purity"]) / 3
            shown = ", ".join(f"{key} {value:.4g}" for key, value in found.items())
            print(f"{name} {settings}: mean {mean:.4f}, {shown}", flush=True)


if __name__ == "__main__":
    main()
