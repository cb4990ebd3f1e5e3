"""The command line: one file per command."""

from nonneg.cli.main import main

__all__ = ["main"]
