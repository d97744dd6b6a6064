"""Build helm for the tests of what users install on joined nodes, and print its path.

It is unmodified, of the version that the Go module in ``tests/join/helm_go`` pins. A build is kept until the pins or
the Go toolchain change.

Exit status 3 where the build is impossible here: no Go, or the module cannot be had.
"""

from __future__ import annotations

import sys

from . import go_build
from .go_build import Program

MODULE = go_build.ROOT / "tests" / "join" / "helm_go"
CACHE = go_build.ROOT / "build" / "helm"
HELM = Program(
    name="helm",
    module=MODULE,
    package="helm.sh/helm/v3/cmd/helm",
    modfile=MODULE / "go.mod",
    flags=("-ldflags", "-s -w"),
)


def find_go() -> str:
    """Return the path of the Go command.

    Raises:
        BuildError: There is none on the PATH.
    """
    return go_build.find_go("1.25", "to build helm")


def main() -> int:
    return go_build.print_built(lambda: [HELM.build(find_go(), CACHE)])


if __name__ == "__main__":
    sys.exit(main())
