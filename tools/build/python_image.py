"""Name an image of docker in which CI systems run Python: with pip, git and a C compiler, as ``python:3.13`` has them.

``PYTHON_IMAGE`` decides where it is set. Otherwise ``python:3.13`` is pulled; without a registry a Debian of
`tools/in_place` becomes an image, as root on Debian, and stays in docker.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

OFFICIAL = "python:3.13"
OURS = "simkubelet/python:3.13"
IN_PLACE = Path(__file__).resolve().parents[1] / "in_place"
VENV = "/opt/python"


class ImageError(Exception):
    """There is no image, and none can be made here."""


def python_image() -> str:
    """Return the image's name.

    Raises:
        ImageError: There is none.
    """
    if named := os.environ.get("PYTHON_IMAGE"):
        return named
    for name in (OFFICIAL, OURS):
        if _docker("image", "inspect", name):
            return name
    if _docker("pull", "--quiet", OFFICIAL):
        return OFFICIAL
    _make(OURS)
    return OURS


def _docker(*arguments: str) -> bool:
    return subprocess.run(["docker", *arguments], capture_output=True, check=False).returncode == 0  # noqa: S607


def _make(name: str) -> None:
    made = subprocess.run([IN_PLACE, "--path", "trixie"], stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode:
        raise ImageError("no registry answers, and no image can be made here: see the error of tools/in_place above")
    script = """
    tar --directory "$1" --exclude ./home/* --create . | docker import - "$2-base" >/dev/null
    container=$(docker run --detach --network none "$2-base" python3 -m venv "$3")
    docker wait "$container"
    docker commit --change "ENV PATH=$3/bin:/usr/local/bin:/usr/bin:/bin" "$container" "$2" >/dev/null
    docker rm "$container" >/dev/null
    """
    arguments = ("bash", "-euo", "pipefail", "-c", script, "bash", made.stdout.strip(), name, VENV)
    if subprocess.run(arguments, stdout=subprocess.DEVNULL, check=False).returncode:
        raise ImageError(f"{name} could not be made: see what docker says above")
