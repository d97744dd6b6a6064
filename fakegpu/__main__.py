"""The program ``fakegpu``, also as ``python -m fakegpu``."""

from __future__ import annotations

import gc
import sys

_COLLECT_AFTER = 50_000


def main() -> int:
    """Load the command line and run it; most commands end in less time than a look for garbage would take."""
    gc.set_threshold(_COLLECT_AFTER)
    from .cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
