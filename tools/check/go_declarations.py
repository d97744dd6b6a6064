"""Split Go source into its declarations, without comments, so that two releases can be compared one by one.

The source is taken as gofmt leaves it: what is declared begins in the first column, a group's members at one tab.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["declarations"]

_TOKEN: Final = re.compile(r"""//[^\n]*|/\*.*?\*/|`[^`]*`|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""", re.DOTALL)
_FUNCTION: Final = re.compile(r"func (?:\((?:\w+ )?\*?(\w+)(?:\[[^]]*\])?\) )?(\w+)")
_GROUP: Final = re.compile(r"(?:type|var|const) \($")
_SINGLE: Final = re.compile(r"(?:type|var|const) (\w+)")
_MEMBER: Final = re.compile(r"\t(\w+)")
_ALIGNED: Final = re.compile(r"(?<=\S)[ \t]+")


def declarations(source: str) -> dict[str, str]:
    """Return name -> text for each function, type, variable and constant; a method's name is ``Type.Method``."""
    found: dict[str, str] = {}
    lines = _lines(source)
    for line in lines:
        if function := _FUNCTION.match(line):
            receiver, name = function.groups()
            found[f"{receiver}.{name}" if receiver else name] = _whole(line, lines)
        elif _GROUP.match(line):
            found |= _members(lines)
        elif single := _SINGLE.match(line):
            found[single[1]] = _whole(line, lines)
    return found


def _lines(source: str) -> Iterator[str]:
    """Yield the lines that are not empty, with one space where several align something."""
    for line in _TOKEN.sub(_shown, source).splitlines():
        if line.strip():
            yield _ALIGNED.sub(" ", line.rstrip())


def _shown(token: re.Match[str]) -> str:
    text = token[0]
    if text.startswith(("//", "/*")):
        return "\n" if "\n" in text else ""
    return text.replace("\n", "\\n")


def _whole(first: str, lines: Iterator[str]) -> str:
    """Return a declaration, which ends where a line begins with its closing bracket, or with its only line."""
    if not first.endswith(("{", "(", "[", "`")) and not _opens(first):
        return first
    text = [first]
    for line in lines:
        text.append(line)
        if line[0] in ")}]" and not _opens(line):
            break
    return "\n".join(text)


def _opens(line: str) -> bool:
    return line.endswith(("{", "(", "[", ",", "=", "||", "&&", "+"))


def _members(lines: Iterator[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        if line.startswith(")"):
            break
        if member := _MEMBER.match(line):
            name = member[1]
            found[name] = line
        elif name:
            found[name] += f"\n{line}"
    return found
