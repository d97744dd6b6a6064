"""Write the tables of verbs and expectations in ``docs/stories.md``, from the classes that declare them.

A verb is listed below the heading that its class names as `section`; the first paragraph of the class' docstring says
what it does, ``Attributes`` explains its keys. With ``--check`` nothing is written and the exit status says whether the
committed page is fresh.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from scenarios.story.expectations import EXPECTATIONS, ContainerExpectation
from scenarios.story.part import Action
from scenarios.story.schema import documented
from scenarios.story.verbs import VERBS
from tools.generate.committed_page import in_cell, with_tables, write_or_check

PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "stories.md"
WIDTH: Final = 120
KEYS_IN_A_ROW: Final = 4
"""A verb with more explained keys than these has a list of them below the table."""
IN_WORDS: Final = {"apply": "a pod's manifest", "advance": "a time"}
"""The value of these verbs in a story, which is not a mapping of keys."""


def paragraphs(model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a class' docstring, and attribute -> its text, each on one line of a table."""
    text, attributes = documented(model)
    return in_cell(text), {name: in_cell(about) for name, about in attributes.items()}


def aliases(model: type[BaseModel]) -> dict[str, str]:
    """Return attribute -> key in a story; the node, which need not be named, comes last."""
    named = {name: field.alias or name for name, field in model.model_fields.items()}
    return {name: named[name] for name in sorted(named, key="node".__eq__)}


def verb_lines(section: str) -> Iterator[str]:
    """Yield the table of a section's verbs, and a list of the keys of each that has many."""
    verbs = {verb: action for verb, action in VERBS.items() if action.section == section}
    yield "| verb | keys | does | events in the trace |"
    yield "| --- | --- | --- | --- |"
    for verb, action in verbs.items():
        keys = IN_WORDS.get(verb) or ", ".join(f"`{key}`" for key in aliases(action).values())
        does, about = paragraphs(action)
        is_short = len(about) <= KEYS_IN_A_ROW
        explained = "".join(f" `{key_of(action, name)}`: {text}" for name, text in about.items())
        events = ", ".join(f"`{event.kind}`" for event in action.events)
        yield f"| `{verb}` | {keys} | {does}{explained if is_short else ''} | {events} |"
    for verb, action in verbs.items():
        about = paragraphs(action)[1]
        if len(about) > KEYS_IN_A_ROW:
            yield from ("", f"The keys of `{verb}`:", "")
            for name, text in about.items():
                yield from textwrap.wrap(f"- `{key_of(action, name)}`: {text}", WIDTH, subsequent_indent="  ")


def key_of(action: type[Action], attribute: str) -> str:
    return aliases(action)[attribute]


def expectation_lines(model: type[BaseModel]) -> Iterator[str]:
    """Yield the table of an expectation's keys."""
    yield "| key | expects |"
    yield "| --- | --- |"
    about, keys = paragraphs(model)[1], {name: field.alias for name, field in model.model_fields.items()}
    for name, text in about.items():
        yield f"| `{keys[name]}` | {text} |"


def tables() -> dict[str, list[str]]:
    """Return heading of the page -> the lines of its table."""
    sections = dict.fromkeys(action.section for action in VERBS.values())
    found = {section: list(verb_lines(section)) for section in sections}
    found |= {f"Of a {subject}": list(expectation_lines(model)) for subject, model in EXPECTATIONS.items()}
    return found | {"Of a container": list(expectation_lines(ContainerExpectation))}


def page(text: str | None = None) -> str:
    """Return the page with fresh tables; what stands around them stays."""
    return with_tables(PAGE, {f"### {heading}": lines for heading, lines in tables().items()}, text)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, "story_reference", __doc__))
