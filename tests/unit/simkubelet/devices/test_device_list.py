from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from simkubelet.apis.deviceplugin import Device, ListAndWatchResponse, NUMANode, TopologyInfo
from simkubelet.devices import device_list
from simkubelet.devices.device_list import DeviceList, read_devices


def by_protobuf(message: bytes) -> DeviceList:
    """The list as protobuf alone reads it."""
    return DeviceList.of(ListAndWatchResponse.FromString(message).devices)


def parts(devices: DeviceList) -> tuple[Any, ...]:
    """All that a list tells, with the order in which it tells it."""
    return (
        list(devices.healthy),
        list(devices.unhealthy),
        list(devices.health.items()),
        dict(devices.numa_nodes),
    )


def assert_read_as_by_protobuf(message: bytes) -> None:
    try:
        wanted = parts(by_protobuf(message))
    except DecodeError:
        with pytest.raises(DecodeError):
            read_devices(message)
    else:
        assert parts(read_devices(message)) == wanted


def field(tag: int, content: bytes, length: int | None = None) -> bytes:
    """A field of bytes; `length` where it is to lie."""
    return bytes([tag]) + varint(len(content) if length is None else length) + content


def varint(number: int, width: int = 1) -> bytes:
    """A number as protobuf writes it, in `width` bytes at least."""
    digits = []
    while number or len(digits) < width:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits[-1] &= 0x7F
    return bytes(digits)


IDS = st.one_of(
    st.sampled_from(["a", "b", "dev-0"]),
    st.text(max_size=4),
    # Lengths at which a number takes one more byte.
    st.sampled_from([126, 127, 128, 16383, 16384]).map(lambda length: "x" * length),
)
HEALTHS = st.sampled_from(["Healthy", "Unhealthy", "", "Healthy ", "healthy", "Weird"])
NODES = st.none() | st.lists(st.integers(-1, 3), max_size=2)
DEVICES = st.builds(
    lambda device, health, nodes: Device(
        ID=device,
        health=health,
        topology=None if nodes is None else TopologyInfo(nodes=[NUMANode(ID=node) for node in nodes]),
    ),
    IDS,
    HEALTHS,
    NODES,
)
USUAL_DEVICES = st.builds(lambda device, health: Device(ID=device, health=health), IDS, HEALTHS)

# What looks like a list, but was put together by hand: fields twice, unknown, out of order, with lengths that lie.
BROKEN_FIELDS = st.builds(
    field,
    st.sampled_from([0x0A, 0x12, 0x1A, 0x22, 0x08, 0x0B]),
    st.sampled_from([b"Healthy", b"Unhealthy", b"a", b"", b"\0", b"a\0b", b"\xff", b"\xed\xa0\x80", "ä".encode()])
    | st.binary(max_size=4),
    st.none() | st.integers(0, 12) | st.sampled_from([127, 128, 2**28 - 1, 2**28, 2**32 - 1, 2**63]),
)
BROKEN_LISTS = st.lists(
    st.builds(field, st.just(0x0A), st.lists(BROKEN_FIELDS, max_size=3).map(b"".join), st.none() | st.integers(0, 20)),
    max_size=3,
).map(b"".join)


@given(st.lists(DEVICES, max_size=5) | st.lists(USUAL_DEVICES, max_size=5))
def test_list_of_devices_is_read_as_protobuf_reads_it(devices):
    assert_read_as_by_protobuf(ListAndWatchResponse(devices=devices).SerializeToString())


@given(st.binary(max_size=40) | BROKEN_LISTS | st.tuples(BROKEN_LISTS, st.binary(max_size=3)).map(b"".join))
@example(field(0x0A, b"\x0a" + varint(1, width=4) + b"a" + field(0x12, b"Healthy")))
@example(field(0x0A, b"\x0a" + varint(1, width=5) + b"a" + field(0x12, b"Healthy")))
@example(field(0x0A, field(0x0A, b"\xff") + field(0x0A, b"a") + field(0x12, b"Healthy")))
@example(field(0x0A, field(0x0A, b"a\0a") + field(0x12, b"Healthy")))
@example(b"\x0a" + b"\x80" * 9 + b"\x01")
@example(b"\x0a")
@example(b"\x0a\x02\x0a")
@example(b"\x0a\x02\x12\x01")
def test_any_bytes_are_read_or_refused_as_protobuf_does(message):
    assert_read_as_by_protobuf(message)


@given(st.lists(USUAL_DEVICES, min_size=1, max_size=3), st.data())
def test_truncated_list_is_read_or_refused_as_protobuf_does(devices, data):
    whole = ListAndWatchResponse(devices=devices).SerializeToString()

    assert_read_as_by_protobuf(whole[: data.draw(st.integers(0, len(whole)))])


@pytest.mark.parametrize("health", ["Healthy", "Unhealthy"])
def test_usual_list_is_read_without_protobuf(health, monkeypatch):
    message = ListAndWatchResponse(devices=[Device(ID=f"dev-{n}", health=health) for n in range(300)])
    monkeypatch.setattr(device_list, "ListAndWatchResponse", None)

    devices = read_devices(message.SerializeToString())

    assert list(devices) == [f"dev-{n}" for n in range(300)]
    assert set(devices.health.values()) == {health}


def test_device_is_made_as_it_was_listed():
    devices = [
        Device(ID="plain", health="Healthy"),
        Device(ID="placed", health="Weird", topology=TopologyInfo(nodes=[NUMANode(ID=1)])),
        Device(ID="nowhere", health="Unhealthy", topology=TopologyInfo()),
    ]

    listed = read_devices(ListAndWatchResponse(devices=devices).SerializeToString())

    assert [listed[device.ID] for device in devices] == devices
