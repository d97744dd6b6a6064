"""Numbers of a command line: ASCII digits, without blanks, underscores, or the digits of other scripts.

Python's ``int`` and ``float``, which click calls, take all of these. Types of options, as click's own of these names.
"""

from __future__ import annotations

import re
from typing import Any, Final

import click

__all__ = ["Float", "FloatRange", "Int", "IntRange"]

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


class _AsGo:
    form: re.Pattern[str]
    name: str

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and self.form.fullmatch(value) is None:
            raise click.BadParameter(f"{value!r} is not a valid {self.name}.", ctx=ctx, param=param)
        return super().convert(value, param, ctx)  # type: ignore[misc]  # it stands before a type of click


class Int(_AsGo, click.types.IntParamType):
    """A whole number."""

    form = _WHOLE


class IntRange(_AsGo, click.IntRange):
    """A whole number within bounds."""

    form = _WHOLE


class Float(_AsGo, click.types.FloatParamType):
    """A number."""

    form = _NUMBER


class FloatRange(_AsGo, click.FloatRange):
    """A number within bounds."""

    form = _NUMBER
