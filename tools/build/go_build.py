"""Build Go programs for the tests once, and keep them until their sources, pins, flags or the Go toolchain change.

A `Program` says what to build; its digest names the folder of the result. Builds of other checkouts or of other flags
do not disturb each other, and an interrupted build leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class BuildError(Exception):
    """The program cannot be built on this machine; the message says why and how to fix it."""


def find_go(needed: str, purpose: str) -> str:
    """Return the path of the Go command.

    Args:
        needed: The lowest version that will do, for the message.
        purpose: What Go is wanted for, for the message.

    Raises:
        BuildError: There is none on the PATH.
    """
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"no `go` on the PATH: install Go {needed} or newer {purpose}")
    return go


def print_built(build: Callable[[], Iterable[Path]]) -> int:
    """Print the paths of what is built, a line each; the exit status is 3 where the build is impossible here."""
    try:
        for path in build():
            print(path)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


@dataclass(frozen=True, slots=True)
class KubernetesPins:
    """The pins of a Go module that is built with several versions of Kubernetes, each the newest patch of a minor.

    Attributes:
        module: Its folder; ``versions/<minor>.mod`` pins a minor.
        usual: The minor that its ``go.mod`` pins.
    """

    module: Path
    usual: str

    def minors(self) -> list[str]:
        """Return the minors that have pins, oldest first: "1.29" and so on."""
        others = (path.stem for path in (self.module / "versions").glob("*.mod"))
        return sorted({self.usual, *others}, key=lambda minor: int(minor.removeprefix("1.")))

    def modfile(self, minor: str) -> Path:
        """Return the file that pins a minor.

        Raises:
            BuildError: There is none for it.
        """
        if minor not in self.minors():
            raise BuildError(f"no pins for Kubernetes {minor}: choose one of {', '.join(self.minors())}")
        return self.path(minor)

    def path(self, minor: str) -> Path:
        """Return the file that would pin a minor."""
        return self.module / ("go.mod" if minor == self.usual else f"versions/{minor}.mod")

    def version(self, minor: str) -> str:
        """Return the pinned version of a minor, such as "v1.34.4"; raises as `modfile`."""
        found = re.search(r"\bk8s\.io/kubernetes (v[\d.]+)$", self.modfile(minor).read_text(), re.MULTILINE)
        if found is None:
            raise BuildError(f"{_below_root(self.modfile(minor))} does not require k8s.io/kubernetes")
        return found[1]


@dataclass(frozen=True, slots=True)
class Program:
    """One Go program to build.

    Attributes:
        name: The binary's file name.
        module: The folder of the Go module that pins it, where Go is run.
        package: The package to build, as Go names it from there.
        modfile: The file with the pins, its ``.sum`` beside it.
        flags: What else `go build` is given.
        sources: Folders of own Go files: part of the digest.
        cgo: Whether C code is linked in.
    """

    name: str
    module: Path
    package: str
    modfile: Path
    flags: tuple[str, ...] = ()
    sources: tuple[Path, ...] = ()
    cgo: bool = False

    def command(self, go: str, output: Path) -> list[str]:
        """Return the command line that builds the program into `output`."""
        pins = () if self.modfile == self.module / "go.mod" else (f"-modfile={self.modfile}",)
        return [go, "build", "-mod=readonly", "-trimpath", *pins, *self.flags, "-o", str(output), self.package]

    def digest(self, go: str) -> str:
        """Return a digest of all that decides how the binary looks: sources, pins, flags, toolchain."""
        digest = hashlib.sha256()
        for path in (self.modfile, self.modfile.with_suffix(".sum"), *self._own_files()):
            digest.update(f"{path.relative_to(self.module)}\0".encode())
            digest.update(path.read_bytes())
        portable = [part.replace(str(self.module), ".") for part in self.command("go", Path(self.name))]
        digest.update("\0".join(portable).encode())
        digest.update(self.run([go, "version"]).encode())
        return digest.hexdigest()[:16]

    def build(self, go: str, cache: Path) -> Path:
        """Return the binary's path below `cache`, built now if no earlier build fits.

        Raises:
            BuildError: The build failed.
        """
        return self.kept(go, cache, lambda binary: self.run(self.command(go, binary)))

    def kept(self, go: str, cache: Path, make: Callable[[Path], object]) -> Path:
        """Return the binary's path below `cache`; `make` writes it to the path that it is given if no earlier one fits.

        Raises:
            BuildError: The build failed.
        """
        binary = cache / self.digest(go) / self.name
        if not binary.exists():
            binary.parent.mkdir(parents=True, exist_ok=True)
            unfinished = binary.with_name(f".{binary.name}.{os.getpid()}")
            try:
                make(unfinished)
                unfinished.replace(binary)
            finally:
                unfinished.unlink(missing_ok=True)
        return binary

    def run(self, command: list[str]) -> str:
        """Return what a Go command wrote to standard output.

        Raises:
            BuildError: It failed; the message has its last line.
        """
        environment = os.environ | {"CGO_ENABLED": str(int(self.cgo)), "GOWORK": "off"}
        result = subprocess.run(command, cwd=self.module, env=environment, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            said = [line for line in result.stderr.splitlines() if line.strip()] or [f"exit status {result.returncode}"]
            raise BuildError(f"`go {command[1]}` failed in {_below_root(self.module)}: {said[-1].strip()}")
        return result.stdout

    def _own_files(self) -> Iterator[Path]:
        for folder in self.sources:
            yield from sorted(folder.rglob("*.go"))


def _below_root(folder: Path) -> Path:
    return folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
