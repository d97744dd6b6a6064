"""``python -m simkubelet.stdio``: the line protocol."""

from .cli import main

main()
