"""Build drivers of dynamic resources for the e2e tests, and print their paths.

They are unmodified: the Kubernetes project's example driver, and with ``--nvidia`` that of NVIDIA. The Go modules in
``tests/e2e/dra_go`` and ``tests/e2e/nvidia_dra_go`` pin their versions. A build is kept until the pins or the Go
toolchain change.

Exit status 3 where the build is impossible here: no Go, no C compiler, or the modules cannot be had.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import go_build
from .go_build import Program

TESTS = go_build.ROOT / "tests" / "e2e"
CACHE = go_build.ROOT / "build" / "dra-driver"


def _program(module: Path, package: str, *, cgo: bool = False) -> Program:
    return Program(
        name=package.rpartition("/")[2],
        module=module,
        package=f"sigs.k8s.io/{package}",
        modfile=module / "go.mod",
        flags=("-ldflags", "-s -w"),
        cgo=cgo,
    )


EXAMPLE = _program(TESTS / "dra_go", "dra-example-driver/cmd/dra-example-kubeletplugin")
NVIDIA = _program(TESTS / "nvidia_dra_go", "dra-driver-nvidia-gpu/cmd/gpu-kubelet-plugin", cgo=True)


def find_go(needed: str = "1.24") -> str:
    """Return the path of the Go command.

    Raises:
        BuildError: There is none on the PATH.
    """
    return go_build.find_go(needed, "to run drivers of dynamic resources")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.build.dra_driver", description=__doc__.splitlines()[0])
    parser.add_argument("--nvidia", action="store_true", help="build NVIDIA's driver, which takes some minutes")
    is_nvidia = parser.parse_args().nvidia
    return go_build.print_built(
        lambda: [NVIDIA.build(find_go("1.26"), CACHE) if is_nvidia else EXAMPLE.build(find_go(), CACHE)]
    )


if __name__ == "__main__":
    sys.exit(main())
