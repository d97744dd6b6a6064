from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.model.version import version
from simkubelet.registration.registration import RegistrationServer
from tests.support.node import FakePlugin


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        pytest.param(
            {"version": "v1alpha1"},
            'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]',
            id="version",
        ),
        pytest.param(
            {"version": "", "resource_name": "bad"},
            'requested API version "" is not supported by kubelet. Supported version is ["v1beta1"]',
            id="version-before-name",
        ),
        pytest.param(
            {"resource_name": "kubernetes.io/stub"}, 'the ResourceName "kubernetes.io/stub" is invalid', id="name"
        ),
        pytest.param({"resource_name": "a\nb"}, 'the ResourceName "a\\nb" is invalid', id="name-is-quoted-as-in-go"),
        pytest.param(
            {"endpoint": "kubelet.sock"},
            "failed to get device plugin options: rpc error: code = Unimplemented "
            "desc = unknown service v1beta1.DevicePlugin",
            id="not-a-plugin",
        ),
    ],
)
async def test_refused_registration_has_the_words_of_the_kubelet_and_the_code_unknown(node: Any, changes, text):
    plugin = FakePlugin(node.folder)

    with pytest.raises(RpcError) as refusal:
        await plugin.register(**changes)

    assert (refusal.value.code, refusal.value.text) == (Code.UNKNOWN, text)
    assert [event.message for event in node.of("registration-refused")] == [text]


async def test_options_are_asked_once_and_before_the_list(node: Any):
    plugin = await node.plugin("d0")

    assert [call for call, _ in plugin.calls] == ["GetDevicePluginOptions", "ListAndWatch"]


async def test_each_list_replaces_the_last(node: Any):
    plugin = await node.plugin("d0", "d1", "d2", "d3")

    plugin.list(["d0"], unhealthy=["x"])
    await node.until(lambda: len(node.of("devices-listed")) == 2)
    await node.tick()

    assert node.status() == (2, 1)


async def test_device_listed_twice_with_different_health_counts_in_both(node: Any):
    await node.plugin("d0", "d1")
    plugin = node.plugins[0]

    plugin.list(["d0", "d1"], unhealthy=["d1"])
    await node.until(lambda: len(node.of("devices-listed")) == 2)
    await node.tick()

    assert node.status() == (3, 2)


async def test_end_of_an_old_stream_disconnects_the_new_client(node: Any):
    old = await node.plugin("d0", "d1", endpoint="a.sock")
    new = await node.plugin("d0", "d1", "d2", endpoint="b.sock")

    await old.stop()
    await node.until(lambda: node.of("plugin-disconnected"))
    await node.tick()

    assert node.status() == (3, 0)
    await new.until_no_stream()


async def test_allocate_goes_to_the_newest_endpoint(node: Any):
    await node.plugin("d0", endpoint="a.sock")
    new = await node.plugin("d0", endpoint="b.sock")

    await node.settled_pod(1)

    assert "Allocate" in [call for call, _ in new.calls]
    assert "Allocate" not in [call for call, _ in node.plugins[0].calls]


async def test_kubelet_that_stops_cuts_the_streams_and_leaves_all_sockets(node: Any):
    plugin = await node.plugin("d0")

    await node.kubelet.stop()

    with socket.socket(socket.AF_UNIX) as caller:
        assert caller.connect_ex(str(node.folder / "kubelet.sock")) == errno.ECONNREFUSED
    assert (node.folder / "stub.sock").exists()
    await plugin.until_no_stream()


async def test_start_removes_sockets_and_keeps_files_since_1_33(make_node: Any, plugin_folder):
    (plugin_folder / "README").touch()
    (plugin_folder / "folder").mkdir()
    stale = FakePlugin(plugin_folder, endpoint="stale.sock")
    await stale.serve()

    await make_node("1.33")

    assert sorted(path.name for path in plugin_folder.iterdir()) == ["README", "folder", "kubelet.sock"]
    await stale.stop()


async def test_start_removes_files_too_before_1_33(make_node: Any, plugin_folder):
    (plugin_folder / "README").touch()

    await make_node("1.32")

    assert sorted(path.name for path in plugin_folder.iterdir()) == ["kubelet.sock"]


async def test_users_own_messages_of_the_same_api_may_live_in_the_process():
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="api.proto", package="v1beta1", syntax="proto3")
    file.message_type.add(name="Device").field.add(name="ID", number=1, type=9, label=1)
    pool = descriptor_pool.Default()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    device = message_factory.GetMessageClass(pool.FindMessageTypeByName("v1beta1.Device"))

    assert device(ID="x").SerializeToString() == api.Device(ID="x").SerializeToString()


@pytest.mark.parametrize("end", [RegistrationServer.stop, RegistrationServer.fail])
async def test_socket_where_a_link_leads_is_left_alone(short_folder: Path, tmp_path: Path, end: Any):
    (short_folder / "own").mkdir()
    (tmp_path / "kubelet.sock").write_text("another's")
    async with asyncio.TaskGroup() as tasks:
        server = RegistrationServer(short_folder / "own", Mock(), tasks, version("1.34"))
        server.start()
        (short_folder / "own").rename(short_folder / "was")
        (short_folder / "own").symlink_to(tmp_path)

        await end(server)
        await server.abandon()

    assert (tmp_path / "kubelet.sock").read_text() == "another's"
