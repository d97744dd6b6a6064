"""Failures of a GPU, seen by both plugins at once: they list the same devices as unhealthy.

Fed in: faults of one machine that both watch, by environment and sharing; observed: the lists that come. Where the
original leaves it to chance which device fails, their number counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from fakegpu import Machine
from tests.support.nvidia_sides import ListStream, NvidiaNode, SidePlugin

pytestmark = pytest.mark.nvidia_go

GPU: Final = "nvidia.com/gpu"
SENTINEL: Final = 79
"""An XID of the last GPU that every policy of these tests handles: when it is reported, so is all before it."""
SHARED: Final = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3}]}}\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine.create(tmp_path / "machine", "h100-80gb", 4, seed="health")


@pytest.fixture
def node(machine: Machine) -> Iterator[NvidiaNode]:
    with NvidiaNode(machine) as made:
        yield made


def watched(plugin: SidePlugin, resource: str = GPU, resources: int = 1) -> ListStream:
    """The plugin's lists, once it has subscribed to events and all devices are healthy."""
    plugin.registered(resources)
    stream = plugin.list_and_watch(resource)
    assert stream.until_unhealthy(0) == set()
    if not plugin.is_ours:
        plugin.logged("Ignoring the following XIDs for health checks")
    return stream


def test_machine_is_seen_the_same(node: NvidiaNode, nvidia_plugin: str) -> None:
    ours, theirs = ((plugin.registered(), plugin.list_and_watch().next()) for plugin in node.both(nvidia_plugin))

    assert ours == theirs


@pytest.mark.parametrize(
    ("disable", "enable"),
    [
        pytest.param(None, None, id="unset"),
        pytest.param("", "", id="empty"),
        pytest.param("48, 62,x,-63,,1e3", "13,31 ,y", id="lists with nonsense"),
        pytest.param("48", "48", id="one in both lists"),
        pytest.param("62", "ALL", id="all enabled"),
        pytest.param("all", "all", id="all in both lists"),
        pytest.param("48", "0", id="zero enabled"),
        pytest.param("99999999999999999999", "", id="too large a number"),
    ],
)
def test_same_xids_are_ignored(
    machine: Machine, node: NvidiaNode, nvidia_plugin: str, disable: str | None, enable: str | None
) -> None:
    lists = {"DP_DISABLE_HEALTHCHECKS": disable, "DP_ENABLE_HEALTHCHECKS": enable}
    variables = {name: value for name, value in lists.items() if value is not None}
    streams = [watched(plugin) for plugin in node.both(nvidia_plugin, **variables)]
    seen: list[list[bool]] = [[], []]

    for xid in (13, 31, 43, 45, 48, 62, 63, 68, 109, 1000):
        machine.fail(0, xid=xid)
        machine.fail(3, xid=SENTINEL)
        for side, stream in enumerate(streams):
            told = stream.next()
            is_looked_at = sum(device["health"] == "Unhealthy" for device in told) == 2
            # From the first on that is looked at, each one comes with a list of its own before the sentinel's.
            seen[side].append(is_looked_at)
            if is_looked_at:
                stream.next()
        if is_looked_at:
            break

    assert seen[0] == seen[1]


@pytest.mark.parametrize("disable", ["all", "48,XIDS", "0"])
def test_no_xid_counts_where_all_are_disabled(
    node: NvidiaNode, machine: Machine, nvidia_plugin: str, disable: str
) -> None:
    plugins = list(node.both(nvidia_plugin, DP_DISABLE_HEALTHCHECKS=disable, DP_ENABLE_HEALTHCHECKS="48"))
    for plugin in plugins:
        plugin.registered()
    streams = [plugin.list_and_watch() for plugin in plugins]
    for stream in streams:
        assert stream.until_unhealthy(0) == set()

    machine.fail(0, xid=48)

    # A watcher of it is notified within a few milliseconds, so it is the clock here.
    watcher = watched(node.ours())
    machine.fail(1, xid=48)
    watcher.until_unhealthy(1)
    assert [stream.lists_so_far() for stream in streams] == [[], []]


def test_lost_gpu_without_an_xid_fails_all(node: NvidiaNode, machine: Machine, nvidia_plugin: str) -> None:
    streams = [watched(plugin) for plugin in node.both(nvidia_plugin)]

    machine.fail(2, lost=True)

    ours, theirs = (stream.until_unhealthy(4) for stream in streams)
    assert ours == theirs


def test_all_fail_where_the_gpu_of_an_event_has_no_uuid(node: NvidiaNode, machine: Machine, nvidia_plugin: str) -> None:
    streams = [watched(plugin) for plugin in node.both(nvidia_plugin)]

    machine.faults.fail_calls("nvmlDeviceGetUUID", "UNKNOWN", gpu=1)
    ours, theirs = (stream.until_unhealthy(4, partial(machine.fail, 1, xid=SENTINEL)) for stream in streams)
    assert ours == theirs


@pytest.mark.parametrize(
    ("call", "error", "count"),
    [
        pytest.param("nvmlDeviceRegisterEvents", "NOT_SUPPORTED", 0, id="a GPU without events stays healthy"),
        pytest.param("nvmlDeviceRegisterEvents", "UNKNOWN", 1, id="registration fails"),
        pytest.param("nvmlDeviceGetSupportedEventTypes", "NOT_SUPPORTED", 1, id="supported events cannot be had"),
        pytest.param("nvmlEventSetCreate", "UNKNOWN", 0, id="no event set: all stay healthy"),
    ],
)
def test_failures_of_the_subscription(
    node: NvidiaNode, machine: Machine, nvidia_plugin: str, call: str, error: str, count: int
) -> None:
    machine.faults.fail_calls(call, error, gpu=None if "Set" in call and "Supported" not in call else 1)
    seen = []
    for plugin in node.both(nvidia_plugin):
        plugin.registered()
        stream = plugin.list_and_watch()
        seen.append(stream.until_unhealthy(count))
        if call == "nvmlEventSetCreate":
            plugin.logged("Failed to start health check: failed to create event set: Unknown Error")

    assert seen[0] == seen[1]


def test_one_replica_of_a_shared_gpu_fails(node: NvidiaNode, machine: Machine, nvidia_plugin: str) -> None:
    streams = [watched(plugin) for plugin in node.both(nvidia_plugin, config=SHARED)]

    machine.fail(1, xid=SENTINEL)

    failed = [stream.until_unhealthy(1) for stream in streams]
    assert [{device.partition("::")[0] for device in one} for one in failed] == [{machine.gpu(1).uuid}] * 2


def test_all_replicas_fail_as_the_article_has_it(node: NvidiaNode, machine: Machine) -> None:
    stream = watched(node.ours(config=SHARED))

    machine.fail(1, xid=SENTINEL)

    assert stream.until_unhealthy(3) == {f"{machine.gpu(1).uuid}::{number}" for number in range(3)}


@pytest.fixture
def partitioned(machine: Machine) -> Machine:
    machine.mig(0).create("1g.10gb", "3g.40gb")
    machine.mig(1).create("1g.10gb")
    return machine


def test_xid_of_a_mig_device_fails_it_alone(node: NvidiaNode, partitioned: Machine, nvidia_plugin: str) -> None:
    small, large = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
    plugins = list(node.both(nvidia_plugin, "--mig-strategy=mixed"))
    streams = {resource: [watched(plugin, resource, 3) for plugin in plugins] for resource in (small, large)}
    device = {device.name: device for device in partitioned.mig(0).devices}
    instance = {name: (one.gpu_instance, one.compute_instance) for name, one in device.items()}
    for plugin in plugins:
        if not plugin.is_ours:
            for _ in range(3):
                plugin.logged("Ignoring the following XIDs for health checks")

    partitioned.faults.xid(0, SENTINEL, instance=instance["1g.10gb"])
    assert [stream.until_unhealthy(1) for stream in streams[small]] == [{device["1g.10gb"].uuid}] * 2

    # Of the whole GPU: every resource that has a device there.
    partitioned.faults.xid(0, SENTINEL)
    assert [stream.until_unhealthy(1) for stream in streams[large]] == [{device["3g.40gb"].uuid}] * 2


def test_whole_gpu_fails_by_an_xid_of_one_of_its_instances(
    node: NvidiaNode, partitioned: Machine, nvidia_plugin: str
) -> None:
    streams = [watched(plugin) for plugin in node.both(nvidia_plugin, "--mig-strategy=none")]
    first = partitioned.mig(0).devices[0]

    partitioned.faults.xid(0, SENTINEL, instance=(first.gpu_instance, first.compute_instance))

    assert [stream.until_unhealthy(1) for stream in streams] == [{partitioned.gpu(0).uuid}] * 2


def test_restarted_kubelet_finds_all_healthy_again(node: NvidiaNode, machine: Machine, nvidia_plugin: str) -> None:
    plugins = list(node.both(nvidia_plugin))
    for stream in [watched(plugin) for plugin in plugins]:
        machine.fail(0, xid=SENTINEL)
        stream.until_unhealthy(1)

    lists = []
    for plugin in plugins:
        plugin.restart_kubelet()
        plugin.registered()
        lists.append(plugin.list_and_watch().next())

    assert lists[0] == lists[1]
    assert {device["health"] for device in lists[0]} == {"Healthy"}
