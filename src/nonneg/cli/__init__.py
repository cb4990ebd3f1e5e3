"""The command line: one file per command."""

import sys

try:
    from nonneg.cli.main import main
except KeyboardInterrupt:  # in the first moments, before there is anything to stop
    sys.stderr.write("interrupted\n")
    sys.exit(130)

__all__ = ["main"]
