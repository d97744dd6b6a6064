"""Write the pins of a Go module for one Kubernetes version: its modfile and the ``.sum`` beside it.

Kubernetes requires its staging modules by a version that does not exist and replaces them by folders that its module
does not hold; here each is replaced by the module that was published with it. All other versions are those of
Kubernetes' own go.mod, which `go mod tidy` would raise if it saw the files for other Kubernetes versions: so it runs in
a copy without them.

`python -m tools.build.pins oracle 1.36.3` writes ``tests/oracle/versions/1.36.mod``; `control_plane` pins the control
plane of ``tests/join``. Where one staging module cannot be had in that version, `--staging k8s.io/cri-client=v0.31.0`
names another.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import control_plane, oracle
from .go_build import BuildError, KubernetesPins, print_built

LOWEST_GO = (1, 24)
MODULES = {"oracle": oracle.PINS, "control_plane": control_plane.PINS}
STAGING = re.compile(r"^\s*(k8s\.io/[\w-]+) => \./staging/", re.MULTILINE)
GO_LINE = re.compile(r"^go (\d+)\.(\d+)", re.MULTILINE)
GODEBUG_LINE = re.compile(r"^godebug .+$", re.MULTILINE)
BUILD_LINE = re.compile(r"^//go:build (.+)$", re.MULTILINE)
TAG = re.compile(r"!?\b(?:before|since)1_\d+\b")


def fits(source: str, tags: set[str]) -> bool:
    """Return whether a Go file is part of a build with these tags; its condition joins tags by ``&&`` only."""
    condition = BUILD_LINE.search(source)
    if condition is None:
        return True
    return all((term.removeprefix("!") in tags) != term.startswith("!") for term in TAG.findall(condition.group(1)))


def new_pins(module: str, version: str, kubernetes_pins: str, exceptions: dict[str, str]) -> str:
    """Return a modfile that requires a Kubernetes version and replaces its staging modules.

    Args:
        module: Its name below ``simkubelet/``.
        version: Such as "1.36.3".
        kubernetes_pins: Kubernetes' own go.mod.
        exceptions: Staging module -> the version to take instead.
    """
    published = "v0." + version.removeprefix("1.")
    replacements = "".join(
        f"\t{staging} => {staging} {exceptions.get(staging, published)}\n"
        for staging in sorted(set(STAGING.findall(kubernetes_pins)))
    )
    found = GO_LINE.search(kubernetes_pins)
    major, minor = max(LOWEST_GO, (int(found[1]), int(found[2]))) if found else LOWEST_GO
    godebug = "".join(f"{line}\n\n" for line in GODEBUG_LINE.findall(kubernetes_pins))
    return (
        f"module simkubelet/{module}\n\ngo {major}.{minor}.0\n\n{godebug}"
        f"require k8s.io/kubernetes v{version}\n\nreplace (\n{replacements})\n"
    )


def pin(module: str, version: str, exceptions: dict[str, str]) -> Path:
    """Write the pins of a version, such as "1.36.3", and return the modfile's path.

    Raises:
        BuildError: Go is missing, or a module cannot be had.
    """
    go, pins = oracle.find_go(), MODULES[module]
    minor = version.rpartition(".")[0]
    with tempfile.TemporaryDirectory(prefix="pins-") as folder:
        copy = Path(folder)
        _copy_sources(pins, copy, set(oracle.tags(minor).split(",")))
        told = json.loads(_run([go, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"], copy))
        (copy / "go.mod").write_text(new_pins(module, version, Path(told["GoMod"]).read_text(), exceptions))
        _run([go, "mod", "tidy"], copy)
        target = pins.path(minor)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(copy / "go.mod", target)
        shutil.copyfile(copy / "go.sum", target.with_suffix(".sum"))
    return target


def _copy_sources(pins: KubernetesPins, target: Path, tags: set[str]) -> None:
    for path in pins.module.rglob("*.go"):
        if fits(path.read_text(), tags):
            copied = target / path.relative_to(pins.module)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)


def _run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"GOWORK": "off"}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        said = [line.strip() for line in (result.stderr or result.stdout).splitlines() if line.strip()]
        raise BuildError(f"`{' '.join(command[1:3])}` failed: {said[-1] if said else result.returncode}")
    return result.stdout


def _exception(text: str) -> tuple[str, str]:
    module, _, version = text.partition("=")
    return module, version


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the pins of a Go module for a Kubernetes version.")
    parser.add_argument("module", choices=MODULES, metavar="MODULE", help=", ".join(MODULES))
    parser.add_argument("version", metavar="VERSION", help="such as 1.36.3")
    parser.add_argument("--staging", action="append", default=[], type=_exception, metavar="MODULE=VERSION")
    chosen = parser.parse_args()
    return print_built(lambda: [pin(chosen.module, chosen.version, dict(chosen.staging))])


if __name__ == "__main__":
    sys.exit(main())
