"""Who calls whom in the C sources: ``core`` calls nothing above it, ``control`` nothing of ``nvml``, and no circle.

A unit is a C file with its header, ``core/live``. Its arrows go to the units that define the functions, variables,
macros and types which it mentions, and to those whose headers it includes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.support.nvml_calls import NATIVE, generator

LAYERS = ("core", "control", "nvml")

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^#include "(\w+/\w+)\.h"', re.MULTILINE)
_WORD = re.compile(r"\b(?:fg_|FG_|fakegpu_|nvml)\w+")
_DEFINITIONS = (
    re.compile(r"^(?!static (?!inline))\w[^\n;=#(]*[ *](\w+)\([^;{}]*\)\n\{", re.MULTILINE),  # a function
    re.compile(r"^(?!static|extern|typedef|struct \w+;)\w[\w *]*[ *](\w+)(?:\[\w+\])*(?: = [^;]*)?;", re.MULTILINE),
)
_DEFINITIONS_IN_HEADERS = (
    re.compile(r"^typedef [^;]* (\w+);", re.MULTILINE),
    re.compile(r"^struct (\w+) \{", re.MULTILINE),
    re.compile(r"^#define (\w+)", re.MULTILINE),
    re.compile(r"^    (FG_\w+)(?: = \w+)?,|^enum \{ (FG_\w+)", re.MULTILINE),  # an enumerator
)


def arrows(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return unit -> the other units that it uses, from path -> text of the sources."""
    texts = {path: _COMMENT.sub("", text) for path, text in sources.items()}
    implemented = generator().implemented_functions
    owner = {name: _unit(path) for path, text in texts.items() for name in _defined(path, text) | implemented([text])}
    graph: dict[str, set[str]] = defaultdict(set)
    for path, text in texts.items():
        graph[_unit(path)] |= {owner[word] for word in _WORD.findall(text) if word in owner}
        graph[_unit(path)] |= set(_INCLUDE.findall(text))
    return {unit: used - {unit} for unit, used in graph.items()}


def _unit(path: str) -> str:
    return path.rpartition(".")[0]


def _defined(path: str, text: str) -> set[str]:
    patterns = (*_DEFINITIONS, *_DEFINITIONS_IN_HEADERS) if path.endswith(".h") else _DEFINITIONS
    return {match[match.lastindex or 0] for pattern in patterns for match in pattern.finditer(text)}


def upward(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the arrows from a lower layer to a higher one, as "core/live -> nvml/api"."""
    level = {unit: LAYERS.index(unit.partition("/")[0]) for unit in graph}
    return sorted(f"{unit} -> {used}" for unit in graph for used in graph[unit] if level[used] > level[unit])


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the units of one circle, empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    return arrows({str(path.relative_to(NATIVE)): path.read_text() for path in NATIVE.glob("*/*.[ch]")})


def test_every_unit_is_in_a_layer(graph: dict[str, set[str]]) -> None:
    assert {unit.partition("/")[0] for unit in graph} == set(LAYERS)


def test_no_call_goes_up(graph: dict[str, set[str]]) -> None:
    assert upward(graph) == []


def test_no_units_call_in_a_circle(graph: dict[str, set[str]]) -> None:
    assert circle(graph) == []


@pytest.mark.parametrize(
    ("unit", "used"),
    [
        pytest.param("nvml/events", "control/plans", id="function"),
        pytest.param("nvml/topology", "core/live", id="macro"),
        pytest.param("nvml/events", "nvml/api", id="variable"),
        pytest.param("nvml/export_table", "nvml/power", id="function of NVML"),
        pytest.param("core/alive", "core/state_io", id="inline function"),
        pytest.param("control/rules", "core/segment", id="struct"),
    ],
)
def test_arrows_of_the_sources_are_seen(graph: dict[str, set[str]], unit: str, used: str) -> None:
    assert used in graph[unit]


@pytest.mark.parametrize(
    ("lower", "file", "higher"),
    [
        pytest.param("int a(void)\n{\n    return fg_top();\n}\n", "high.c", "int fg_top(void)\n{\n}\n", id="call"),
        pytest.param("int a = FG_TOP;\n", "high.h", "#define FG_TOP 1\n", id="macro"),
        pytest.param("int a = FG_TOP;\n", "high.h", "enum fg_kind {\n    FG_TOP = 1,\n};\n", id="enumerator"),
        pytest.param("static struct fg_top *a;\n", "high.h", "struct fg_top {\n    int x;\n};\n", id="struct"),
        pytest.param("int *a = &fg_top;\n", "high.c", "int fg_top = 1;\n", id="variable"),
        pytest.param("int a = nvmlInit();\n", "high.c", "FG_API nvmlInit(void)\n{\n}\n", id="function of NVML"),
        pytest.param('#include "nvml/high.h"\n', "high.h", "", id="include"),
    ],
)
def test_made_up_upward_arrow_is_found(lower: str, file: str, higher: str) -> None:
    graph = arrows({"core/low.c": lower, f"nvml/{file}": higher})

    assert upward(graph) == ["core/low -> nvml/high"]
    assert circle(graph) == []


def test_made_up_circle_is_found() -> None:
    graph = arrows(
        {
            "core/one.h": "void fg_one(void);\n",
            "core/one.c": "void fg_one(void)\n{\n    fg_two();\n}\n",
            "core/two.c": "void fg_two(void)\n{\n    fg_three();\n}\n",
            "core/three.c": "void fg_three(void)\n{\n    /* not fg_four */ fg_one();\n}\n",
            "core/four.c": "void fg_four(void)\n{\n    fg_one();\n}\n",
        }
    )

    assert set(circle(graph)) == {"core/one", "core/two", "core/three"}
    assert upward(graph) == []


def test_header_that_declares_anothers_function_makes_a_circle() -> None:
    graph = arrows(
        {
            "nvml/one.h": "void fg_two(void);\n",
            "nvml/two.c": '#include "nvml/one.h"\nvoid fg_two(void)\n{\n}\n',
        }
    )

    assert set(circle(graph)) == {"nvml/one", "nvml/two"}
