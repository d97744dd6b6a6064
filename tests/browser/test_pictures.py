"""The pictures of README.md and the pages, drawn once more by the page of a report."""

from __future__ import annotations

import pytest

from tools.generate import pictures

pytestmark = pytest.mark.slow


def test_committed_pictures_are_current(browser_and_driver: tuple[str, str]) -> None:
    for file, picture in pictures.draw(*browser_and_driver).items():
        assert file.read_text(encoding="utf-8") == picture, "run python -m tools.generate.pictures"
