"""Every command of the line protocol: what it answers, and that no line whatever ends the program."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkubelet.stdio.__main__ import COMMANDS
from tests.support.kubelet_sides import LineProgram
from tests.support.node import FakePlugin
from tests.support.oracle import OracleProcess
from tests.support.protocol import DEVICES, EXAMPLES, WITH_PLUGIN, WITHOUT_PLUGIN, Example

COMMAND = [sys.executable, "-m", "simkubelet.stdio"]

json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.integers(10**30, 10**31),
        st.floats(-3, 3),
        st.text(max_size=4),
        st.sampled_from(["u1", "c", "example.com/stub", "\ud800", "\0", "none", "list"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["name", "limits", "pod_uid", "container", "a/b", "example.com/stub"]), inner),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineProgram]:
    program = LineProgram([*COMMAND, "--dir", str(tmp_path_factory.mktemp("dp"))])
    yield program
    program.end()


def test_examples_name_every_command_and_every_field():
    taken: dict[str, set[str]] = {}
    for example in EXAMPLES:
        taken.setdefault(example.cmd, set()).update(example.fields)

    assert taken == {name: set(command.takes) for name, command in COMMANDS.items()}


async def test_every_command_answers_with_its_fields(tmp_path: Path):
    plugin = FakePlugin(tmp_path)
    plugin.list(DEVICES)
    async with OracleProcess(COMMAND, tmp_path) as kubelet:
        for example in WITHOUT_PLUGIN:
            await check(kubelet, example)
        await plugin.serve()
        try:
            await plugin.register()
            for example in WITH_PLUGIN:
                await check(kubelet, example)
        finally:
            await plugin.stop()


async def check(kubelet: OracleProcess, example: Example) -> None:
    answer = await kubelet.ask(cmd=example.cmd, **example.fields)
    assert answer["ok"] is not example.fails, answer
    assert set(answer) == {"cmd", "ok", "us", "t", *example.answered}, example.cmd


def needed_fields() -> list[Any]:
    return [pytest.param(e.cmd, f, id=f"{e.cmd}-{f}") for e in EXAMPLES for f in e.needed]


def all_fields() -> list[Any]:
    pairs = dict.fromkeys((e.cmd, f) for e in EXAMPLES for f in e.fields)
    return [pytest.param(*pair, id="-".join(pair)) for pair in pairs]


def example_of(cmd: str, field: str) -> Example:
    return next(example for example in EXAMPLES if example.cmd == cmd and field in example.fields)


@pytest.mark.parametrize(("cmd", "field"), needed_fields())
def test_field_that_is_missing_is_named(running: LineProgram, cmd: str, field: str):
    fields = {key: value for key, value in example_of(cmd, field).fields.items() if key != field}

    answer = running.ask(cmd, **fields)

    assert not answer["ok"]
    assert answer["error"].startswith(f"{field}: missing; give ")


@pytest.mark.parametrize(("cmd", "field"), all_fields())
def test_field_of_another_type_is_named(running: LineProgram, cmd: str, field: str):
    fields = example_of(cmd, field).fields
    wrong: Any = "seven" if isinstance(fields[field], int | float | list | dict) else 7.5

    answer = running.ask(cmd, **{**fields, field: wrong})

    assert not answer["ok"]
    assert answer["error"].startswith(f"{field}: {json.dumps(wrong)} is not ")


@pytest.fixture
def running(adapter: LineProgram) -> LineProgram:
    """The adapter with a manager that runs and a pod that asks for what nobody offers."""
    adapter.ask("restart", sources_ready=True, running=[], numa=[0], topology_policy="none")
    adapter.ask("add_pod", uid="u1", containers=[{"name": "c", "limits": {}}])
    return adapter


@pytest.mark.parametrize("cmd", sorted(COMMANDS))
def test_field_that_a_command_does_not_take_is_named(running: LineProgram, cmd: str):
    answer = running.ask(cmd, **{"no-such-field": 1})

    assert not answer["ok"]
    assert answer["error"].startswith(f"no-such-field: no field of {cmd}, which takes ")


@pytest.mark.parametrize("cmd", [name for name, command in COMMANDS.items() if command.needs_manager])
def test_command_that_needs_a_manager_says_so(adapter: LineProgram, cmd: str):
    adapter.ask("restart", sources_ready=True)
    adapter.ask("stop")

    answer = adapter.ask(cmd)

    assert (answer["ok"], answer["error"]) == (False, "no manager runs: start it first")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        pytest.param(b"start", "the line is no JSON: ", id="no JSON"),
        pytest.param(b'{"cmd": "start"', "the line is no JSON: ", id="cut off"),
        pytest.param(b"\xff\xfe", "the line is no JSON: ", id="no UTF-8"),
        pytest.param(b"[" * 100_000, "the line is no JSON: ", id="too deep"),
        pytest.param(b"1" * 10_000, "the line is no JSON: ", id="too long a number"),
        pytest.param(b'{"cmd": "now", "x": NaN}', "the line is no JSON: NaN is no number", id="NaN"),
        pytest.param(
            b'{"cmd": "write_checkpoint", "text": "\\ud800"}',
            "the line is no JSON: a text holds half a surrogate pair",
            id="half a surrogate pair",
        ),
        pytest.param(
            b'{"cmd": "topology", "numa": [0, 64]}', "numa[1]: 64 is no NUMA node; give 0 to 63", id="no NUMA node"
        ),
        pytest.param(
            b'{"cmd": "set_affinity", "pod": "u1", "container": "c", "nodes": [-1]}',
            "nodes[0]: -1 is no NUMA node; give 0 to 63",
            id="a NUMA node below 0",
        ),
        pytest.param(
            b'{"cmd": "await", "name": "x", "timeout_ms": %d}' % 2**64,
            "timeout_ms: the number is too large",
            id="too large a number",
        ),
        pytest.param(b'["start"]', "the line is no JSON object", id="a list"),
        pytest.param(b"null", "the line is no JSON object", id="null"),
        pytest.param(b"{}", "cmd: missing; give a text", id="no command"),
        pytest.param(b'{"cmd": 1}', "cmd: 1 is not a text", id="a number for a command"),
        pytest.param(b'{"cmd": "begin"}', "cmd: no command 'begin'; see --help", id="unknown command"),
        pytest.param(b'{"cmd": "now", "async": 1}', "async: 1 is not a text", id="a number for a name"),
        pytest.param(b'{"cmd": "await"}', "name: missing; give a text", id="await without a name"),
        pytest.param(b'{"cmd": "await", "name": "x"}', "name: no command runs under the name 'x'", id="await nothing"),
        pytest.param(b'{"cmd": "remove_pod", "pod": "x"}', "pod: no pod 'x'; add it first with add_pod", id="no pod"),
        pytest.param(
            b'{"cmd": "set_gate", "name": "X", "value": true}', "unrecognized feature gate: X", id="unknown gate"
        ),
    ],
)
def test_line_that_cannot_be_used_is_answered_with_why(adapter: LineProgram, line: bytes, error: str):
    adapter.tell_line(line)

    answer = adapter.hear()

    assert not answer["ok"]
    assert answer["error"].startswith(error)
    assert adapter.ask("now")["ok"]


def test_empty_lines_are_passed_over(adapter: LineProgram):
    adapter.tell_line(b"")
    adapter.tell_line(b"  ")

    assert adapter.ask("now")["cmd"] == "now"


@st.composite
def commands(draw: st.DrawFn) -> dict[str, Any]:
    """A command with fields that are right, wrong or missing."""
    example = draw(st.sampled_from(EXAMPLES))
    fields = {
        name: draw(st.one_of(st.just(value), json_values))
        for name, value in example.fields.items()
        if draw(st.integers(0, 9))
    }
    if "timeout_ms" in fields:
        fields["timeout_ms"] = draw(st.sampled_from([0, 1, -1, "1", None, True]))
    return {"cmd": example.cmd, **fields}


@settings(max_examples=300)
@given(told=st.lists(commands(), max_size=8))
def test_no_command_ends_the_program(adapter: LineProgram, told: list[dict[str, Any]]):
    for command in told:
        answer = adapter.ask(**command)

        assert isinstance(answer["ok"], bool)
        assert answer["ok"] or answer["error"]
        assert answer["cmd"] in (command["cmd"], "")
