"""Paths of the node put together as Go's path/filepath does it; pure."""

from __future__ import annotations

import posixpath

__all__ = ["join"]


def join(*parts: str) -> str:
    """The parts with one slash between them, without empty parts, ``.``, ``..`` and doubled slashes.

    Source: path/filepath, ``Join`` (Go 1.26).
    """
    path = "/".join(part for part in parts if part)
    if not path:
        return ""
    clean = posixpath.normpath(path)
    # POSIX gives two leading slashes a meaning of their own, Go does not.
    return clean[1:] if clean.startswith("//") else clean
