"""NVIDIA's plugin and ours under the same flags, variables and files: what they serve, log and end with."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from fakegpu import Machine
from tests.support.nvidia_sides import NvidiaNode, SidePlugin, assert_same_end

pytestmark = pytest.mark.nvidia_go

_SHARED = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Two GPUs that can be partitioned."""
    return Machine.create(tmp_path / "machine", "h100-80gb", 2, seed="settings")


def _config(plugin: SidePlugin) -> Any:
    """The settings as the plugin logged them last."""
    text = plugin.logged("Running with config:").rpartition("Running with config:")[2]
    return json.JSONDecoder().raw_decode(text.lstrip())[0]


@pytest.mark.parametrize(
    ("args", "variables"),
    [
        pytest.param([], {}, id="defaults"),
        pytest.param(["--device-list-strategy=envvar,volume-mounts"], {}, id="list in one flag"),
        pytest.param(
            ["--device-list-strategy=envvar", "--device-list-strategy", " volume-mounts "], {}, id="list in two flags"
        ),
        pytest.param(
            ["--device-list-strategy=envvar"], {"DEVICE_LIST_STRATEGY": "volume-mounts"}, id="flag beats variable"
        ),
        pytest.param([], {"DEVICE_LIST_STRATEGY": "volume-mounts, envvar"}, id="list in a variable"),
        pytest.param(
            ["--nvidia-driver-root=/run/a", "--nvidia-dev-root=/run/b", "--container-driver-root=/run/c"],
            {},
            id="aliases",
        ),
        pytest.param(["--driver-root=/run/nvidia/driver"], {}, id="dev root follows driver root"),
        pytest.param(
            [], {"NVIDIA_CTK_PATH": "/a", "NVIDIA_CDI_HOOK_PATH": "/b"}, id="first of two variables of one flag"
        ),
        pytest.param([], {"CONTAINER_DRIVER_ROOT": "/a", "DRIVER_ROOT_CTR_PATH": ""}, id="first of two is empty"),
        pytest.param([], {"GDS_ENABLED": "", "MOFED_ENABLED": "F", "GDRCOPY_ENABLED": "0"}, id="truth values"),
        pytest.param(["--gds-enabled=false", "--pass-device-specs"], {"GDS_ENABLED": "true"}, id="flag without value"),
        pytest.param(["--imex-channel-ids=0x0"], {"IMEX_REQUIRED": "false"}, id="channel in a flag"),
        pytest.param([], {"IMEX_CHANNEL_IDS": ""}, id="no channel in a variable"),
        pytest.param(["--mig-strategy=single"], {}, id="single"),
        pytest.param(["--mig-strategy=mixed"], {}, id="mixed"),
    ],
)
def test_flags_and_variables_come_to_the_same_settings(
    nvidia_plugin: str, machine: Machine, args: list[str], variables: dict[str, str]
) -> None:
    with NvidiaNode(machine) as node:
        ours, theirs = (_config(plugin) for plugin in node.both(nvidia_plugin, *args, **variables))

    assert ours == theirs


@pytest.mark.parametrize(
    ("config", "args", "variables"),
    [
        pytest.param("", [], {}, id="empty"),
        pytest.param("flags: {gdsEnabled: false, migStrategy: mixed}", [], {}, id="beats the default"),
        pytest.param("flags: {gdsEnabled: false}", [], {"GDS_ENABLED": "true"}, id="is beaten by a variable"),
        pytest.param("flags: {migStrategy: mixed}", ["--mig-strategy=single"], {}, id="is beaten by a flag"),
        pytest.param('{"flags":\n\t{"plugin": {"passDeviceSpecs": true}}}', [], {}, id="json"),
        pytest.param(
            "flags: {plugin: {deviceListStrategy: volume-mounts}, useNodeFeatureAPI: no}", [], {}, id="one strategy"
        ),
        pytest.param("flags: {plugin: {deviceListStrategy: []}, unknown: {a: b}}", [], {}, id="no strategy"),
        pytest.param("Flags: {MIGSTRATEGY: single, nvidiaDriverRoot: /run/x}", [], {}, id="keys in any case"),
        pytest.param(_SHARED, [], {}, id="time-slicing"),
        pytest.param(
            "sharing: {timeSlicing: {renameByDefault: true, failRequestsGreaterThanOne: true,"
            " resources: [{name: gpu, replicas: 2, rename: other, devices: [0, '1:1']}]}}",
            [],
            {},
            id="names and devices do not count",
        ),
        pytest.param(
            "sharing: {mps: {resources: [{name: gpu, replicas: 3}]},"
            " timeSlicing: {resources: [{name: x, replicas: 2}]}}",
            ["--mps-root=/mps"],
            {},
            id="mps",
        ),
        pytest.param("resources: {gpus: [{pattern: x, name: foo}]}", [], {}, id="resources do not count"),
        pytest.param("imex: {channelIDs: [0], required: false}", [], {}, id="imex"),
    ],
)
def test_file_comes_to_the_same_settings_and_warnings(
    nvidia_plugin: str, machine: Machine, config: str, args: list[str], variables: dict[str, str]
) -> None:
    with NvidiaNode(machine) as node:
        seen = [
            (
                _config(plugin),
                [line.partition("] ")[2] for line in plugin.log.splitlines() if "not yet supported" in line],
            )
            for plugin in node.both(nvidia_plugin, *args, config=config, **variables)
        ]

    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("args", "variables"),
    [
        pytest.param(["--mig-strategy=x"], {}, id="mig strategy"),
        pytest.param([], {"MIG_STRATEGY": ""}, id="empty mig strategy"),
        pytest.param(["--device-list-strategy=envvar,foo"], {}, id="list strategy"),
        pytest.param([], {"DEVICE_LIST_STRATEGY": ""}, id="empty list strategy"),
        pytest.param(["--device-id-strategy=x"], {}, id="id strategy"),
        pytest.param(["--device-discovery-strategy=x"], {}, id="discovery strategy"),
        pytest.param(["--device-id-strategy=x", "--mig-strategy=x"], {}, id="two at once"),
        pytest.param(["--imex-channel-ids=0,1"], {}, id="two channels"),
        pytest.param([], {"IMEX_CHANNEL_IDS": "7"}, id="another channel"),
        pytest.param(["--imex-channel-ids=0", "--imex-required"], {}, id="missing channel"),
    ],
)
def test_wrong_flag_ends_both_with_the_same_words(
    nvidia_plugin: str, machine: Machine, args: list[str], variables: dict[str, str]
) -> None:
    with NvidiaNode(machine) as node:
        assert_same_end(node, nvidia_plugin, *args, **variables)


@pytest.mark.parametrize(
    "config",
    [
        "version: v2",
        "version: [v1]",
        "[]",
        "flags: 3",
        "flags: {migStrategy: 1}",
        "flags: {failOnInitError: maybe}",
        "flags: {plugin: {passDeviceSpecs: x}}",
        "flags: {plugin: {deviceListStrategy: [1, 2]}}",
        "flags: {gfd: {oneshot: 3}}",
        "sharing: {timeSlicing: {}}",
        "sharing: {timeSlicing: 3}",
        "sharing: {mps: {resources: [3]}}",
        "sharing: {timeSlicing: {resources: [{replicas: 2}]}}",
        "sharing: {timeSlicing: {resources: [{name: gpu}]}}",
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}",
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2.5}]}}",
        "sharing: {timeSlicing: {resources: [{name: Foo, replicas: 2}]}}",
        "sharing: {timeSlicing: {resources: [{name: a/b, replicas: 2}]}}",
        f"sharing: {{timeSlicing: {{resources: [{{name: {'a' * 53}, replicas: 2}}]}}}}",
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: some}]}}",
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: 0}]}}",
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: [x]}]}}",
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: {a: 1}}]}}",
        "resources: {gpus: [{pattern: x}]}",
        "imex: {channelIDs: ['0']}",
        "imex: {channelIDs: [0, 0]}",
        "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}",
        "{sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}, flags: {migStrategy: mixed}}",
    ],
)
def test_wrong_file_ends_both_with_the_same_words(nvidia_plugin: str, machine: Machine, config: str) -> None:
    with NvidiaNode(machine) as node:
        assert_same_end(node, nvidia_plugin, config=config)


@pytest.mark.parametrize("config", ["a: b: c", "\ta: b", "a: [", "- a\nb: c", "flags:\n  migStrategy: foo\n bar: x"])
def test_invalid_yaml_ends_both(nvidia_plugin: str, machine: Machine, config: str) -> None:
    """The text after ``yaml:`` is each YAML library's own."""
    with NvidiaNode(machine) as node:
        ends = [
            (plugin.exit_status(), plugin.last_words.partition("yaml:")[:2])
            for plugin in node.both(nvidia_plugin, config=config)
        ]

    assert ends[0] == ends[1]
    assert ends[0][0] == 1
    assert ends[0][1][1]


def test_missing_file_ends_both_with_the_same_words(nvidia_plugin: str, machine: Machine) -> None:
    with NvidiaNode(machine) as node:
        assert_same_end(node, nvidia_plugin, "--config-file=/nowhere/config.yaml")


@pytest.mark.parametrize(
    "args",
    [
        pytest.param([], id="auto"),
        pytest.param(["--device-discovery-strategy=nvml"], id="nvml"),
        pytest.param(["--device-list-strategy=cdi-cri", "--fail-on-init-error=false"], id="cdi"),
        pytest.param(["--mig-strategy=mixed"], id="mixed"),
    ],
)
def test_node_without_driver_ends_both_with_the_same_words(nvidia_plugin: str, args: list[str]) -> None:
    with NvidiaNode(None) as node:
        assert_same_end(node, nvidia_plugin, *args)


def test_driver_that_is_not_loaded_ends_both_with_the_same_words(nvidia_plugin: str, machine: Machine) -> None:
    machine.faults.fail_init("DRIVER_NOT_LOADED")
    with NvidiaNode(machine) as node:
        assert_same_end(node, nvidia_plugin)
        assert_same_end(node, nvidia_plugin, "--mig-strategy=mixed")


def test_hangup_reads_the_file_again(nvidia_plugin: str, machine: Machine) -> None:
    with NvidiaNode(machine) as node:
        for plugin in node.both(nvidia_plugin, config=_SHARED):
            plugin.registered()
            assert len(plugin.list_and_watch().next()) == 4
            plugin.config_file.write_text(_SHARED.replace("replicas: 2", "replicas: 3"))
            plugin.signal(signal.SIGHUP)
            plugin.registered(2)
            assert len(plugin.list_and_watch().next()) == 6


def test_file_that_broke_meanwhile_ends_the_plugin_at_the_next_start(nvidia_plugin: str, machine: Machine) -> None:
    with NvidiaNode(machine) as node:
        ends = []
        for plugin in node.both(nvidia_plugin, config=_SHARED):
            plugin.registered()
            plugin.config_file.write_text("version: v9")
            plugin.restart_kubelet()
            ends.append((plugin.exit_status(), plugin.last_words))

    assert ends[0] == ends[1]
    assert ends[0][0] == 1


def test_empty_kubelet_socket_skips_the_registration(nvidia_plugin: str, machine: Machine) -> None:
    with NvidiaNode(machine) as node:
        for plugin in node.both(nvidia_plugin, KUBELET_SOCKET=""):
            plugin.logged("Skipping registration with Kubelet")
            assert len(plugin.list_and_watch().next()) == 2
