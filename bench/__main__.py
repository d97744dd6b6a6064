"""``python -m bench [NAME...]``: run benchmarks and print their figures as JSON lines, one figure a line.

Each module here is a program that prints its own lines; it runs in a process of its own, so that memory and start-up
of one do not show in another.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_")))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run benchmarks and print JSON lines.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run (default: all): {', '.join(NAMES)}")
    names = parser.parse_args().names or NAMES
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    # The gRPC library tells its developers about every connection that ends.
    quiet = {**os.environ, "GRPC_VERBOSITY": "NONE"}
    statuses = [
        subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=FOLDER.parent, env=quiet, check=False).returncode
        for name in names
    ]
    return max(map(abs, statuses))


if __name__ == "__main__":
    sys.exit(main())
