"""A plugin whose lists come from the test, with a fake kubelet on a real socket: what the kubelet is sent."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

from plugin.framework import (
    Health,
    PluginOptions,
    RestartPolicy,
)
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.messages import Code

from .scripted_plugin import ScriptedPlugin, device_list, read_list, run_scripted, stub_of


class TalkativePlugin(ScriptedPlugin):
    options: ClassVar[PluginOptions] = PluginOptions(preferred_allocation_available=True, in_registration=True)


async def test_plugin_registers_with_version_socket_and_resource_only(kubelet: Any, kubelet_dir: Path) -> None:
    async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS):
        request = await kubelet.registration()

    assert (request.version, request.endpoint, request.resource_name) == (
        "v1beta1",
        "scripted.sock",
        "example.com/scripted",
    )
    assert not request.HasField("options")


async def test_plugin_that_sends_its_options_has_them_in_the_registration(kubelet: Any, kubelet_dir: Path) -> None:
    async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS, TalkativePlugin):
        request = await kubelet.registration()

    assert request.options == api.DevicePluginOptions(get_preferred_allocation_available=True)


async def test_kubelet_can_call_everything_once_registered(kubelet: Any, kubelet_dir: Path) -> None:
    async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        await kubelet.registration()
        async with stub_of(kubelet_dir) as stub:
            options = await stub.GetDevicePluginOptions(api.Empty())
            first = await stub.ListAndWatch(api.Empty()).read()
            preferred = await stub.GetPreferredAllocation(
                api.PreferredAllocationRequest(
                    container_requests=[
                        api.ContainerPreferredAllocationRequest(
                            available_deviceIDs=["d0", "d1"], must_include_deviceIDs=["d1"], allocation_size=1
                        )
                    ]
                )
            )
            started = await stub.PreStartContainer(api.PreStartContainerRequest(devices_ids=["d0"]))

    assert options == api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
    assert [device.ID for device in first.devices] == ["d0", "d1"]
    assert first.devices[0].topology == api.TopologyInfo(nodes=[api.NUMANode(ID=1)])
    assert [list(answer.deviceIDs) for answer in preferred.container_responses] == [["d1"]]
    assert started == api.PreStartContainerResponse()
    assert running.plugins[0].asked_in not in (None, threading.current_thread())


async def test_each_container_of_a_call_gets_its_answer_in_order(kubelet: Any, kubelet_dir: Path) -> None:
    request = api.AllocateRequest(
        container_requests=[api.ContainerAllocateRequest(devices_ids=ids) for ids in (["d1", "d0"], [])]
    )

    async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS):
        await kubelet.registration()
        async with stub_of(kubelet_dir) as stub:
            answer = await stub.Allocate(request)

    assert [dict(container.envs) for container in answer.container_responses] == [{"IDS": "d1,d0"}, {"IDS": ""}]


@pytest.mark.parametrize(
    ("device", "text"), [("bad", "no bad devices"), ("gone", "/dev/gone: No such file or directory")]
)
async def test_refused_allocation_reaches_the_kubelet_as_unknown_with_its_text(
    kubelet: Any, kubelet_dir: Path, device: str, text: str
) -> None:
    request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=[device])])

    async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS):
        await kubelet.registration()
        async with stub_of(kubelet_dir) as stub:
            with pytest.raises(RpcError) as refusal:
                await stub.Allocate(request)

    assert (refusal.value.code, refusal.value.text) == (Code.UNKNOWN, text)


async def test_two_streams_both_get_every_update_also_after_a_third_has_ended(kubelet: Any, kubelet_dir: Path) -> None:
    async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        await kubelet.registration()
        async with stub_of(kubelet_dir) as stub:
            streams = [stub.ListAndWatch(api.Empty()) for _ in range(3)]
            for stream in streams:
                assert await read_list(stream) == [("d0", "Healthy"), ("d1", "Healthy")]
            await streams.pop().cancel()
            for name in ("d2", "d3"):
                running.plugins[0].lists.put_nowait(device_list(name, health=Health.UNHEALTHY))
                for stream in streams:
                    assert await read_list(stream) == [(name, "Unhealthy")]
