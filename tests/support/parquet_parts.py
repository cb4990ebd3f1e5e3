"""Rows as parquet files, one or many, and a run that reads them."""

from itertools import pairwise

import numpy as np

import nonneg

N_ROWS, N_COLUMNS, N_KINDS = 600, 12, 6


def vectors(seed=1, n_rows=N_ROWS):
    """Rows of six kinds."""
    rng = np.random.default_rng(seed)
    directions = np.random.default_rng(0).standard_normal((N_KINDS, N_COLUMNS))
    kinds = np.arange(n_rows) % N_KINDS
    return (directions[kinds] + 0.4 * rng.standard_normal((n_rows, N_COLUMNS))).astype(np.float32)


def fitted(folder):
    """A saved estimator of a few steps; gives the estimator."""
    ncl = nonneg.NCL(n_components=24, max_steps=20, batch_size=128, random_state=0)
    ncl.fit(vectors(seed=0)).save(folder)
    return nonneg.NCL.load(folder).set_params(sparse_output=True)


def table(X, first=0):
    """Vectors with keys, as an Arrow table."""
    import pyarrow as pa

    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    keys = [f"k{first + row}" for row in range(len(X))]
    return pa.table({"key": pa.array(keys, pa.string()), "vector": lists})


def write_parts(folder, X, cuts, row_group_size=64):
    """One file for each part between two cuts; empty ones too."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    bounds = [0, *cuts, len(X)]
    for number, (start, end) in enumerate(pairwise(bounds)):
        path = folder / f"part-{number:0{len(str(len(cuts)))}}.parquet"
        pq.write_table(table(X[start:end], start), path, row_group_size=row_group_size)
    return folder
