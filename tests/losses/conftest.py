from importlib import import_module

import pytest

from nonneg.losses import _tiled as tiles

# The package has a function of this name.
MODULE = import_module("nonneg.losses.info_nce")


@pytest.fixture(params=["plain", "tiled"])
def form(request, monkeypatch):
    """Both ways to compute the sums, whatever the size of the batch."""
    is_tiled = request.param == "tiled"
    monkeypatch.setattr(MODULE, "TILED_FROM", 0 if is_tiled else 1e9)
    monkeypatch.setattr(tiles, "CPU_TILE", (6, 5))
    return request.param
