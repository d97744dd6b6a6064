"""``python -m simkubelet``: the command line."""

from .cli import main

main()
