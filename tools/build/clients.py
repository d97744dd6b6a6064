"""Build the Go clients that the e2e tests play against a simulated cluster and print the binaries' paths, one a line.

They are kubectl, a client-go informer and a client that speaks protobuf only, of the versions that the Go module in
``tests/e2e/clients_go`` pins. A build is kept until the pins, the sources or the Go toolchain change.

Exit status 3 where the build is impossible here: no Go, or the modules cannot be had.
"""

from __future__ import annotations

import sys
from pathlib import Path

from . import go_build
from .go_build import Program

MODULE = go_build.ROOT / "tests" / "e2e" / "clients_go"
CACHE = go_build.ROOT / "build" / "clients"
# The version that the module pins, which an own build of kubectl does not tell otherwise.
KUBECTL_VERSION = "v1.34.4"
VERSION_FLAGS = (
    "-s -w"
    f" -X k8s.io/component-base/version.gitVersion={KUBECTL_VERSION}"
    " -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34"
)


def _client(name: str) -> Program:
    return Program(
        name=name,
        module=MODULE,
        package=f"./{name}",
        modfile=MODULE / "go.mod",
        flags=("-ldflags", VERSION_FLAGS),
        sources=(MODULE / name,),
    )


CLIENTS = (_client("kubectl"), _client("informer"), _client("protobuf"))


def find_go() -> str:
    """Return the path of the Go command.

    Raises:
        BuildError: There is none on the PATH.
    """
    return go_build.find_go("1.25", "to build kubectl and clients with client-go")


def build() -> tuple[Path, ...]:
    """Return the paths of the clients' binaries, those built now that no earlier build fits.

    Raises:
        BuildError: Go is missing or a build failed.
    """
    go = find_go()
    return tuple(client.build(go, CACHE) for client in CLIENTS)


def main() -> int:
    return go_build.print_built(build)


if __name__ == "__main__":
    sys.exit(main())
