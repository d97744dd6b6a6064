"""The published modules of Kubernetes: fetched by the Go command, and kept as archives below ``build/releases``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from simkubelet.model.version import Version
from tools.build.go_build import ROOT, BuildError, find_go

__all__ = ["Archive", "Modules"]

_TESTS = re.compile(r"^[^/]*/[^/]*/test/|/testing/")
CACHE = ROOT / "build" / "releases"


class Archive:
    """The sources of one module in one release."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _files(self) -> dict[str, str]:
        """Path within the module -> name in the archive, of Go files that are no tests."""
        with ZipFile(self._path) as opened:
            names = opened.namelist()
        return {
            name.partition("@")[2].partition("/")[2]: name
            for name in names
            if name.endswith(".go") and not name.endswith("_test.go") and not _TESTS.search(name)
        }

    def paths(self) -> tuple[str, ...]:
        """Return the Go files that are no tests."""
        return tuple(self._files)

    def text(self, path: str) -> str:
        """Return a file's text; empty where there is no such file."""
        if path not in self._files:
            return ""
        with ZipFile(self._path) as opened:
            return opened.read(self._files[path]).decode()


class Modules:
    """Where archives come from.

    Raises:
        BuildError: there is no Go.
    """

    def __init__(self) -> None:
        self._go = find_go("1.21", "to fetch Kubernetes' modules")
        self._known: dict[tuple[str, Version], Archive | None] = {}

    def archive(self, module: str, release: Version) -> Archive | None:
        """Return a module of a release, such as ``kubernetes``; None where it is not published.

        Raises:
            BuildError: it cannot be fetched now.
        """
        key = module, release
        if key not in self._known:
            self._known[key] = self._fetched(module, release)
        return self._known[key]

    def newest(self, known: Version) -> Version:
        """Return the newest patch of a minor that is published, from a known one on; three in a row may be missing."""
        following = (Version(known.minor, known.patch + step) for step in range(1, 5))
        later = next((release for release in following if self.archive("kubernetes", release) is not None), None)
        return known if later is None else self.newest(later)

    def _fetched(self, module: str, release: Version) -> Archive | None:
        major = 1 if module == "kubernetes" else 0
        wanted = f"k8s.io/{module}@v{major}.{release.minor}.{release.patch}"
        kept = CACHE / f"{wanted.replace('/', '-')}.zip"
        if not kept.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="modules-") as folder:
                answer = self._download(wanted, Path(folder))
                if "Zip" not in answer:
                    _check_absence(wanted, answer.get("Error", ""))
                    return None
                shutil.move(answer["Zip"], kept)
        return Archive(kept)

    def _download(self, wanted: str, folder: Path) -> dict[str, Any]:
        environment = os.environ | {"GOMODCACHE": str(folder), "GOFLAGS": "-modcacherw", "GOWORK": "off"}
        command = [self._go, "mod", "download", "-json", wanted]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if not done.stdout.strip():
            raise BuildError(f"`go mod download {wanted}` failed: {done.stderr.strip()}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


def _check_absence(wanted: str, error: str) -> None:
    """Tell a release that is not published from one that cannot be fetched now, which raises BuildError."""
    if not any(text in error for text in ("not available", "unknown revision", "404 Not Found", "410 Gone")):
        raise BuildError(f"{wanted} cannot be fetched: {error}")
