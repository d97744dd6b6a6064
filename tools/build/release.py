"""Build the files of a release: a source distribution, a wheel for each platform, and their bill of materials.

``python -m tools.build.release dist`` fills the folder ``dist``. The wheels are made from the source distribution. Zig
compiles the C libraries of all of them: its compiler brings the headers and the symbols of each platform's C library,
so a wheel runs on every distribution since glibc 2.17, or with musl, whatever machine built it. The libraries are
loaded with ctypes and by the dynamic linker, so one wheel serves all versions of Python.

A clean clone of the same commit gives the same bytes, on any machine with the same versions of the tools (the group
`release` in pyproject.toml).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from tools.build import sbom

ROOT: Final = Path(__file__).resolve().parents[2]
GLIBC: Final = (2, 17)
"""The oldest glibc on which wheels run, as manylinux2014 has it; older ones run no Python that simkubelet takes."""


@dataclass(frozen=True, slots=True)
class Target:
    """A platform that has a wheel of its own.

    Attributes:
        zig: The platform in Zig's words.
        tag: In those of wheels.
        machine: In those of ELF.
        libraries: What a library of the wheel may need of the platform.
    """

    zig: str
    tag: str
    machine: str
    libraries: frozenset[str]


def _targets() -> Iterator[Target]:
    glibc = frozenset({"libc.so.6", "libpthread.so.0", "libdl.so.2"})
    # musl's dynamic linker takes any name that begins with "libc." for itself.
    musl = frozenset({"libc.so"})
    for cpu, machine in (("x86_64", "EM_X86_64"), ("aarch64", "EM_AARCH64")):
        major, minor = GLIBC
        yield Target(f"{cpu}-linux-gnu.{major}.{minor}", f"manylinux_{major}_{minor}_{cpu}", machine, glibc)
        yield Target(f"{cpu}-linux-musl", f"musllinux_1_2_{cpu}", machine, musl)


TARGETS: Final = {target.tag: target for target in _targets()}
"""Platform tag -> target."""


_ELF: Final = b"\x7fELF"


class WheelError(Exception):
    """A wheel is not what its name says."""


def build(directory: Path, tags: list[str]) -> list[Path]:
    """Build a release and return its files: source distribution, bill of materials, wheels.

    Args:
        directory: Where they are written; it is made where it is missing.
        tags: The platforms.

    Raises:
        WheelError: A wheel needs more of its platform than it may.
        subprocess.CalledProcessError: Something cannot be built.
    """
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    name = "{name}-{version}".format(**pyproject["project"])
    directory.mkdir(parents=True, exist_ok=True)
    commit_s = _commit_s()
    materials = directory / f"{name}.cdx.json"
    materials.write_text(sbom.document(pyproject, commit_s), encoding="utf-8")
    os.environ["SOURCE_DATE_EPOCH"] = str(commit_s)
    _python("-m", "build", "--sdist", "--no-isolation", "--outdir", str(directory), str(ROOT))
    source = directory / f"{name}.tar.gz"
    with tempfile.TemporaryDirectory(prefix="simkubelet-release-") as scratch:
        with tarfile.open(source) as archive:
            archive.extractall(scratch, filter="data")
        wheels = [_wheel(Path(scratch, name), TARGETS[tag], materials, directory) for tag in tags]
    return [source, materials, *wheels]


def _commit_s() -> int:
    """When the commit was made, as Unix time."""
    said = subprocess.check_output(["git", "-C", ROOT, "log", "-1", "--format=%ct"], text=True)  # noqa: S607
    return int(said)


def _wheel(source: Path, target: Target, materials: Path, directory: Path) -> Path:
    compiler = source.parent / f"zig-{target.tag}"
    compiler.write_text(compiler_script(source, target), encoding="utf-8")
    compiler.chmod(0o755)
    settings = {
        "build-dir": str(source.parent / f"build-{target.tag}"),
        "wheel.tags": f"py3-none-{target.tag}",
        f"wheel.force-include.{materials.resolve()}": "${SKBUILD_METADATA_DIR}/sboms/simkubelet.cdx.json",
    }
    options = [f"--config-settings={name}={value}" for name, value in settings.items()]
    os.environ["CC"] = str(compiler)
    _python(
        *("-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation", *options),
        *("--wheel-dir", str(directory), str(source)),
    )
    (wheel,) = directory.glob(f"*-py3-none-{target.tag}.whl")
    check(wheel, target)
    return wheel


def compiler_script(source: Path, target: Target) -> str:
    """Return a program that compiles C for a platform; the source's path is not in what it writes."""
    command = f"{sys.executable} -m ziglang cc -target {target.zig} -ffile-prefix-map={source}=."
    return f'#!/bin/sh\nexec {command} "$@"\n'


def check(wheel: Path, target: Target) -> None:
    """Check that the libraries and programs of a wheel run wherever pip installs it.

    Raises:
        WheelError: With the library, and what is wrong with it.
    """
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if archive.open(name).read(len(_ELF)) == _ELF]
        if not libraries:
            raise WheelError(f"{wheel.name} has no library")
        for name in libraries:
            if wrong := list(_faults(ELFFile(BytesIO(archive.read(name))), target)):
                raise WheelError(f"{wheel.name}: {name}: {'; '.join(wrong)}")


def _faults(library: ELFFile, target: Target) -> Iterator[str]:
    if library["e_machine"] != target.machine:
        yield f"it is for {library['e_machine']}, not {target.machine}"
    for section in library.iter_sections():
        if isinstance(section, DynamicSection):
            tags = section.iter_tags("DT_NEEDED")
            needed = {tag.needed for tag in tags}  # type: ignore[attr-defined]  # set by the kind of the tag
            if more := sorted(needed - target.libraries):
                yield f"it needs {', '.join(more)}"
        if isinstance(section, GNUVerNeedSection):
            for _, versions in section.iter_versions():
                yield from (f"it needs {one.name}" for one in versions if _is_newer(one.name))


def _is_newer(symbols: str) -> bool:
    """Whether a version of symbols, such as ``GLIBC_2.34``, is one that an old glibc lacks."""
    return tuple(map(int, symbols.removeprefix("GLIBC_").split("."))) > GLIBC


def _python(*arguments: str) -> None:
    # Standard output is for the paths of what was built.
    subprocess.run([sys.executable, *arguments], check=True, stdout=sys.stderr)


def main() -> int:
    """Build what the arguments name, and print the paths."""
    parser = argparse.ArgumentParser(prog="python -m tools.build.release", description=__doc__.partition("\n\n")[0])
    parser.add_argument("directory", type=Path, help="where the files are written")
    parser.add_argument("--only", action="append", choices=TARGETS, metavar="TAG", help=f"one of {', '.join(TARGETS)}")
    chosen = parser.parse_args()
    try:
        files = build(chosen.directory, chosen.only or list(TARGETS))
    except WheelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"error: `{' '.join(map(str, error.cmd[:5]))} …` ended with status {error.returncode}", file=sys.stderr)
        return 1
    for file in files:
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
