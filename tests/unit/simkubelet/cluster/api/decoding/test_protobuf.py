"""Objects sent as protobuf."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.api.decoding.protobuf import ProtobufError, read_protobuf
from simkubelet.cluster.api.decoding.schema import schema_of

from ..conftest import CONFIG_MAPS, Client

PROTOBUF = "application/vnd.kubernetes.protobuf"


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def envelope(version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, version) + field(2, kind)) + field(2, raw)


async def test_config_map_is_created(client: Client) -> None:
    raw = field(1, field(1, "c")) + field(2, field(1, "key") + field(2, "value"))
    answer = await client.post(CONFIG_MAPS, envelope("v1", "ConfigMap", raw), type_=PROTOBUF)
    assert (answer.code, answer.body["data"], answer.body["metadata"]["name"]) == (201, {"key": "value"}, "c")


def test_pod_with_what_protobuf_writes_otherwise() -> None:
    date = field(8, field(1, 1767323045) + field(2, 0))
    limits = field(8, field(1, field(1, "example.com/gpu") + field(2, field(1, "2"))))
    probe = field(10, field(1, field(2, field(2, field(1, 1) + field(3, "http")))) + field(2, 5))
    volume = field(1, field(1, "v") + field(2, field(1, field(1, "/x"))))
    spec = volume + field(2, field(1, "main") + field(2, "image") + limits + probe) + field(5, 1 << 33)
    pod = read_protobuf(
        envelope("v1", "Pod", field(1, field(1, "p") + date) + field(2, spec)), schema_of("", "v1", "Pod")
    )
    assert pod == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {
            "volumes": [{"name": "v", "hostPath": {"path": "/x"}}],
            "containers": [
                {
                    "name": "main",
                    "image": "image",
                    "resources": {"limits": {"example.com/gpu": "2"}},
                    "livenessProbe": {"httpGet": {"port": "http"}, "initialDelaySeconds": 5},
                }
            ],
            "activeDeadlineSeconds": 1 << 33,
        },
    }


def test_negative_numbers() -> None:
    raw = field(1, field(1, "p")) + field(2, field(4, -1))
    pod = read_protobuf(envelope("v1", "Pod", raw), schema_of("", "v1", "Pod"))
    assert pod["spec"] == {"terminationGracePeriodSeconds": -1}


async def test_other_bytes_are_a_bad_request(client: Client) -> None:
    answer = await client.post(CONFIG_MAPS, b"nothing", type_=PROTOBUF)
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with suppress(ProtobufError, ValueError):
        read_protobuf(b"k8s\x00" + content, schema_of("", "v1", "Pod"))


def test_message_that_is_cut_is_refused() -> None:
    whole = envelope("v1", "Pod", field(1, field(1, "p")))
    with pytest.raises(ProtobufError, match="unexpected EOF"):
        read_protobuf(whole[:-1], schema_of("", "v1", "Pod"))
