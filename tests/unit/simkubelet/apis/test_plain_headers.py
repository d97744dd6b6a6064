"""Blocks that are read without a decoder: as a decoder reads them, or not at all."""

from __future__ import annotations

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.apis.grpcwire.frames import header_block, plain_headers

short = st.binary(max_size=126)


@given(st.lists(st.tuples(short, short), max_size=8))
def test_block_of_our_own_gives_its_headers(headers: list[tuple[bytes, bytes]]) -> None:
    assert plain_headers(header_block(headers)) == tuple(headers)


@given(st.binary(max_size=12) | st.lists(st.sampled_from([b"\0", b"\1a", b"\2bc", b"\x40", b"\x82"])).map(b"".join))
def test_any_block_is_read_as_by_a_decoder_or_not_at_all(block: bytes) -> None:
    plain = plain_headers(block)

    if plain is not None:
        assert [tuple(header) for header in Decoder().decode(block, raw=True)] == list(plain)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(Encoder().encode([(b":path", b"/a")]), id="of a table"),
        pytest.param(header_block([(b"a", b"b" * 127)]), id="long"),
        pytest.param(b"\0\x01a\x81\x1f", id="Huffman's"),
        pytest.param(header_block([(b"a", b"bc")])[:-1], id="cut"),
        pytest.param(header_block([(b"a", b"bc")])[:3], id="without a value"),
    ],
)
def test_other_blocks_are_left_to_a_decoder(block: bytes) -> None:
    assert plain_headers(block) is None
