"""Install packages of Debian or Ubuntu that a session needs, as root."""

from __future__ import annotations

import os
import shutil
import subprocess


class AptError(Exception):
    """The packages cannot be installed; the message says what to do."""


def install(what: str, *packages: str) -> None:
    """Install the packages that give ``what``.

    Raises:
        AptError: There is no apt, it is not ours to use, or it failed.
    """
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise AptError(f"no {what}: install it (Debian: sudo apt-get install {' '.join(packages)})")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", *command],  # noqa: S607 - Debian's own
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise AptError(f"no {what}: apt-get {command[0]} failed: {done.stderr.strip()}")
