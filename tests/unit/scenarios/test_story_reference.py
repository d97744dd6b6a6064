"""The page about the language of stories names every verb and every key, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from scenarios.story.bug import Bug
from scenarios.story.expectations import ContainerExpectation, NodeExpectation, PluginExpectation, PodExpectation
from scenarios.story.model import STEP_KEYS, Scenario
from scenarios.story.specs import Builtin, NodeSpec, PluginSpec
from scenarios.story.stub_spec import Serves
from scenarios.story.verbs.plugin_action import AnswerRpc
from tools.generate import story_reference

PAGE = (Path(__file__).parents[3] / "docs" / "stories.md").read_text()


def section(title: str) -> str:
    """The text below a heading, up to the next one of any level."""
    return re.split(r"^#+ ", PAGE.partition(f" {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of a table's rows that begin with a key."""
    found = (line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `"))
    return [[cell.strip() for cell in cells] for cells in found]


def keys_of(model: type[BaseModel]) -> set[str]:
    return {field.alias or "" for field in model.model_fields.values()}


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text))


@pytest.mark.parametrize(
    ("title", "model", "elsewhere"),
    [
        pytest.param("The story", Scenario, set(), id="story"),
        pytest.param("A bug", Bug, set(), id="bug"),
        pytest.param("A node", NodeSpec, set(), id="node"),
        pytest.param("A plugin", PluginSpec, set(), id="plugin"),
        pytest.param("What the stub serves", Serves, set(), id="stub"),
        pytest.param("Of a node", NodeExpectation, {"within", "holds"}, id="expectation of a node"),
        pytest.param("Of a pod", PodExpectation, {"within", "holds"}, id="expectation of a pod"),
        pytest.param("Of a container", ContainerExpectation, set(), id="expectation of a container"),
        pytest.param("Of a plugin", PluginExpectation, {"within", "holds"}, id="expectation of a plugin"),
    ],
)
def test_every_key_has_a_row(title: str, model: type[BaseModel], elsewhere: set[str]) -> None:
    named = [key for first, *_ in rows(section(title)) for key in quoted(first)]

    assert sorted(named) == sorted(keys_of(model) - elsewhere)
    assert elsewhere <= quoted(section("Expectations"))


def test_tables_of_verbs_and_expectations_are_those_of_the_classes() -> None:
    assert story_reference.page(PAGE) == PAGE, "run: python -m tools.generate.story_reference"


def test_changed_table_is_rewritten_and_the_rest_stays() -> None:
    stale = PAGE.replace("| `apply` |", "| `aply` |").replace("- `skip`: ", "- `skp`: ")

    assert stale != PAGE
    assert story_reference.page(stale) == PAGE


def test_every_verb_has_a_row() -> None:
    verbs = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## Verbs")[2].partition("## Exp")[0], re.MULTILINE)

    assert sorted([*verbs, "expect"]) == sorted(STEP_KEYS)


def test_every_way_to_answer_a_call_is_explained() -> None:
    explained = re.findall(r"^- `(\w+)`: ", section("Calls"), re.MULTILINE)

    assert sorted(explained) == sorted(keys_of(AnswerRpc) - {"plugin", "node"})


def test_every_builtin_is_named() -> None:
    (row,) = [cells for cells in rows(section("A plugin")) if cells[0] == "`builtin`"]

    assert set(re.findall(r"`([\w-]+)`", row[1])) == set(get_args(Builtin))
