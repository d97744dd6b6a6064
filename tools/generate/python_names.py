"""Write ``docs/python-names.md``: the public names of Python, with signatures and docstrings, from the modules.

With ``--check`` nothing is written and the exit status says whether the committed page is fresh.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NewType

from pydantic import BaseModel

from tools.generate.committed_page import escaped, in_cell, write_or_check

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "python-names.md"
HEAD: Final = """\
# Names of the Python API

Written by `python -m tools.generate.python_names` from the modules; do not edit. [api.md](api.md) has examples,
[pytest.md](pytest.md) the fixtures.
"""
MODULES: Final = ("simkubelet", "simkubelet.testing", "simkubelet.stories", "simkubelet.framework", "fakegpu")
OURS: Final = {"fakegpu", "plugin", "scenarios", "simkubelet"}
_SECTIONS: Final = re.compile(
    r"^(Args|Attributes|Raises|Returns|Yields):\n((?:(?:    .*)?\n)*(?:    .*)?)", re.MULTILINE
)
_SOURCE: Final = re.compile(r"^Source:.*(?:\n(?!\n).*)*", re.MULTILINE)
_ENTRY: Final = re.compile(r"^(\*{0,2}[\w.]+): (.*(?:\n(?!\*{0,2}[\w.]+: ).*)*)", re.MULTILINE)


def name_lines(module: str, name: str) -> Iterator[str]:
    """Yield the section of a public name."""
    value = getattr(import_module(module), name)
    yield from ("", f"### {name}", "")
    if inspect.ismodule(value):
        yield f"The module `{value.__name__}`: {_line((inspect.getdoc(value) or '').partition(chr(10) * 2)[0])}"
        return
    if not inspect.isclass(value) and not inspect.isroutine(value):
        alias = value.__supertype__.__name__ if isinstance(value, NewType) else str(value)
        yield f"A type: `{_shown(alias)}`."
        return
    if shown := signature(value):
        yield f"`{name}{shown}`"
    yield from text_lines(inspect.getdoc(value) or "")
    if inspect.isclass(value):
        yield from member_lines(value)


def signature(value: Any) -> str:
    """Return a signature as code; nothing for a class that a caller does not call."""
    is_class = inspect.isclass(value)
    if is_class and (issubclass(value, enum.Enum | BaseException | BaseModel) or getattr(value, "_is_protocol", False)):
        return ""
    found = inspect.signature(value)
    parameters = [one.replace(default=_Code(one.default)) for one in found.parameters.values() if one.name != "self"]
    returned = inspect.Signature.empty if is_class else found.return_annotation
    return _shown(str(found.replace(parameters=parameters, return_annotation=returned)))


class _Code:
    """A default as its source has it: without the addresses of objects."""

    def __new__(cls, value: Any) -> Any:
        is_enum = isinstance(value, enum.Enum)
        if not is_enum and (value is inspect.Parameter.empty or isinstance(value, str | int | float | tuple | None)):
            return value
        made = super().__new__(cls)
        made.text = f"{type(value).__name__}.{value.name}" if is_enum else "…"
        return made

    text: str

    def __repr__(self) -> str:
        return self.text


def _shown(annotation: str) -> str:
    """Return annotations as they are written: those of a module with the future import are texts."""
    annotation = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", annotation)
    annotation = re.sub(r"(?<=: )'([^']*)'|(?<=-> )'([^']*)'", lambda found: found[1] or found[2] or "", annotation)
    return re.sub(rf"\b(?:{'|'.join(OURS)})(?:\.\w+)*\.(\w+)", r"\1", annotation)


def text_lines(docstring: str) -> Iterator[str]:
    """Yield a docstring as Markdown: paragraphs, and lists for its sections."""
    docstring = _SOURCE.sub("", docstring)
    text = _SECTIONS.sub("", docstring)
    for paragraph in filter(None, map(str.strip, re.split(r"\n\s*\n", text))):
        if not paragraph.endswith("::") and not paragraph.startswith("    "):
            yield from ("", *textwrap.wrap(_line(paragraph), 120, break_on_hyphens=False, break_long_words=False))
    for title, body in _SECTIONS.findall(docstring):
        entries = _ENTRY.findall(textwrap.dedent(body))
        yield ""
        if title in ("Returns", "Yields") or not entries:
            yield f"{title}: {_line(body)}"
        else:
            yield from (f"{title}:", "")
            yield from (f"- `{name}`: {_line(about)}" for name, about in entries)


def _line(text: str) -> str:
    return escaped(in_cell(text).replace("\\|", "|"))


def member_lines(value: type) -> Iterator[str]:
    """Yield the table of what a class has."""
    rows = [*_members(value)]
    if rows:
        yield from (
            "",
            "| member | is |",
            "| --- | --- |",
            *(f"| `{in_cell(one)}` | {in_cell(is_)} |" for one, is_ in rows),
        )


def _members(value: type) -> Iterator[tuple[str, str]]:
    """Yield the public members of a class, its bases' too, with the first paragraph of what they say of themselves."""
    if issubclass(value, enum.Enum):
        yield from ((member.name, f"`{member.value!r}`") for member in value)
        return
    fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    seen: dict[str, object] = {}
    for base in reversed(value.__mro__):
        if base.__module__.partition(".")[0] in OURS:
            seen |= {name: member for name, member in vars(base).items() if not name.startswith("_")}
    for name, member in seen.items():
        function = getattr(member, "__func__", member)
        if name in fields or not (inspect.isfunction(function) or isinstance(member, property)):
            continue
        about = _line((inspect.getdoc(getattr(value, name)) or "").partition("\n\n")[0])
        if isinstance(member, property):
            yield name, about
        else:
            is_async = inspect.iscoroutinefunction(function)
            yield f"{'await ' if is_async else ''}{name}{signature(getattr(value, name))}", about


def page() -> str:
    """Return the page as it should be."""
    parts = [HEAD]
    for module in MODULES:
        found = import_module(module)
        parts.append(f"\n## {module}\n\n{_line((found.__doc__ or '').partition(chr(10) * 2)[0])}\n")
        parts += [f"{line}\n" for name in found.__all__ for line in name_lines(module, name)]
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, "python_names", __doc__))
