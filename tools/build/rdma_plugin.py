"""Build Mellanox' plugin of shared RDMA devices for the e2e tests, and print its path.

Its version is that of the Go module in ``tests/e2e/nvidia_go/rdma``. What its own go.mod replaces holds only where that
is the main module, so it is built in a copy of its folder. The plugin is unmodified. The library by which it asks the
kernel for the network mode of the RDMA subsystem answers "shared", as kernels with RDMA do by default: a kernel without
that subsystem answers nothing, the plugin then ends, and no file of a node could give the answer. A build is kept until
the pins, this answer or the Go toolchain change.

Exit status 3 where the build is impossible here: no Go, or the modules cannot be had.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from . import go_build
from .go_build import BuildError, Program

MODULE = go_build.ROOT / "tests" / "e2e" / "nvidia_go" / "rdma"
CACHE = go_build.ROOT / "build" / "rdma-device-plugin"
LIBRARY = "github.com/vishvananda/netlink"
ASKS = "func (h *Handle) RdmaSystemGetNetnsMode() (string, error) {\n"
ANSWERS = 'if h != nil {\n\t\treturn "shared", nil\n\t}\n'
PINNED = Program(
    name="k8s-rdma-shared-dp",
    module=MODULE,
    package="github.com/Mellanox/k8s-rdma-shared-dev-plugin",
    modfile=MODULE / "go.mod",
    flags=(ANSWERS,),
)
"""The plugin as it is pinned; its digest names the build."""


def find_go() -> str:
    """Return the path of the Go command.

    Raises:
        BuildError: There is none on the PATH.
    """
    return go_build.find_go("1.24", "to run Mellanox' plugin of shared RDMA devices")


def sources() -> Path:
    """Return the folder of the module that is built; raises as `build`."""
    return _folder(find_go(), PINNED, PINNED.package)


def build() -> Path:
    """Return the path of the plugin's binary, built now if no earlier build fits.

    Raises:
        BuildError: Go is missing or the build failed.
    """
    go = find_go()

    def make(binary: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="rdma-") as folder:
            shutil.copy(_built_in_copy(go, Path(folder)), binary)

    return PINNED.kept(go, CACHE, make)


def _built_in_copy(go: str, folder: Path) -> Path:
    plugin, library = folder / "plugin", folder / "netlink"
    _copy(go, PINNED, PINNED.package, plugin)
    own = replace(PINNED, module=plugin, package=f"./cmd/{PINNED.name}", modfile=plugin / "go.mod", flags=())
    _copy(go, own, LIBRARY, library)
    source = library / "rdma_link_linux.go"
    asks, found, answer = source.read_text().partition(ASKS)
    if not found:
        raise BuildError(
            f"{LIBRARY} asks for the RDMA subsystem's mode in another way than {Path(__file__).name} knows"
        )
    source.write_text(f"{asks}{found}\t{ANSWERS}{answer}")
    own.run([go, "mod", "edit", f"-replace={LIBRARY}={library}"])
    return own.build(go, folder / "built")


def _copy(go: str, program: Program, module: str, target: Path) -> None:
    """Copy the files of a module that a program's pins name; those of Go's cache are read-only."""
    shutil.copytree(_folder(go, program, module), target, copy_function=shutil.copyfile)
    for path in (target, *target.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)


def _folder(go: str, program: Program, module: str) -> Path:
    return Path(json.loads(program.run([go, "mod", "download", "-json", module]))["Dir"])


def main() -> int:
    return go_build.print_built(lambda: [build()])


if __name__ == "__main__":
    sys.exit(main())
