"""Find Chromium and its driver for the tests of pages; as root on Debian, install what is missing."""

from __future__ import annotations

import shutil
from typing import Final

from tools.build import apt

PACKAGES: Final = ("chromium", "chromium-driver")
_NAMES: Final = (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",))


def find() -> tuple[str, str]:
    """Return the paths of the browser and of its driver.

    Raises:
        apt.AptError: One is missing and cannot be installed here.
    """
    found = _installed()
    if found is None:
        apt.install("Chromium", *PACKAGES)
        found = _installed()
    if found is None:
        raise apt.AptError(f"no Chromium, although {' and '.join(PACKAGES)} are installed")
    return found


def _installed() -> tuple[str, str] | None:
    browser, driver = (next(filter(None, map(shutil.which, names)), None) for names in _NAMES)
    return (browser, driver) if browser and driver else None
