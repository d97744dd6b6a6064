"""Build a Kubernetes control plane, etcd included, of the versions that ``tests/join/control_plane_go`` pins.

All of it is one binary, which acts as the component by whose name it is called; the names are links beside it. A build
is kept until the pins, the source or the Go toolchain change. Prints the folder with the links.

Exit status 3 where the build is impossible here: no Go, or the modules cannot be had.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import go_build
from .go_build import KubernetesPins, Program

MODULE = go_build.ROOT / "tests" / "join" / "control_plane_go"
CACHE = go_build.ROOT / "build" / "control_plane"
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
DEFAULT_MINOR = "1.34"
PINS = KubernetesPins(MODULE, DEFAULT_MINOR)
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


def find_go() -> str:
    """Return the path of the Go command.

    Raises:
        BuildError: There is none on the PATH.
    """
    return go_build.find_go("1.25", "to build a control plane")


def build(minor: str = DEFAULT_MINOR) -> Path:
    """Return the folder with a link for each of `COMPONENTS`, built now if no earlier build fits.

    Raises:
        BuildError: Go is missing, there are no pins for this minor, or the build failed.
    """
    program = Program(
        name="control-plane",
        module=MODULE,
        package=".",
        modfile=PINS.modfile(minor),
        flags=("-buildvcs=false", "-ldflags", version_flags(minor)),
        sources=(MODULE,),
    )
    binary = program.build(find_go(), CACHE)
    for component in COMPONENTS:
        link = binary.with_name(component)
        if not link.is_symlink():
            link.symlink_to(binary.name)
    return binary.parent


def version_flags(minor: str) -> str:
    """Return the linker's flags: an own build does not know its version, which the API server reports and uses."""
    facts = {
        "gitVersion": PINS.version(minor),
        "gitMajor": "1",
        "gitMinor": minor.removeprefix("1."),
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
    }
    named = (f" -X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in facts.items())
    return "-s -w" + "".join(named)


def add_minor(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses a minor."""
    parser.add_argument(
        "--kubernetes",
        default=DEFAULT_MINOR,
        metavar="MINOR",
        choices=PINS.minors(),
        help=f"{', '.join(PINS.minors())} (default: {DEFAULT_MINOR})",
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build a control plane, and print the folder of its components.")
    add_minor(parser)
    minor = parser.parse_args(arguments).kubernetes
    return go_build.print_built(lambda: [build(minor)])


if __name__ == "__main__":
    sys.exit(main())
