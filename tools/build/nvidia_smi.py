"""Fetch NVIDIA's own nvidia-smi for the tests, unpacked and not installed, and print the folder that has the programs.

Debian carries it in its non-free part, one version in each release. The place to ask is the one that this machine's apt
asks for Debian's main part, with the releases named here, so that every machine tests with the same versions; apt
checks the signature. apt's files are kept in a folder of their own, and the system's lists stay as they are.

Exit status 3 where it cannot be had: no Debian, no network.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "nvidia-smi"
RELEASES = {"535": "bookworm", "550": "trixie"}
"""The Debian release of each version."""
PACKAGE = "nvidia-smi"
PROGRAM = Path("usr", "lib", "nvidia", "current", "nvidia-smi")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
TARGETS = ("--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Identifier: Packages", "Component: main")


class FetchError(Exception):
    """The program cannot be had on this machine; the message says why."""


def fetch() -> Path:
    """Return the folder of the programs ``nvidia-smi-VERSION``, fetched now if they are not there from before.

    Raises:
        FetchError: No apt, no Debian, or no answer.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    for version, release in RELEASES.items():
        program = CACHE / f"{PACKAGE}-{version}"
        if not program.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                unpacked = _unpack(Path(scratch), _download(Path(scratch), version, release))
                shutil.copy2(unpacked / PROGRAM, Path(scratch, "program"))
                Path(scratch, "program").replace(program)
    return CACHE


def _download(scratch: Path, version: str, release: str) -> Path:
    source = scratch / "sources" / "debian.sources"
    for folder in (source.parent, scratch / "lists" / "partial", scratch / "cache" / "archives" / "partial"):
        folder.mkdir(parents=True)
    lines = ("Types: deb", f"URIs: {_mirror()}", f"Suites: {release}", "Components: non-free", f"Signed-By: {KEYRING}")
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": source.parent,
        "Dir::State::lists": scratch / "lists",
        "Dir::Cache": scratch / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    given = [argument for name, value in options.items() for argument in ("-o", f"{name}={value}")]
    _run("apt-get", *given, "--quiet", "update", where=scratch)
    _run("apt-get", *given, "--quiet", "download", f"{PACKAGE}={version}.*", where=scratch)
    return next(scratch.glob(f"{PACKAGE}_*.deb"))


def _unpack(scratch: Path, package: Path) -> Path:
    unpacked = scratch / "unpacked"
    _run("dpkg-deb", "--extract", str(package), str(unpacked), where=scratch)
    return unpacked


def _mirror() -> str:
    if not KEYRING.exists():
        raise FetchError(f"no {KEYRING}: this machine is no Debian")
    targets = [line.split() for line in _run("apt-get", "indextargets", *TARGETS, where=ROOT).splitlines()]
    for uri, release, _component in targets:
        if "-" not in release:
            return uri
    raise FetchError("apt on this machine knows no mirror of Debian")


def _run(*command: str, where: Path) -> str:
    try:
        done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=300, check=True)
    except FileNotFoundError:
        raise FetchError(f"no `{command[0]}`: this machine is no Debian") from None
    except subprocess.TimeoutExpired:
        raise FetchError(f"`{command[0]} {command[-1]}` did not end in five minutes") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise FetchError(f"`{command[0]} {command[-1]}` failed: {last}") from None
    return done.stdout


def main() -> int:
    try:
        print(fetch())
    except FetchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
