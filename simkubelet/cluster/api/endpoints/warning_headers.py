"""Headers by which an API server warns a client.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go, ``AddWarning`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web

from ....golang.text import quoted

__all__ = ["add_warnings"]

_MOST_WARNED: Final = 4 * 1024
_LONGEST_WARNING: Final = 256
"""Characters of all warnings together, and of one where they are more."""


def add_warnings(response: web.StreamResponse, warnings: Sequence[str]) -> None:
    """Add texts to an answer whose headers are not sent yet."""
    for warning in _short(warnings):
        response.headers.add("Warning", f"299 - {quoted(warning)}")


def _short(warnings: Sequence[str]) -> Sequence[str]:
    """Each warning once; where they are long together, the first of them, each truncated."""
    different = list(dict.fromkeys(warnings))
    if sum(map(len, different)) <= _MOST_WARNED:
        return different
    shown: list[str] = []
    written = 0
    for text in different:
        if written >= _MOST_WARNED:
            break
        shown.append(text[:_LONGEST_WARNING])
        written += len(shown[-1])
    return shown
