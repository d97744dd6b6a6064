"""Write ``fakegpu/state/layout.py``, Python's view of the segment file, from ``state.h`` and ``layout.h``.

Constants, enumerations and structs keep their order, their names without the prefix, and their comments. With
``--check`` nothing is written and the exit status says whether the committed module is fresh.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "fakegpu" / "native"
HEADERS = (NATIVE / "core" / "state.h", NATIVE / "core" / "layout.h")
MODULE = ROOT / "fakegpu" / "state" / "layout.py"
WIDTH = 120

sys.path.insert(0, str(NATIVE))
from generate_exports import Member, structs  # type: ignore[import-not-found]  # noqa: E402

_COMMENT = re.compile(r"/\* (.*?) ?\*/\n", re.DOTALL)
_CONSTANT = re.compile(r"#define FG_(\w+) (.*?)(?: +/\* (.*) \*/)?")
_ENUM = re.compile(r"enum (fg_\w+) \{\n(.*)\n\};", re.DOTALL)
_ENUMERATOR = re.compile(r"    (FG_\w+)(?: = (\d+))?,(?: +/\* (.*) \*/)?")
_STRUCT = re.compile(r"struct (fg_\w+) \{")
_TYPES = {"char": "ctypes.c_char", "int32_t": "_i32"} | {f"uint{bits}_t": f"_u{bits}" for bits in (8, 16, 32, 64)}
_OTHER_NAMES = {"fg_gpu": "GpuRecord", "fg_segment": "Header"}
"""Structs whose name means something else in Python; a segment's own struct has no room for the array that ends it."""
_MACROS = (
    (re.compile(r"UINT64_C\((\w+)\)"), r"\1"),
    (re.compile(r"UINT(32|64)_MAX"), r"(1 << \1) - 1"),
    (re.compile(r"\b(0x[0-9A-F]+|\d+)u\b"), r"\1"),
    (re.compile(r"sizeof\(struct (fg_\w+)\)"), lambda found: f"ctypes.sizeof({_python(found[1])})"),
    (re.compile(r"^\((.*)\)$"), r"\1"),
)

_HEAD = '''"""Python's view of the segment file: the structs of the fake library as ctypes structures.

Written by tools/generate/layout.py from state.h and layout.h in native/core; do not edit. Code that loads the library
compares every offset and size with those that it was compiled with, and the library refuses segments of another
version.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Final

_i32, _u8, _u16 = ctypes.c_int32, ctypes.c_uint8, ctypes.c_uint16
_u32, _u64 = ctypes.c_uint32, ctypes.c_uint64
'''


def module(headers: Sequence[str]) -> str:
    """Return the whole module for the texts of the headers.

    Raises:
        ValueError: a line of a header is not of the form that is read.
    """
    text = "\n\n".join(headers)
    known = structs(text)
    parts = [_HEAD.rstrip("\n"), *filter(None, (_part(block, known) for block in text.split("\n\n")))]
    table = "".join(f'    "{name}": {_python(name)},\n' for name in known)
    parts.append(f"STRUCTS: Final[dict[str, type[ctypes.Structure]]] = {{\n{table}}}")
    return "".join(_spaced(parts)).lstrip("\n")


def _spaced(parts: Sequence[str]) -> Iterator[str]:
    """Put two empty lines around classes, one between groups of constants."""
    for before, part in zip(["", *parts], parts, strict=False):
        is_beside_class = before.startswith("class ") or part.startswith("class ")
        yield ("\n\n" if is_beside_class else "\n") + part + "\n"


def _part(block: str, known: dict[str, list[Member]]) -> str:
    """What a paragraph of a header becomes; nothing for includes, functions and assertions."""
    about = ""
    if comment := _COMMENT.match(block):
        about, block = " ".join(_words(comment[1].replace("\n *", "")).split()), block[comment.end() :]
    if found := _STRUCT.match(block):
        return "\n".join(_structure(found[1], about, known[found[1]]))
    if found := _ENUM.match(block):
        return "\n".join(_enumeration(found[1], about, found[2].splitlines()))
    if block.startswith("#define FG_"):
        return "\n".join(_constants(about, block.splitlines()))
    return ""


def _constants(about: str, lines: Sequence[str]) -> Iterator[str]:
    found = [match for line in lines if (match := _CONSTANT.fullmatch(line))]
    if found and about:
        yield f"# {about}"
    for name, value, comment in (match.groups() for match in found):
        yield from _line(f"{name}: Final = {_value(value)}", comment)


def _value(expression: str) -> str:
    for pattern, replacement in _MACROS:
        expression = pattern.sub(replacement, expression)
    return _words(expression)


def _enumeration(name: str, about: str, lines: Sequence[str]) -> Iterator[str]:
    yield f"class {_python(name)}(IntEnum):"
    yield from _docstring(name, about)
    numbers = count()
    for line in lines:
        found = _ENUMERATOR.fullmatch(line)
        if found is None:
            raise ValueError(f"not one enumerator, `NAME = number, /* comment */`: {line.strip()}")
        numbers = count(int(found[2])) if found[2] else numbers
        member = found[1].removeprefix(f"{name.upper().rpartition('_')[0]}_")
        yield from _line(f"    {member} = {next(numbers)}", found[3])


def _structure(name: str, about: str, members: Sequence[Member]) -> Iterator[str]:
    yield f"class {_python(name)}(ctypes.Structure):"
    yield from _docstring(name, about)
    yield "    _fields_ = ["
    for member in members:
        if "" not in member.lengths:
            kind = _TYPES.get(member.type) or _python(member.type)
            lengths = "".join(f" * {_value(length)}" for length in reversed(member.lengths))
            yield from _line(f'        ("{member.name}", {kind}{lengths}),', member.comment)
    yield "    ]"


def _docstring(name: str, about: str) -> Iterator[str]:
    summary, _, rest = about.partition(". ")
    if not rest:
        yield from (f'    """``{name}``: {summary.rstrip(".")}."""', "")
        return
    yield from (f'    """``{name}``: {summary}.', "")
    yield from textwrap.wrap(rest, WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4)
    yield from ('    """', "")


def _line(code: str, comment: str | None) -> Iterator[str]:
    """Put the comment behind the code, or above it where it does not fit."""
    line = f"{code}  # {_words(comment)}" if comment else code
    if len(line) <= WIDTH:
        yield line
    else:
        indent = " " * (len(code) - len(code.lstrip())) + "# "
        yield from textwrap.wrap(_words(comment or ""), WIDTH, initial_indent=indent, subsequent_indent=indent)
        yield code


def _words(text: str) -> str:
    """Return the text with Python's names of constants, which have no prefix."""
    return re.sub(r"\bFG_", "", text)


def _python(name: str) -> str:
    """``fg_module_power`` -> ``ModulePower``."""
    return _OTHER_NAMES.get(name) or name.removeprefix("fg_").title().replace("_", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 when the module is stale")
    options = parser.parse_args()
    fresh = module([header.read_text(encoding="utf-8") for header in HEADERS])
    if not options.check:
        MODULE.write_text(fresh, encoding="utf-8")
    elif MODULE.read_text(encoding="utf-8") != fresh:
        print(f"stale: {MODULE.relative_to(ROOT)}; run: python -m tools.generate.layout", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
