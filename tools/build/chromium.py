"""Find Chromium and its driver for the tests of pages; as root on Debian, install what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

PACKAGES: Final = ("chromium", "chromium-driver")
_NAMES: Final = (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",))


class NoBrowserError(Exception):
    """There is no browser and it cannot be installed; the message says what to do."""


def find() -> tuple[str, str]:
    """Return the paths of the browser and of its driver.

    Raises:
        NoBrowserError: One is missing and cannot be installed here.
    """
    found = _installed()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _install()
        found = _installed()
    if found is None:
        raise NoBrowserError(f"no Chromium: install it (Debian: sudo apt-get install {' '.join(PACKAGES)})")
    return found


def _installed() -> tuple[str, str] | None:
    browser, driver = (next(filter(None, map(shutil.which, names)), None) for names in _NAMES)
    return (browser, driver) if browser and driver else None


def _install() -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(
            ["apt-get", *command],  # noqa: S607 - Debian's own
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NoBrowserError(f"apt-get {command[0]} failed: {done.stderr.strip()}")
