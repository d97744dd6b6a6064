"""4 MiB, grpc-go's limit for a message that is received: exactly that is read, one byte more ends the stream.

Source: google.golang.org/grpc v1.72.1, clientconn.go, ``defaultClientMaxReceiveMessageSize``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.apis import pluginregistration
from simkubelet.golang.message import MOST_FIELDS, UnreadableMessageError, read_message
from simkubelet.model.version import version
from tests.support.node import FakePlugin, Node

from .raw_plugin import RawPlugin

LIMIT = 4 << 20
TOO_LARGE = "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (4194305 vs. 4194304)"
OTHER = "example.com/other"


def nested(number: int, content: bytes) -> bytes:
    """A message as a field of another one."""
    length, prefix = len(content), bytearray([number << 3 | 2])
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*prefix, length]) + content


DEVICES = 64_528
"""Devices in the list of exactly 4 MiB: all but the last with an id of 52 bytes."""


def device(device_id: bytes) -> bytes:
    """One device of a list, as protobuf writes it."""
    fields = b"\n" + bytes([len(device_id)]) + device_id + b"\x12\x07Healthy"
    return b"\n" + bytes([len(fields)]) + fields


@pytest.fixture(scope="module")
def largest_list() -> bytes:
    message = b"".join(device(b"GPU-%048d" % number) for number in range(DEVICES - 1)) + device(b"d" * 36)
    assert len(message) == LIMIT
    return message


@pytest.fixture(scope="module")
def too_large_list(largest_list: bytes) -> bytes:
    return largest_list.removesuffix(device(b"d" * 36)) + device(b"d" * 37)


async def plugins(node: Node, answers: dict[str, bytes]) -> tuple[RawPlugin, FakePlugin]:
    """The one that goes to the limit, registered, and another one that must not notice."""
    other = await node.plugin("o0", "o1", endpoint="other.sock", resource=OTHER)
    plugin = RawPlugin(node.folder, answers)
    node.plugins.append(plugin)
    plugin.list(["d0"])
    await plugin.serve()
    await plugin.register()
    return plugin, other


async def assert_other_is_served(node: Node, other: FakePlugin) -> None:
    other.list(["o0", "o1", "o2"])
    await node.until(
        lambda: any(event.resource == OTHER and len(event.healthy) == 3 for event in node.of("devices-listed"))
    )
    await node.tick()
    assert node.status(OTHER) == (3, 3)


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the kubelet logged; gRPC's own server, which serves the plugin here, may have something to say too."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("simkubelet.")]


async def test_list_of_exactly_4_mib_is_read(node: Node, largest_list: bytes) -> None:
    _, other = await plugins(node, {"ListAndWatch": largest_list})

    await node.until(lambda: len(node.of("devices-listed")) == 2)
    await node.tick()

    assert node.status() == (DEVICES, DEVICES)
    await assert_other_is_served(node, other)


async def test_first_list_of_one_byte_more_leaves_a_resource_without_devices(
    node: Node, too_large_list: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    plugin, other = await plugins(node, {"ListAndWatch": too_large_list})

    await node.until(lambda: node.of("plugin-disconnected"))
    await plugin.until_no_stream()
    await node.tick()

    assert node.status() == (0, 0)
    assert reasons(caplog) == [f"ListAndWatch ended unexpectedly for device plugin example.com/stub: {TOO_LARGE}"]
    await assert_other_is_served(node, other)


async def test_later_list_of_one_byte_more_takes_the_devices_away(
    node: Node, largest_list: bytes, too_large_list: bytes
) -> None:
    plugin, other = await plugins(node, {"ListAndWatch": largest_list})
    await node.until(lambda: len(node.of("devices-listed")) == 2)

    plugin.answers["ListAndWatch"] = too_large_list
    plugin.list(["d1"])
    await node.until(lambda: node.of("plugin-disconnected"))
    await plugin.until_no_stream()
    await node.tick()

    assert node.status() == (DEVICES, 0)
    await assert_other_is_served(node, other)


async def test_kubelet_with_a_larger_limit_reads_more_and_refuses_what_is_beyond(
    make_node: Callable[..., Awaitable[Node]], too_large_list: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    node = await make_node(max_message_bytes=LIMIT + 1)
    plugin, other = await plugins(node, {"ListAndWatch": too_large_list})
    await node.until(lambda: len(node.of("devices-listed")) == 2)
    await node.tick()
    assert node.status() == (DEVICES, DEVICES)

    plugin.answers["ListAndWatch"] = too_large_list + device(b"one-more")
    plugin.list(["d1"])
    await node.until(lambda: node.of("plugin-disconnected"))
    size = len(too_large_list + device(b"one-more"))
    assert f"larger than max ({size} vs. {LIMIT + 1})" in reasons(caplog)[-1]
    await assert_other_is_served(node, other)


def answer_to_allocate(size: int) -> bytes:
    """One container's, with an annotation that fills it up."""

    def filled(length: int) -> bytes:
        container = api.ContainerAllocateResponse(annotations={"long": "x" * length})
        return api.AllocateResponse(container_responses=[container]).SerializeToString()

    around = len(filled(size)) - size
    answer = filled(size - around)
    assert len(answer) == size
    return answer


@pytest.mark.parametrize(
    ("size", "phase", "message"),
    [
        (LIMIT, "Running", ""),
        (LIMIT + 1, "Failed", f"Pod was rejected: Allocate failed due to {TOO_LARGE}, which is unexpected"),
    ],
    ids=["4-mib", "one-byte-more"],
)
async def test_answer_to_allocate_has_the_same_limit(node: Node, size: int, phase: str, message: str) -> None:
    answer = answer_to_allocate(size)
    _, other = await plugins(node, {"Allocate": answer})
    await node.until(lambda: len(node.of("devices-listed")) == 2)
    await node.tick()

    name = await node.settled_pod(1)

    assert (node.phase(name), node.message(name)) == (phase, message)
    assert not node.of("plugin-disconnected")
    await assert_other_is_served(node, other)


@pytest.mark.parametrize("minor", ["1.33", "1.34"])
@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (api.AllocateResponse, b"\n\0" * (MOST_FIELDS + 1)),
        (api.AllocateResponse, nested(1, b"\x12\0" * MOST_FIELDS)),
        (api.AllocateResponse, nested(1, b"\n\x02\n\0" * (MOST_FIELDS // 2))),
        (pluginregistration.PluginInfo, b'"\x01v' * (MOST_FIELDS + 1)),
        (api.RegisterRequest, b"\x28\x01" * (MOST_FIELDS + 1)),
    ],
    ids=["answers", "mounts", "variables", "versions", "unknown fields"],
)
def test_message_of_too_many_fields_is_refused_before_it_is_read(kind: type[Any], content: bytes, minor: str) -> None:
    with pytest.raises(UnreadableMessageError, match="more than 50,000 fields, which simkubelet does not take"):
        read_message(kind, content, version(minor))
    read_message(kind, content, version(minor), None)


def test_long_texts_and_the_most_fields_are_read() -> None:
    long = api.AllocateResponse(
        container_responses=[
            api.ContainerAllocateResponse(
                envs={"A": "a" * (LIMIT // 2)}, mounts=[api.Mount(host_path="a" * 90)] * 20_000
            )
        ]
    )
    for minor in ("1.33", "1.34"):
        assert read_message(api.AllocateResponse, long.SerializeToString(), version(minor)) == long
        read_message(api.AllocateResponse, b"\n\0" * MOST_FIELDS, version(minor))


async def test_answer_of_too_many_fields_fails_its_pod_alone(node: Node) -> None:
    _, other = await plugins(node, {"Allocate": nested(1, b"\x12\0" * MOST_FIELDS)})
    await node.until(lambda: len(node.of("devices-listed")) == 2)
    await node.tick()

    name = await node.settled_pod(1)

    assert node.phase(name) == "Failed"
    assert "failed to unmarshal the received message: it has more than 50,000 fields" in node.message(name)
    await assert_other_is_served(node, other)
