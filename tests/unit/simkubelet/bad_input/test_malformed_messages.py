"""Invalid messages from and to the kubelet: refused with Go's texts, and nothing else is disturbed.

The texts and codes are those of grpc v1.72.1 and protobuf v1.36.5 for Go, as the device manager of kubernetes v1.34.4
gives them; after "proto:" these set an ordinary or a no-break space, by the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket as sockets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.node_tree import PLUGINS_REGISTRY, POD_RESOURCES
from simkubelet.registration import plugin_client
from tests.support.grpc_peers import WATCHED_REGISTRATION, connected, methods_of, serve
from tests.support.node import FakePlugin, Node
from tests.support.silent_plugin import until_true
from tests.support.watched_plugin import WatchedPlugin

from .raw_plugin import RawPlugin, answered_raw

NO_PROTOBUF = "proto: cannot parse invalid wire-format data"
NO_UTF8 = "string field contains invalid UTF-8"
UNREADABLE = "rpc error: code = Internal desc = grpc: failed to unmarshal the received message: "

NO_MESSAGES = {
    "bytes-without-end": b"\xff\xff\xff\xff",
    "cut-short": b"\n\x05a",
    "unknown-wire-type": b"\x0f\x01",
    "group-without-end": b"\x0b",
    "end-without-group": b"\x0c",
    "longer-than-any-message": b"\n\xff\xff\xff\xff\x0f",
    "number-of-eleven-bytes": b"\x28" + b"\x80" * 10 + b"\x01",
}

REGISTER = "/v1beta1.Registration/Register"
POD_RESOURCES_SOCKET = f"../{POD_RESOURCES}/kubelet.sock"
SERVED = {
    "kubelet.sock": [REGISTER],
    POD_RESOURCES_SOCKET: [
        "/v1.PodResourcesLister/List",
        "/v1.PodResourcesLister/Get",
        "/v1.PodResourcesLister/GetAllocatableResources",
        "/v1alpha1.PodResourcesLister/List",
    ],
}
methods = pytest.mark.parametrize(
    ("socket", "method"),
    [pytest.param(socket, method, id=method) for socket, all_of_it in SERVED.items() for method in all_of_it],
)


async def ask(node: Node, socket: str, method: str, content: bytes) -> tuple[str, str | None]:
    """What a server of the kubelet answers to bytes: code and details."""
    async with connected((node.folder / socket).resolve()) as connection:
        try:
            await connection.call(method, content, 10)
        except RpcError as error:
            return Code(error.code).name, error.text
    return "OK", None


# What the kubelet is sent


@methods
async def test_request_that_is_not_a_message_is_refused_as_go_refuses_it(node: Node, socket: str, method: str) -> None:
    answers = {name: await ask(node, socket, method, content) for name, content in NO_MESSAGES.items()}

    assert answers == dict.fromkeys(NO_MESSAGES, ("INTERNAL", f"grpc: error unmarshalling request: {NO_PROTOBUF}"))
    assert (await ask(node, socket, method, b""))[0] in ("OK", "UNKNOWN")


async def test_request_that_is_not_utf8_is_refused_as_go_refuses_it(node: Node) -> None:
    refused = ("INTERNAL", f"grpc: error unmarshalling request: {NO_UTF8}")

    for content in (b"\n\x02\xc3\x28", b"\x12\x03\xed\xa0\x80", b"\x1a\x02\xc0\x80"):
        assert await ask(node, "kubelet.sock", REGISTER, content) == refused
    assert await ask(node, POD_RESOURCES_SOCKET, "/v1.PodResourcesLister/Get", b"\n\x01\xff") == refused


async def test_odd_request_that_go_can_read_is_read(node: Node) -> None:
    versions = {
        b"": "",
        b"\x08\x01": "",  # the version is a number
        b"\n\x01a\n\x01b": "b",  # twice
        b"\x8a\0\x01a": "a",  # a tag longer than it needs to be
        b"\n\x81\0a": "a",  # a length longer than it needs to be
        b"\x2b\x30\x01\x2c\n\x01a": "a",  # an unknown group
        b"\xf8\xff\xff\xff\x0f\x01\n\x01a": "a",  # the largest field
        b"\x2a\x01\xff\n\x02a\0": "a\\x00",  # an unknown field, and a zero byte
    }

    answers = {content: await ask(node, "kubelet.sock", REGISTER, content) for content in versions}

    text = 'requested API version "{}" is not supported by kubelet. Supported version is ["v1beta1"]'
    assert answers == {content: ("UNKNOWN", text.format(version)) for content, version in versions.items()}


@pytest.mark.parametrize("socket", SERVED)
async def test_call_that_is_not_served_is_refused_as_go_refuses_it(node: Node, socket: str) -> None:
    texts = {
        "/foo.Bar/Baz": "unknown service foo.Bar",
        "/v1beta1.DevicePlugin/Allocate": "unknown service v1beta1.DevicePlugin",
        "/grpc.health.v1.Health/Check": "unknown service grpc.health.v1.Health",
        "/a/b/c": "unknown service a/b",
        "//": "unknown service ",
        "/foo": 'malformed method name: "/foo"',
        "/": 'malformed method name: "/"',
        **{
            f"/{service}/Nope": f"unknown method Nope for service {service}"
            for service in {method.split("/")[1] for method in SERVED[socket]}
        },
    }

    answers = {method: await ask(node, socket, method, b"\xff") for method in texts}

    assert answers == {method: ("UNIMPLEMENTED", text) for method, text in texts.items()}


@pytest.mark.parametrize("socket", SERVED)
async def test_connection_that_speaks_no_grpc_disturbs_nobody(node: Node, socket: str) -> None:
    path = str((node.folder / socket).resolve())
    with contextlib.ExitStack() as stack:
        for greeting in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\xff" * 4096,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 64,
            b"",
        ):
            connection = stack.enter_context(sockets.socket(sockets.AF_UNIX))
            connection.connect(path)
            connection.sendall(greeting)

        assert await ask(node, socket, "/foo", b"") == ("UNIMPLEMENTED", 'malformed method name: "/foo"')
        await node.plugin("d0")


# What the kubelet is answered


async def raw_plugin(node: Node, *healthy: str, **settings: Any) -> RawPlugin:
    plugin = RawPlugin(node.folder, **settings)
    node.plugins.append(plugin)
    plugin.list(healthy)
    await plugin.serve()
    return plugin


async def test_options_that_are_not_a_message_refuse_the_plugin(node: Node) -> None:
    plugin = await raw_plugin(node, "d0")
    refusals = []

    for content in NO_MESSAGES.values():
        plugin.answers["GetDevicePluginOptions"] = content
        with pytest.raises(RpcError) as refusal:
            await plugin.register()
        refusals.append((refusal.value.code, refusal.value.text))

    text = f"failed to get device plugin options: {UNREADABLE}{NO_PROTOBUF}"
    assert refusals == [(Code.UNKNOWN, text)] * len(NO_MESSAGES)
    assert {call for call, _ in plugin.calls} == {"GetDevicePluginOptions"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"\xff\xff", NO_PROTOBUF, id="bytes-without-end"),
        pytest.param(b"\n\x0c\n\x02d0\x12\x09Healthy", NO_PROTOBUF, id="device-cut-short"),
        pytest.param(b"\n\x0d\n\x02\xc3\x28\x12\x07Healthy", NO_UTF8, id="id-not-utf8"),
        pytest.param(b"\n\x08\n\x02d0\x12\x02\xff\xff", NO_UTF8, id="health-not-utf8"),
        pytest.param(b"\n\x0a\n\x02d0\x1a\x04\n\x02\xff\xff", NO_PROTOBUF, id="topology-that-is-none"),
    ],
)
async def test_list_that_is_not_a_message_disconnects_its_plugin_and_no_other(
    node: Node, caplog: pytest.LogCaptureFixture, content: bytes, reason: str
) -> None:
    other = await node.plugin("o0", "o1", endpoint="other.sock", resource="example.com/other")
    plugin = await raw_plugin(node, "d0")
    await plugin.register()
    await node.until(lambda: len(node.of("devices-listed")) == 2)

    plugin.answers["ListAndWatch"] = content
    plugin.list(["d0", "d1"])
    await node.until(lambda: node.of("plugin-disconnected"))
    await plugin.until_no_stream()
    await node.tick()

    assert (node.status(), node.status(other.resource)) == ((1, 0), (2, 2))
    assert [record.getMessage() for record in caplog.records if "ListAndWatch" in record.getMessage()] == [
        f"ListAndWatch ended unexpectedly for device plugin example.com/stub: {UNREADABLE}{reason}"
    ]


async def test_first_list_that_is_not_a_message_leaves_a_resource_without_devices(node: Node) -> None:
    plugin = await raw_plugin(node, answers={"ListAndWatch": b"\xff"})

    await plugin.register()
    await node.until(lambda: node.of("plugin-disconnected"))
    await node.tick()

    assert node.status() == (0, 0)
    assert not node.of("devices-listed")


async def listed_raw_plugin(node: Node, answers: dict[str, bytes]) -> RawPlugin:
    plugin = await raw_plugin(node, "d0", answers=answers)
    plugin.options = api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
    await plugin.register()
    await node.until(lambda: node.of("devices-listed"))
    await node.tick()
    return plugin


@pytest.mark.parametrize(
    ("method", "said"),
    [("Allocate", ""), ("GetPreferredAllocation", "device plugin GetPreferredAllocation rpc failed with err: ")],
)
@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff\xff", NO_PROTOBUF), (b"\n\x05a", NO_PROTOBUF), (b"\n\x03\n\x01\xff", None)],
    ids=["no-message", "cut-short", "not-utf8"],
)
async def test_answer_that_is_not_a_message_rejects_the_pod_and_frees_its_device(
    node: Node, method: str, said: str, content: bytes, reason: str | None
) -> None:
    if reason is None:
        # In an answer to Allocate the field is a map.
        content = content if method == "GetPreferredAllocation" else b"\n\x08\n\x06\n\x01a\x12\x01\xff"
        reason = NO_UTF8
    plugin = await listed_raw_plugin(node, {method: content})

    name = await node.settled_pod(1)

    assert node.message(name) == (
        f"Pod was rejected: Allocate failed due to {said}{UNREADABLE}{reason}, which is unexpected"
    )
    plugin.answers.clear()
    if method == "Allocate":
        assert node.phase(await node.settled_pod(1)) == "Running"


async def test_answer_to_pre_start_that_is_not_a_message_keeps_the_container_from_starting(node: Node) -> None:
    plugin = await listed_raw_plugin(node, {"PreStartContainer": b"\xff"})

    name = node.pod(1)
    await node.until(lambda: any("PreStartContainer" in text for _, text in node.pod_events(name)))

    text = f"Error: device plugin PreStartContainer rpc failed with err: {UNREADABLE}{NO_PROTOBUF}"
    assert ("Failed", text) in node.pod_events(name)
    assert ("PreStartContainer", ["d0"]) in plugin.calls


@pytest.mark.parametrize("length", [10_000, 1 << 20])
async def test_error_of_a_plugin_may_be_as_long_as_it_likes(node: Node, length: int) -> None:
    plugin = await node.plugin("d0")
    await node.tick()

    def refuse(request: Any) -> Any:
        raise ValueError("x" * length)

    plugin.allocate_answer = refuse
    name = await node.settled_pod(1)

    assert "x" * length in node.message(name)


async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        await reader.read()
    writer.close()


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def of_another_protocol(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await closing(reader, writer)


@contextlib.asynccontextmanager
async def listener(path: Path, talk: Any) -> AsyncIterator[None]:
    server = await asyncio.start_unix_server(talk, path)
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("talk", [deaf, closing, of_another_protocol])
async def test_socket_that_speaks_no_grpc_is_dialled_until_the_time_is_over(
    node: Node, monkeypatch: pytest.MonkeyPatch, talk: Any
) -> None:
    monkeypatch.setattr(plugin_client, "_DIAL_TIMEOUT_S", 0.1)
    async with listener(node.folder / "stub.sock", talk):
        with pytest.raises(RpcError) as refusal:
            await FakePlugin(node.folder).register()

    assert refusal.value.text == "failed to dial device plugin: context deadline exceeded"


# What the plugin watcher is answered


class RawWatchedPlugin(WatchedPlugin):
    """Answers GetInfo, or takes the verdict, with bytes of the test's choice, once."""

    def __init__(self, *args: Any, answers: dict[str, bytes], **info: Any) -> None:
        super().__init__(*args, **info)
        self.answers = answers

    async def serve(self) -> None:
        methods = methods_of(self, WATCHED_REGISTRATION)
        self._server = await serve(answered_raw(methods, lambda name: self.answers.pop(name, None)), self.socket)


async def watched(node: Node, name: str, service: FakePlugin, answers: dict[str, bytes]) -> RawWatchedPlugin:
    socket = node.folder.parent / PLUGINS_REGISTRY / name
    plugin = RawWatchedPlugin(
        socket, node.clock, answers=answers, name=service.resource, endpoint=str(service.folder / service.endpoint)
    )
    await plugin.serve()
    node.plugins.append(plugin)  # type: ignore[arg-type] - it is stopped like the others
    return plugin


async def served(node: Node, **settings: Any) -> FakePlugin:
    plugin = FakePlugin(node.folder, **settings)
    node.plugins.append(plugin)
    plugin.list(["d0"])
    await plugin.serve()
    return plugin


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff", NO_PROTOBUF), (b"\x12\x01\xff", NO_UTF8)],
    ids=["no-message", "not-utf8"],
)
async def test_info_that_is_not_a_message_is_asked_again_while_others_register(
    node: Node, caplog: pytest.LogCaptureFixture, content: bytes, reason: str
) -> None:
    bad = await watched(node, "bad.sock", await served(node), {"GetInfo": content})
    good = await watched(node, "good.sock", await served(node, endpoint="o", resource="example.com/other"), {})

    await until_true(node, lambda: good.verdicts and bad.verdicts)

    assert (bad.verdicts, good.verdicts) == ([(True, "")], [(True, "")])
    assert len(bad.asked_at) == 2
    assert (
        "RegisterPlugin error -- failed to get plugin info using RPC GetInfo "
        f"at socket {bad.socket}, err: {UNREADABLE}{reason}"
    ) in [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


async def test_verdict_answered_with_no_message_leaves_the_plugin_registered(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    service = await served(node)
    plugin = await watched(node, "bad.sock", service, {"NotifyRegistrationStatus": b"\xff"})

    text = f"failed to send registration status at socket {plugin.socket}, err: : {UNREADABLE}{NO_PROTOBUF}"
    await until_true(node, lambda: text in caplog.text)
    await node.until(lambda: node.of("devices-listed"))
    await node.tick()

    assert node.status() == (1, 1)
