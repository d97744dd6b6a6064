"""Build NVIDIA's own device plugin, unmodified, for the e2e tests and print the binary's path.

The version is pinned by the Go module in ``tests/e2e/nvidia_go``. The plugin resolves NVML at run time, so the
linker is told to leave the library's symbols open and to resolve them as late as possible; so the same binary runs on
the fake library and on the real one. A build is kept until the pins, the flags or the Go toolchain change.

Exit status 3 where the build is impossible here: no Go, no C compiler, or the modules cannot be had.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE = ROOT / "tests" / "e2e" / "nvidia_go"
CACHE = ROOT / "build" / "nvidia-device-plugin"
PACKAGE = "github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin"
LINKER_FLAGS = "-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files -Wl,-z,lazy"


class BuildError(Exception):
    """The plugin cannot be built on this machine; the message says why and how to mend it."""


def find_go() -> str:
    """Return the path of the Go command.

    Raises:
        BuildError: There is none on the PATH.
    """
    go = shutil.which("go")
    if go is None:
        raise BuildError("no `go` on the PATH: install Go 1.25 or newer to run NVIDIA's own plugin")
    return go


def build_command(go: str, output: Path) -> list[str]:
    """Return the command line that builds the plugin into `output`."""
    return [
        go,
        "build",
        "-mod=readonly",
        "-trimpath",
        "-ldflags",
        f"-extldflags '{LINKER_FLAGS}'",
        "-o",
        str(output),
        PACKAGE,
    ]


def cache_key(go: str) -> str:
    """Return a digest of all that decides how the binary looks: pins, flags, toolchain."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    digest.update("\0".join(build_command(go, Path("plugin"))).encode())
    digest.update(_run([go, "version"]).encode())
    return digest.hexdigest()[:16]


def build() -> Path:
    """Return the path of the plugin's binary, built now if no earlier build fits.

    Raises:
        BuildError: Go is missing or the build failed.
    """
    go = find_go()
    binary = CACHE / cache_key(go) / "nvidia-device-plugin"
    if not binary.exists():
        binary.parent.mkdir(parents=True, exist_ok=True)
        unfinished = binary.with_name(f".{binary.name}.{os.getpid()}")
        try:
            _run(build_command(go, unfinished))
            unfinished.replace(binary)
        finally:
            unfinished.unlink(missing_ok=True)
    return binary


def _run(command: list[str]) -> str:
    environment = os.environ | {"CGO_ENABLED": "1", "GOWORK": "off"}
    result = subprocess.run(command, cwd=MODULE, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        said = [line for line in result.stderr.splitlines() if line.strip()] or [f"exit status {result.returncode}"]
        raise BuildError(f"`go {command[1]}` failed in {MODULE.relative_to(ROOT)}: {said[-1].strip()}")
    return result.stdout


def main() -> int:
    try:
        print(build())
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
