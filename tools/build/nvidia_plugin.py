"""Build NVIDIA's own device plugin, gpu-feature-discovery and nvidia-ctk for the e2e tests, and print their paths.

They are unmodified; a line each, in this order. Their versions are those of the Go module in ``tests/e2e/nvidia_go``.
They resolve NVML at run time, so the linker leaves the library's symbols open and resolves them as late as
possible; the same binary runs on the fake library and on the real one. A build is kept until the pins, the flags or
the Go toolchain change.

Exit status 3 where the build is impossible here: no Go, no C compiler, or the modules cannot be had.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from . import go_build
from .go_build import Program

MODULE = go_build.ROOT / "tests" / "e2e" / "nvidia_go"
CACHE = go_build.ROOT / "build" / "nvidia-device-plugin"
LINKER_FLAGS = "-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files -Wl,-z,lazy"


def _program(package: str) -> Program:
    return Program(
        name=package.rpartition("/")[2],
        module=MODULE,
        package=f"github.com/NVIDIA/{package}",
        modfile=MODULE / "go.mod",
        flags=("-ldflags", f"-extldflags '{LINKER_FLAGS}'"),
        cgo=True,
    )


PLUGIN = _program("k8s-device-plugin/cmd/nvidia-device-plugin")
PROGRAMS = (
    PLUGIN,
    _program("k8s-device-plugin/cmd/gpu-feature-discovery"),
    _program("nvidia-container-toolkit/cmd/nvidia-ctk"),
)


def find_go() -> str:
    """Return the path of the Go command.

    Raises:
        BuildError: There is none on the PATH.
    """
    return go_build.find_go("1.25", "to run NVIDIA's own plugin")


def build() -> Path:
    """Return the path of the plugin's binary, built now if no earlier build fits.

    Raises:
        BuildError: Go is missing or the build failed.
    """
    return PLUGIN.build(find_go(), CACHE)


def sources() -> Path:
    """Return the folder of the plugin's module; raises as `build`."""
    found = json.loads(PLUGIN.run([find_go(), "mod", "download", "-json", "github.com/NVIDIA/k8s-device-plugin"]))
    return Path(found["Dir"])


def manifest() -> Path:
    """Return NVIDIA's manifest of the plugin's DaemonSet, a file of the module that is built; raises as `build`."""
    return sources() / "deployments" / "static" / "nvidia-device-plugin.yml"


def chart() -> Path:
    """Return the folder of NVIDIA's Helm chart, which has the one that it depends on; raises as `build`."""
    return sources() / "deployments" / "helm" / "nvidia-device-plugin"


def main() -> int:
    return go_build.print_built(lambda: (program.build(find_go(), CACHE) for program in PROGRAMS))


if __name__ == "__main__":
    sys.exit(main())
