"""What is said of a program that lists no device: by what it has done, is called and has written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scenarios.conform.profile import Profile
from scenarios.conform.unlisted import hint_for, why_unlisted
from scenarios.trace.snapshot import PluginState, PluginView
from scenarios.trace.trace import Event, Trace
from simkubelet.model.events import DriverConnected, PluginDisconnected

NODE = "node-1"
NVML = "E1130 06:50:21.471617       1 factory.go:112] Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND."
IN_CLUSTER = "Error: create client: unable to load in-cluster configuration"
DRIVER = DriverConnected(NODE, "gpu.example.com", "gpu.example.com-reg.sock")
LOST = PluginDisconnected(NODE, "example.com/npu", "rpc error: code = Unknown desc = no id")
USE_A_STORY = "conform checks device plugins: test a driver with a story, as docs/dra.md shows"


def why(*events: Event, registrations: int = 0, log: str = "", command: str = "./plugin") -> str:
    trace = Trace()
    for event in events:
        trace.append(event)
    view = PluginView("plugin", NODE, PluginState.RUNNING, 0, registrations)
    return why_unlisted((command, "-v=5"), Profile(), view, trace, log, 30.0)


def test_driver_that_a_kubelet_knows_is_named() -> None:
    assert why(DRIVER, registrations=1) == f"the program is the DRA driver gpu.example.com; {USE_A_STORY}"


@pytest.mark.parametrize(
    ("program", "log"),
    [
        ("/bin/dra-example-kubeletplugin", IN_CLUSTER),
        ("gpu-kubelet-plugin", ""),
        ("kubelet-gpu-plugin", ""),
        ("k8s-gpu-dra-driver", ""),
        ("dranet", ""),
        ("./driver", "cannot list resourceslices.resource.k8s.io"),
        ("./driver", "Starting DRA controller"),
    ],
)
def test_program_that_may_be_a_driver_is_asked_about(program: str, log: str) -> None:
    assert hint_for((program,), Profile(), Trace(), log) == f"is it a DRA driver?; {USE_A_STORY}"


@pytest.mark.parametrize(
    ("program", "log", "hardware"),
    [
        ("./plugin", NVML, "gpus: {profile: t4, count: 2}"),
        ("nvidia-device-plugin", "No devices found. Waiting indefinitely.", "gpus: {profile: t4, count: 2}"),
        ("./plugin", "No such file: /sys/class/kfd", "amd: {profile: mi300x, count: 2}"),
    ],
)
def test_plugin_that_misses_its_hardware_has_the_profile_that_brings_it(program: str, log: str, hardware: str) -> None:
    assert why(log=log, command=program) == (
        f'the plugin has not registered within 30 s; its log says: "{log}"; '
        f"no GPUs? --profile FILE gives the node some; in the file: {hardware}"
    )


@pytest.mark.parametrize(
    ("profile", "log"),
    [({"gpus": {"profile": "t4", "count": 1}}, NVML), ({}, "dragged along"), ({}, "drain the node")],
)
def test_nothing_is_guessed_where_nothing_says_so(profile: Mapping[str, Any], log: str) -> None:
    assert hint_for(("./plugin",), Profile.model_validate(profile), Trace(), log) == ""


def test_stream_that_ends_has_its_grpc_text() -> None:
    assert why(LOST, registrations=1) == (
        "the plugin registers, but its ListAndWatch ends before it lists a device: "
        "rpc error: code = Unknown desc = no id"
    )


def test_plugin_without_a_device_has_its_log_quoted() -> None:
    assert why(registrations=1, log="no seats") == (
        'the plugin registers, but lists no device within 30 s; its log says: "no seats"; which devices does it need? '
        "see --profile (gpus, files)"
    )
