"""Name the node image for the tests' kind cluster, building it where there is a recipe for one.

``KIND_NODE_IMAGE`` decides where it is set. Otherwise ``../shared/kindnode/build.sh``, on machines that have it, builds
an image without a registry: this takes minutes the first time; docker keeps the image and the user's cache folder its
parts. Otherwise kind chooses the image.

Exit status 3 where the recipe fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

RECIPE = Path(__file__).resolve().parents[3] / "shared" / "kindnode"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "simkubelet" / "kindnode"
TRIES = 2


class ImageError(Exception):
    """The recipe failed."""


def node_image() -> str | None:
    """Return the image's name, None for kind's own choice; the recipe's progress goes to standard error.

    Raises:
        ImageError: It cannot be built.
    """
    named = os.environ.get("KIND_NODE_IMAGE")
    if named or not (RECIPE / "build.sh").exists():
        return named or None
    name = f"kindnode/node:{_kubernetes()}"
    if not _is_in_docker(name) and not any(_build(name) for _ in range(TRIES)):
        raise ImageError(f"{name} could not be built in {TRIES} tries; what {RECIPE.name}/build.sh said stands above")
    return name


def _build(name: str) -> bool:
    """Follow the recipe; whether it succeeded."""
    print(f"building the node image {name} ...", file=sys.stderr, flush=True)
    environment = os.environ | {"IMAGE": name, "KINDNODE_WORK": str(CACHE)}
    build = ["nice", str(RECIPE / "build.sh")]
    status = subprocess.run(build, env=environment, stdout=sys.stderr, check=False).returncode
    if status != 0:
        print(f"building {name} FAILED with status {status}", file=sys.stderr, flush=True)
    return status == 0


def _kubernetes() -> str:
    (version,) = re.findall(
        r"^\s*(?:require )?k8s\.io/kubernetes (v\S+)", (RECIPE / "kube" / "go.mod").read_text(), re.M
    )
    return str(version)


def _is_in_docker(name: str) -> bool:
    look = ["docker", "image", "inspect", name]
    return subprocess.run(look, capture_output=True, check=False).returncode == 0


def main() -> int:
    try:
        print(node_image() or "")
    except ImageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
