"""What stories tell the scriptable plugin, read by the plugin itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from plugin.framework import Device, DeviceID, Health
from plugin.stub import behaviour
from scenarios.story.stub_spec import Looks, OnLostStream, Registers
from scenarios.story.verbs import plugin_action
from scenarios.trace.snapshot import Rpc

SOME = (Device(DeviceID("a")), Device(DeviceID("b"), Health.UNHEALTHY, (1, 2)))


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
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
def test_stub_understands_every_verb(kind: type[Any], given: dict[str, Any], expected: behaviour.Command) -> None:
    action = TypeAdapter(kind).validate_python({"plugin": "p", **given})

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
    ],
)
def test_invalid_command_is_reported(line: str) -> None:
    with pytest.raises(behaviour.CommandError, match="no command of the stub: "):
        behaviour.read_command(line)
