"""Build the oracles on the real managers, two plugins, the real scheduler, API server and allocator; print their paths.

``tests/oracle`` holds one source tree; its ``go.mod`` pins the usual Kubernetes version, ``versions/<minor>.mod`` the
others. The build tags say whether a version is before or after a change of the real code: ``before1_31`` is set for all
older than 1.31, ``since1_35`` for 1.35 and newer. The usual version needs no tag. The stub plugin is the same for all,
as the wire is; the scheduler and Kubernetes' sample device plugin, unmodified, are those of the usual version, and so
are the device manager, the DRA manager, the allocator and the scheduler's plugins where a version has none that serves
the same interface. The API server's rules, and the client that calls as a kubelet, are those of each version.

Exit status 3 where the build is impossible here: no Go, or the modules cannot be had.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

from . import go_build
from .go_build import KubernetesPins, Program

MODULE = go_build.ROOT / "tests" / "oracle"
CACHE = go_build.ROOT / "build" / "oracle"
DEFAULT_MINOR = "1.34"
FIRST_MANAGER_MINOR = "1.29"
FIRST_DRA_MINOR = "1.32"
FIRST_ALLOCATOR_MINOR = "1.34"
FIRST_SCORES_MINOR = "1.34"
PINS = KubernetesPins(MODULE, DEFAULT_MINOR)


class Binaries(NamedTuple):
    """The paths of what was built."""

    oracle: Path
    stub: Path
    scheduler: Path
    sample_plugin: Path
    dra: Path
    registry: Path
    allocator: Path
    client: Path
    scores: Path


def find_go() -> str:
    """Return the path of the Go command.

    Raises:
        BuildError: There is none on the PATH.
    """
    return go_build.find_go("1.26", "to build the oracle")


def tags(minor: str) -> str:
    """Return the build tags of a minor: where it stands to each minor at which the real code's interface changed."""
    number, usual = _number(minor), _number(DEFAULT_MINOR)
    before = [f"before1_{change}" for change in range(number + 1, usual + 1)]
    since = [f"since1_{change}" for change in range(usual + 1, number + 1)]
    return ",".join(before + since)


def oracle(minor: str) -> Program:
    """Return how the oracle is built for a minor.

    Raises:
        BuildError: There are no pins for it.
    """
    return _since("oracle", FIRST_MANAGER_MINOR, minor)


def stub() -> Program:
    """Return how the stub plugin is built."""
    return _program("stub", PINS.modfile(DEFAULT_MINOR), ())


def scheduler() -> Program:
    """Return how the scheduler's oracle is built."""
    return _program("scheduler", PINS.modfile(DEFAULT_MINOR), ())


def dra(minor: str) -> Program:
    """Return how the DRA manager's oracle is built; raises as `oracle`."""
    return _since("dra", FIRST_DRA_MINOR, minor)


def client(minor: str) -> Program:
    """Return how the program that calls as a kubelet calls is built for a minor; raises as `oracle`."""
    return _program("client", PINS.modfile(minor), _flags(minor))


def allocator(minor: str) -> Program:
    """Return how the allocator's oracle is built; raises as `oracle`."""
    return _since("allocator", FIRST_ALLOCATOR_MINOR, minor)


def registry(minor: str) -> Program:
    """Return how the oracle with the API server's rules is built for a minor; raises as `oracle`."""
    return _program("registry", PINS.modfile(minor), _flags(minor))


def scores(minor: str) -> Program:
    """Return how the oracle of the scheduler's plugins is built; raises as `oracle`."""
    return _since("scores", FIRST_SCORES_MINOR, minor)


def sample_plugin() -> Program:
    """Return how Kubernetes' sample device plugin is built."""
    package = "k8s.io/kubernetes/test/images/sample-device-plugin"
    return Program(name="sample-device-plugin", module=MODULE, package=package, modfile=PINS.modfile(DEFAULT_MINOR))


def build(minor: str = DEFAULT_MINOR) -> Binaries:
    """Return the binaries' paths, built now if no earlier builds fit.

    Raises:
        BuildError: Go is missing, there are no pins for this minor, or the build failed.
    """
    wanted = oracle(minor)
    go = find_go()
    return Binaries(
        wanted.build(go, CACHE / minor),
        stub().build(go, CACHE / "stub"),
        scheduler().build(go, CACHE / "scheduler"),
        sample_plugin().build(go, CACHE / "sample-plugin"),
        dra(minor).build(go, CACHE / f"dra-{minor}"),
        registry(minor).build(go, CACHE / f"registry-{minor}"),
        allocator(minor).build(go, CACHE / f"allocator-{minor}"),
        client(minor).build(go, CACHE / f"client-{minor}"),
        scores(minor).build(go, CACHE / f"scores-{minor}"),
    )


def _flags(minor: str) -> tuple[str, ...]:
    return ("-tags", tags(minor)) if tags(minor) else ()


def _since(name: str, first: str, minor: str) -> Program:
    pins = PINS.modfile(minor)
    if _number(minor) < _number(first):
        minor, pins = DEFAULT_MINOR, PINS.modfile(DEFAULT_MINOR)
    return _program(name, pins, _flags(minor))


def _program(name: str, pins: Path, flags: tuple[str, ...]) -> Program:
    sources = (MODULE / name, MODULE / "wire")
    return Program(name=name, module=MODULE, package=f"./{name}", modfile=pins, flags=flags, sources=sources)


def _number(minor: str) -> int:
    return int(minor.removeprefix("1."))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Build the oracles, the stub, the scheduler and the sample plugin; print a path a line."
    )
    parser.add_argument("--kubernetes", default=DEFAULT_MINOR, metavar="MINOR", help=f"usually {DEFAULT_MINOR}")
    minor = parser.parse_args(arguments).kubernetes
    return go_build.print_built(lambda: build(minor))


if __name__ == "__main__":
    sys.exit(main())
