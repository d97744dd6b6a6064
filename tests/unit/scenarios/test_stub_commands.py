"""What stories tell the scriptable plugin, read by the plugin itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from plugin.framework import Device, DeviceID, Health
from plugin.stub import behaviour
from scenarios.story.stub_spec import Looks, OnLostStream, Registers
from scenarios.story.verbs import plugin_action
from scenarios.trace.snapshot import Rpc
from simkubelet.apis import deviceplugin as api

SOME = (Device(DeviceID("a")), Device(DeviceID("b"), Health.UNHEALTHY, (1, 2)))


@pytest.mark.parametrize(
    ("kind", "keys", "expected"),
    [
        pytest.param(plugin_action.RegisterPlugin, {}, behaviour.Register(), id="register"),
        pytest.param(
            plugin_action.RegisterPlugin,
            {"resource": "x.y/z", "endpoint": "e.sock", "version": "v1", "service": "a.B", "times": 2},
            behaviour.Register("x.y/z", "e.sock", "v1", "a.B", 2),
            id="register as another",
        ),
        pytest.param(
            plugin_action.ListDevices,
            {"devices": ["a", {"id": "b", "health": "Unhealthy", "numa": [1, 2]}]},
            behaviour.ListDevices(SOME),
            id="list",
        ),
        pytest.param(
            plugin_action.AnswerRpc,
            {"rpc": "Allocate"},
            behaviour.AnswerWith(behaviour.Rpc.ALLOCATE, behaviour.Answer()),
            id="as usual",
        ),
        pytest.param(
            plugin_action.AnswerRpc,
            {"rpc": "ListAndWatch", "error": "no", "after": "200ms", "devices": ["a"], "skip": 2, "times": 3},
            behaviour.AnswerWith(
                behaviour.Rpc.LIST, behaviour.Answer(error="no", after_s=0.2, devices=SOME[:1], skip=2, times=3)
            ),
            id="list, wait, refuse",
        ),
        pytest.param(
            plugin_action.AnswerRpc,
            {"rpc": "Allocate", "empty": True},
            behaviour.AnswerWith(behaviour.Rpc.ALLOCATE, behaviour.Answer(is_empty=True)),
            id="empty",
        ),
        pytest.param(
            plugin_action.AnswerRpc,
            {"rpc": "Allocate", "never": True},
            behaviour.AnswerWith(behaviour.Rpc.ALLOCATE, behaviour.Answer(is_never=True)),
            id="never",
        ),
        pytest.param(
            plugin_action.AnswerRpc,
            {"rpc": "Allocate", "crash": True},
            behaviour.AnswerWith(behaviour.Rpc.ALLOCATE, behaviour.Answer(is_crash=True)),
            id="crash",
        ),
        pytest.param(plugin_action.EndStream, {}, behaviour.EndStream(), id="end stream"),
        pytest.param(plugin_action.StopServer, {}, behaviour.StopServer(), id="stop server"),
    ],
)
def test_stub_understands_every_verb(kind: type[Any], keys: dict[str, Any], expected: behaviour.Command) -> None:
    action = TypeAdapter(kind).validate_python({"plugin": "p", **keys})

    assert behaviour.read_command(json.dumps(action.command)) == expected


def test_both_sides_know_the_same_calls_and_manners() -> None:
    assert [rpc.value for rpc in Rpc if rpc is not Rpc.REGISTER] == [rpc.value for rpc in behaviour.Rpc]
    assert [manner.value for manner in Registers] == [manner.value for manner in behaviour.Registers]
    assert [manner.value for manner in OnLostStream] == [manner.value for manner in behaviour.OnLostStream]
    assert [manner.value for manner in Looks] == [manner.value for manner in behaviour.Looks]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("list", id="no JSON"),
        pytest.param("[]", id="no object"),
        pytest.param("{}", id="no command"),
        pytest.param('{"command": "dance"}', id="unknown"),
        pytest.param('{"command": "list"}', id="no devices"),
        pytest.param('{"command": "list", "devices": [{"health": "Healthy"}]}', id="no id"),
        pytest.param('{"command": "list", "devices": [{"id": "a", "health": "ill"}]}', id="unknown health"),
        pytest.param('{"command": "answer", "rpc": "Alocate"}', id="unknown call"),
        pytest.param('{"command": "register", "resorce": "x"}', id="unknown key"),
        pytest.param('{"command": "register", "endpoint": 1.5}', id="number as endpoint"),
        pytest.param('{"command": "register", "version": "\\ud800"}', id="half a character"),
        pytest.param('{"command": "register", "service": "a b"}', id="no service"),
        pytest.param('{"command": "register", "times": "x"}', id="text as number"),
        pytest.param('{"command": "register", "times": true}', id="truth as number"),
        pytest.param('{"command": "list", "devices": [{"id": "a", "numa": [9223372036854775808]}]}', id="large node"),
        pytest.param('{"command": "list", "devices": [{"id": 1}]}', id="number as id"),
        pytest.param('{"command": "list", "devices": [{"id": "a", "code": 5}]}', id="unknown key of a device"),
        pytest.param('{"command": "answer", "rpc": [], "skip": 1}', id="list as call"),
        pytest.param('{"command": "answer", "rpc": "Allocate", "skip": -1}', id="negative skip"),
        pytest.param('{"command": "answer", "rpc": "Allocate", "after_s": NaN}', id="no time"),
        pytest.param('{"command": "answer", "rpc": "Allocate", "after_s": 1e999}', id="endless time"),
        pytest.param('{"command": "answer", "rpc": "Allocate", "empty": "no"}', id="text as truth"),
        pytest.param('{"command": "answer", "rpc": "Allocate", "code": 5}', id="unknown key of an answer"),
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_invalid_command_is_reported(line: str) -> None:
    with pytest.raises(behaviour.CommandError, match="no command of the stub: "):
        behaviour.read_command(line)


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
_RPCS = st.sampled_from([rpc.value for rpc in behaviour.Rpc]) | _ANY
_DEVICES = st.lists(st.dictionaries(st.sampled_from(["id", "health", "numa"]), _ANY, max_size=3), max_size=2) | _ANY
_COMMANDS = st.fixed_dictionaries(
    {"command": st.sampled_from(["register", "list", "answer", "endStream", "stopServer"]) | _ANY},
    optional={
        **dict.fromkeys(("resource", "endpoint", "version", "service", "times"), _ANY),
        **dict.fromkeys(("error", "empty", "never", "crash", "after_s", "skip"), _ANY),
        "rpc": _RPCS,
        "devices": _DEVICES,
    },
)


@given(_COMMANDS | _ANY)
def test_any_command_is_read_or_refused(command: object) -> None:
    try:
        read = behaviour.read_command(json.dumps(command))
    except behaviour.CommandError as error:
        json.dumps(str(error))
        return
    match read:
        case behaviour.Register():
            api.RegisterRequest(
                version=read.version, endpoint=read.endpoint or "", resource_name=read.resource or ""
            ).SerializeToString()
            assert range(read.times)
        case behaviour.ListDevices(devices):
            assert api.ListAndWatchResponse(devices=[device.to_message() for device in devices]) is not None
        case behaviour.AnswerWith(_, answer):
            assert 0 <= answer.after_s < float("inf")
            assert answer.skip >= 0
