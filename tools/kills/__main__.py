"""``python -m tools.kills``: kill -9 and other signals at random moments, and compare what is there with a journal.

Prints a JSON line for each kind of process; the exit status is that of a failed verdict where something was lost.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from .campaign import kill_campaigns
from .joined import kill_joined_nodes
from .journal import Journal
from .kubelet import kill_kubelets
from .machine import kill_commands
from .plugins import kill_plugins
from .signals import signal_commands

KINDS: Final[Mapping[str, Callable[[int, random.Random, Path, Journal], None]]] = {
    "kubelet": kill_kubelets,
    "plugins": kill_plugins,
    "fakegpu": kill_commands,
    "campaign": kill_campaigns,
    "joined": kill_joined_nodes,
    "signals": signal_commands,
}
"""Kind of process -> what kills so many of them, in a folder of its own."""
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108  # a folder of its own is made there


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s kills --", description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"which to kill (default: all): {', '.join(KINDS)}")
    parser.add_argument("--kills", type=int, default=1000, help="of each kind (default: 1,000)")
    parser.add_argument("--seed", type=int, default=1, help="draws what is done and when it is killed (default: 1)")
    given = parser.parse_args()
    if unknown := sorted(set(given.kinds) - KINDS.keys()):
        parser.error(f"no kind {', '.join(unknown)}; there are {', '.join(KINDS)}")
    return max(_killed(kind, given.kills, given.seed) for kind in given.kinds or KINDS)


def _killed(kind: str, kills: int, seed: int) -> int:
    began = time.monotonic()
    journal = Journal()
    place = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="sk-", dir=place) as folder:
        KINDS[kind](kills, random.Random(f"{seed}/{kind}"), Path(folder), journal)  # noqa: S311  # a seed repeats it
    line = {
        "kind": kind,
        "kills": journal.kills,
        "acknowledged": journal.acknowledged,
        "found_done": journal.found_done,
        "losses": journal.losses,
        "lost": journal.lost,
        "seed": seed,
        "wall_s": round(time.monotonic() - began),
    }
    print(json.dumps(line), flush=True)
    return 1 if journal.losses or journal.kills < kills else 0


if __name__ == "__main__":
    sys.exit(main())
