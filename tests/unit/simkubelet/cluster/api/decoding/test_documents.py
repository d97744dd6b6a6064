"""Bodies of requests as plain values."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.api.decoding.definitions import schema_of
from simkubelet.cluster.api.decoding.documents import json_document, yaml_document
from simkubelet.cluster.api.decoding.protobuf import ProtobufError, read_protobuf

from ..conftest import CONFIG_MAPS, Client

PROTOBUF = "application/vnd.kubernetes.protobuf"
BOMB = b"a0: &a0 [x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a": ', "unexpected end of JSON input"),
        (b'{"a": "b', "unexpected end of JSON input"),
        (b"kind: Pod", "invalid character 'k' looking for beginning of value"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b"{} {}", "invalid character '{' after top-level value"),
        (b'{"a": NaN}', "invalid character 'N' looking for beginning of value"),
        (b'{"\xff": \xa6}', "invalid character '\u00a6' looking for beginning of value"),
        (b"[" * 100_000, "exceeded max depth"),
        (b'{"a":' * 50_000, "exceeded max depth"),
        (b"[" * 300 + b"]" * 300, "exceeded max depth"),
        (b"1e999", "json: cannot unmarshal number 1e999... into Go value of type float64"),
        (b"1" * 5_000, f"json: cannot unmarshal number {'1' * 19}... into Go value of type float64"),
    ],
)
def test_what_is_no_json_is_refused_in_the_words_of_go(text: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}$"):
        json_document(text)


def test_bytes_that_are_not_utf8_become_replacement_characters() -> None:
    assert json_document(b'{"a": ["\\ud800", "\\uD83D\\uDE00", "\xff"]}') == {"a": ["\ufffd", "\U0001f600", "\ufffd"]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"at: 2020-01-01", {"at": "2020-01-01"}),
        (b"at: 2020-01-01T00:00:00Z", {"at": "2020-01-01T00:00:00Z"}),
        (b"{5: x, true: y}", {"5": "x", "true": "y"}),
        (b"!!set {a, b}", {"a": None, "b": None}),
        (b"a: !!binary aGVsbG8=", {"a": "aGVsbG8="}),
        (b"a: &b [1]\nc: *b", {"a": [1], "c": [1]}),
        (b"at: 12:30:45", {"at": "12:30:45"}),
        (b"a: 9223372036854775808", {"a": 2.0**63}),
    ],
)
def test_yaml_has_the_types_of_json(text: bytes, value: object) -> None:
    assert yaml_document(text) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a: [1, 2", "^yaml: line 1: "),
        (b"a: b\n---\nc: d", "^yaml: "),
        (b"[" * 5_000, "^yaml: exceeded max depth$"),
        (b"- " * 5_000 + b"x", "^yaml: exceeded max depth$"),
        (b"a: .inf", "^json: unsupported value: .Inf$"),
        (b"a: &a [*a]", "^yaml: "),
        (BOMB, "^yaml: document contains excessive aliasing$"),
        (b"a: 1\n" * 500_000, "^yaml: more than 200000 values$"),
        (b"? [a]\n: b", "^yaml: "),
        (b"\xff\xfe\x00", "^yaml: "),
        (b"!!python/object/apply:os.system [echo]", "could not determine a constructor"),
    ],
)
def test_what_is_no_yaml_of_kubernetes_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        yaml_document(text)


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
