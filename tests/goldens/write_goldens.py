"""Write the golden files anew, on purpose: ``python tests/goldens/write_goldens.py``.

Runs the tests of this folder with NONNEG_GOLDENS=write: each writes what it would compare, with the
one thread that it is compared with. Options go to pytest (``-k help``). The run folders of version
0.1 and their outputs stay as they are.
"""

import os
import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    os.environ["NONNEG_GOLDENS"] = "write"
    sys.exit(pytest.main([str(Path(__file__).parent), "-q", "-p", "no:xdist", *sys.argv[1:]]))
