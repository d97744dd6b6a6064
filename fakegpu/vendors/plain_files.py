"""Devices that are nothing but files, such as the gophers of a device plugin that lists ``/etc/gophers``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from ..errors import InputError


def write_plain(root: Path, paths: Iterable[str]) -> None:
    """Makes empty files below ``root``; those that are there stay as they are.

    Args:
        root: what stands for ``/``.
        paths: ``etc/gophers/g1`` or ``/etc/gophers/g1``.

    Raises:
        InputError: a path that names no file, or leaves ``root``.
    """
    places = [_place(root, path) for path in paths]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def _place(root: Path, path: str) -> Path:
    parts = PurePosixPath(path.lstrip("/")).parts
    if not parts or ".." in parts or path.endswith("/"):
        raise InputError(f"'{path}' is no file below {root}: write etc/gophers/g1")
    return root.joinpath(*parts)
