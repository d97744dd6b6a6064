"""Build the Kubernetes project's example driver of dynamic resources for the e2e tests, and print its path.

It is unmodified, of the version that the Go module in ``tests/e2e/dra_go`` pins. A build is kept until the pins or the
Go toolchain change.

Exit status 3 where the build is impossible here: no Go, or the modules cannot be had.
"""

from __future__ import annotations

import sys
from pathlib import Path

from . import go_build
from .go_build import BuildError, Program

MODULE = go_build.ROOT / "tests" / "e2e" / "dra_go"
CACHE = go_build.ROOT / "build" / "dra-driver"
DRIVER = Program(
    name="dra-example-kubeletplugin",
    module=MODULE,
    package="sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin",
    modfile=MODULE / "go.mod",
    flags=("-ldflags", "-s -w"),
)


def find_go() -> str:
    """Return the path of the Go command.

    Raises:
        BuildError: There is none on the PATH.
    """
    return go_build.find_go("1.24", "to run the example driver")


def build() -> Path:
    """Return the path of the driver's binary, built now if no earlier build fits.

    Raises:
        BuildError: Go is missing or the build failed.
    """
    return DRIVER.build(find_go(), CACHE)


def main() -> int:
    try:
        print(build())
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
