"""Write the pins of the oracle for one Kubernetes version: its modfile and the ``.sum`` beside it.

Kubernetes requires its staging modules by a version that does not exist and replaces them by folders that its module
does not hold; here each is replaced by the module that was published with it. All other versions are those of
Kubernetes' own go.mod, which `go mod tidy` would raise if it saw the files for other Kubernetes versions: so it runs in
a copy without them.

`python -m tools.build.pin_oracle 1.36.3` writes ``tests/oracle/versions/1.36.mod``. Where one staging module cannot be
had in that version, `--staging k8s.io/cri-client=v0.31.0` names another.
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

from . import oracle as build_oracle
from .go_build import BuildError

LOWEST_GO = (1, 24)
STAGING = re.compile(r"^\s*(k8s\.io/[\w-]+) => \./staging/", re.MULTILINE)
GO_LINE = re.compile(r"^go (\d+)\.(\d+)", re.MULTILINE)
BUILD_LINE = re.compile(r"^//go:build (.+)$", re.MULTILINE)
TAG = re.compile(r"!?\b(?:before|since)1_\d+\b")


def fits(source: str, tags: set[str]) -> bool:
    """Return whether a Go file is part of a build with these tags; its condition joins tags by ``&&`` only."""
    condition = BUILD_LINE.search(source)
    if condition is None:
        return True
    return all((term.removeprefix("!") in tags) != term.startswith("!") for term in TAG.findall(condition.group(1)))


def new_pins(version: str, kubernetes_pins: str, exceptions: dict[str, str]) -> str:
    """Return a modfile that requires a Kubernetes version and replaces its staging modules."""
    published = "v0." + version.removeprefix("1.")
    replacements = "".join(
        f"\t{module} => {module} {exceptions.get(module, published)}\n"
        for module in sorted(set(STAGING.findall(kubernetes_pins)))
    )
    found = GO_LINE.search(kubernetes_pins)
    major, minor = max(LOWEST_GO, (int(found[1]), int(found[2]))) if found else LOWEST_GO
    return (
        f"module simkubelet/oracle\n\ngo {major}.{minor}.0\n\nrequire k8s.io/kubernetes v{version}\n\n"
        f"replace (\n{replacements})\n"
    )


def pin(version: str, exceptions: dict[str, str]) -> Path:
    """Write the pins of a version, such as "1.36.3", and return the modfile's path.

    Raises:
        BuildError: Go is missing, or a module cannot be had.
    """
    go = build_oracle.find_go()
    minor = version.rpartition(".")[0]
    with tempfile.TemporaryDirectory(prefix="pin-oracle-") as folder:
        copy = Path(folder)
        _copy_sources(copy, set(build_oracle.tags(minor).split(",")))
        told = json.loads(_run([go, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"], copy))
        (copy / "go.mod").write_text(new_pins(version, Path(told["GoMod"]).read_text(), exceptions))
        _run([go, "mod", "tidy"], copy)
        target = build_oracle.MODULE / ("go.mod" if minor == build_oracle.DEFAULT_MINOR else f"versions/{minor}.mod")
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(copy / "go.mod", target)
        shutil.copyfile(copy / "go.sum", target.with_suffix(".sum"))
    return target


def _copy_sources(target: Path, tags: set[str]) -> None:
    for path in build_oracle.MODULE.rglob("*.go"):
        if fits(path.read_text(), tags):
            copied = target / path.relative_to(build_oracle.MODULE)
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
    parser = argparse.ArgumentParser(description="Write the oracle's pins for a Kubernetes version, such as 1.36.3.")
    parser.add_argument("version")
    parser.add_argument("--staging", action="append", default=[], type=_exception, metavar="MODULE=VERSION")
    chosen = parser.parse_args()
    try:
        print(pin(chosen.version, dict(chosen.staging)))
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
