"""Build a Kubernetes control plane, etcd included, of the versions that ``tests/join/control_plane_go`` pins.

All of it is one binary, which acts as the component by whose name it is called; the names are links beside it. A build
is kept until the pins, the source or the Go toolchain change. Prints the folder with the links.

Exit status 3 where the build is impossible here: no Go, or the modules cannot be had.
"""

from __future__ import annotations

import sys
from pathlib import Path

from . import go_build
from .go_build import BuildError, Program

MODULE = go_build.ROOT / "tests" / "join" / "control_plane_go"
CACHE = go_build.ROOT / "build" / "control_plane"
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
VERSION = "v1.34.4"
# An own build does not know its version, which the API server reports and compares with that of its features.
VERSION_FLAGS = "-s -w" + "".join(
    f" -X {package}.{name}={value}"
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    for name, value in {
        "gitVersion": VERSION,
        "gitMajor": "1",
        "gitMinor": "34",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
    }.items()
)


def find_go() -> str:
    """Return the path of the Go command.

    Raises:
        BuildError: There is none on the PATH.
    """
    return go_build.find_go("1.25", "to build a control plane")


def build() -> Path:
    """Return the folder with a link for each of `COMPONENTS`, built now if no earlier build fits.

    Raises:
        BuildError: Go is missing, or the build failed.
    """
    program = Program(
        name="control-plane",
        module=MODULE,
        package=".",
        modfile=MODULE / "go.mod",
        flags=("-buildvcs=false", "-ldflags", VERSION_FLAGS),
        sources=(MODULE,),
    )
    binary = program.build(find_go(), CACHE)
    for component in COMPONENTS:
        link = binary.with_name(component)
        if not link.is_symlink():
            link.symlink_to(binary.name)
    return binary.parent


def main() -> int:
    try:
        print(build())
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
