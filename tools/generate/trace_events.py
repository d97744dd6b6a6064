"""Write ``docs/trace.md``: the kinds of events in a trace, with their fields, from the classes that declare them.

With ``--check`` nothing is written and the exit status says whether the committed page is fresh.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

from scenarios.trace.events import StoryEvent
from simkubelet.model.events import NodeEvent
from tools.generate.committed_page import in_cell, write_or_check

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "trace.md"
HEAD: Final = """\
# Trace events

Written by `python -m tools.generate.trace_events` from the classes of the events; do not edit.

`simkubelet run --trace FILE` writes the [trace](architecture.md#the-trace) of each story as JSON lines, `--report`
draws it, and `simkubelet replay FILE` shows a written one. In Python the entries of a `Trace` are objects of these
classes ([api.md](api.md#stories)). Each line is a JSON object with these fields, and with those of its kind:

| field | is |
| --- | --- |
| `story` | the story's name |
| `seq` | the number of the event in its story |
| `time_s` | node time in seconds since the story began |
| `real_s` | real time in seconds since the story began |
| `kind` | the kind of the event |
"""
TABLE: Final = ("| kind | meaning | fields |", "| --- | --- | --- |")
IN_JSON: Final = {
    "str": "",
    "int": "number",
    "float": "number",
    "bool": "true or false",
    "int | None": "number or null",
}


def rows(union: object) -> Iterator[str]:
    """Yield the lines of the table of a union of event classes."""
    yield from TABLE
    for event in get_args(union):
        text = inspect.cleandoc(event.__doc__ or "")
        attributes = "" if "Attributes:" not in text else " " + text.partition("Attributes:\n")[2].strip()
        about = text.partition("\n\nAttributes:")[0] + attributes.replace("response: ", "`response`: ")
        fields = ", ".join(f"`{field.name}`{_type(str(field.type))}" for field in dataclasses.fields(event))
        yield f"| `{event.kind}` | {in_cell(about)} | {fields} |"


def _type(annotation: str) -> str:
    """Return what a field is in JSON, behind its name; nothing for a text."""
    form = IN_JSON.get(annotation)
    if form is None:
        form = "mapping" if annotation.startswith("Mapping") else "list"
        form += " or text" if annotation.endswith("| str") else ""
    return f" ({form})" if form else ""


def page() -> str:
    """Return the page as it should be."""
    parts = (("The node", NodeEvent), ("The story", StoryEvent))
    tables = [f"\n## {title}\n\n" + "".join(f"{row}\n" for row in rows(union)) for title, union in parts]
    return HEAD + "".join(tables)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, "trace_events", __doc__))
