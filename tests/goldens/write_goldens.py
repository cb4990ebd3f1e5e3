"""Write the golden files anew, on purpose: ``python tests/goldens/write_goldens.py``.

Runs the tests of this folder with NONNEG_GOLDENS=write: each writes what it would compare, with the
one thread that it is compared with. Options go to pytest (``-k help``). The folder runs-0.1, with
the runs and outputs that version 0.1 left, is never written; ``expected/old-*`` is what the present
version makes of these runs, and is written like the rest.
"""

import os
import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    os.environ["NONNEG_GOLDENS"] = "write"
    sys.exit(pytest.main([str(Path(__file__).parent), "-q", "-p", "no:xdist", *sys.argv[1:]]))
