"""``python -m nonneg``: the command line, as torchrun starts it."""

from nonneg.cli.main import main

main()
