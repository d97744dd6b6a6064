"""Texts of requests as plain values."""

from __future__ import annotations

import pytest

from simkubelet.cluster.api.decoding.documents import json_document, yaml_document

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
        (b"[" * 100_000, "exceeded max depth"),
        (b'{"a":' * 50_000, "exceeded max depth"),
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
        (b"a: &a [*a]", "^yaml: "),
        (BOMB, "^yaml: document contains excessive aliasing$"),
        (b"? [a]\n: b", "^yaml: "),
        (b"\xff\xfe\x00", "^yaml: "),
        (b"!!python/object/apply:os.system [echo]", "could not determine a constructor"),
    ],
)
def test_what_is_no_yaml_of_kubernetes_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        yaml_document(text)
