from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet._internal.native import FNV_OFFSET, fnv1a, fnv1a_decimals


def fnv1a_by_definition(text: bytes, digest: int = FNV_OFFSET) -> int:
    for byte in text:
        digest = (digest ^ byte) * 0x01000193 & 0xFFFFFFFF
    return digest


# From the hash's own page of test vectors: 32 bits, FNV-1a.
@pytest.mark.parametrize(("text", "digest"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)])
def test_known_text_has_its_known_hash(text, digest):
    assert fnv1a(text) == digest


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_any_bytes_have_the_hash_of_the_definition(text, before):
    assert fnv1a(text, before) == fnv1a_by_definition(text, before)


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_hash_continues_where_it_stopped(first, second):
    assert fnv1a(second, fnv1a(first)) == fnv1a(first + second)


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_bytes_are_hashed_as_decimal_numbers(numbers, before):
    assert fnv1a_decimals(numbers, before) == fnv1a(" ".join(map(str, numbers)).encode(), before)
