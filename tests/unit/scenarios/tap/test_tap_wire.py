"""Bytes in and out of the tap's small pieces: frames, headers, messages."""

from __future__ import annotations

import pytest
from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from scenarios.tap.answer import filled, in_parts
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire import messages as grpc_messages
from simkubelet.apis.grpcwire.frames import Frame, FrameReader, header_block

frames = st.lists(
    st.builds(
        Frame,
        st.integers(0, 255),
        st.integers(0, 255),
        st.integers(0, 2**31 - 1),
        st.binary(max_size=300),
    ),
    max_size=8,
)


@given(frames, st.integers(1, 50))
def test_frames_are_read_however_they_come(sent: list[Frame], size: int) -> None:
    encoded = b"".join(frame.encoded() for frame in sent)
    reader, read = FrameReader(), []
    for at in range(0, len(encoded), size):
        reader.feed(encoded[at : at + size])
        read += list(reader.frames())

    assert read == sent
    assert reader.rest() == b""


@pytest.mark.parametrize(
    ("frame", "content"),
    [
        (Frame(0, 0, 1, b"abc"), b"abc"),
        (Frame(0, 8, 1, b"\2abc\0\0"), b"abc"),
        (Frame(1, 0x28, 1, b"\1prioXabc\0"), b"abc"),
        (Frame(1, 0x20, 1, b"prioXabc"), b"abc"),
    ],
)
def test_padding_and_priority_are_no_content(frame: Frame, content: bytes) -> None:
    assert frame.content() == content


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.binary(max_size=20_000))))
def test_headers_are_read_by_any_decoder(headers: list[tuple[bytes, bytes]]) -> None:
    decoder = Decoder(max_header_list_size=1 << 30)

    assert [tuple(one) for one in decoder.decode(header_block(headers), raw=True)] == headers
    assert decoder.header_table.maxsize == 4096


@given(st.text())
def test_any_error_text_is_carried(text: str) -> None:
    ends = grpc_messages.trailers(2, text)

    assert grpc_messages.error_in(ends) == f"rpc error: code = Unknown desc = {text}"
    assert all(byte in range(0x20, 0x7F) for _, value in ends for byte in value)


@pytest.mark.parametrize(("status", "said"), [(b"0", ""), (b"4", "DeadlineExceeded"), (b"99", "Code(99)")])
def test_error_is_in_the_words_of_go(status: bytes, said: str) -> None:
    expected = said and f"rpc error: code = {said} desc = "

    assert grpc_messages.error_in([(b"grpc-status", status)]) == expected
    assert grpc_messages.error_in([(b"content-type", b"application/grpc")]) is None


@given(st.lists(st.text(min_size=1, max_size=8), max_size=20), st.integers(1, 8))
def test_parts_of_a_list_are_the_list(ids: list[str], count: int) -> None:
    whole = api.ListAndWatchResponse(devices=[api.Device(ID=one) for one in ids])
    parts = [api.ListAndWatchResponse.FromString(part) for part in in_parts(whole.SerializeToString(), count)]

    assert [device.ID for part in parts for device in part.devices] == ids
    assert len(parts) == count
    assert max(len(part.devices) for part in parts) - min(len(part.devices) for part in parts) <= 1


def test_what_is_no_list_stays_whole() -> None:
    assert in_parts(b"\xff", 3) == [b"\xff"]


@given(st.binary(max_size=50), st.integers(1, 100_000))
def test_filled_message_says_the_same(device: bytes, size: int) -> None:
    message = api.ListAndWatchResponse(devices=[api.Device(ID=device.hex())]).SerializeToString()
    longer = filled(message, size)

    assert len(longer) == (size if size >= len(message) + 6 else len(message))
    assert [one.ID for one in api.ListAndWatchResponse.FromString(longer).devices] == [device.hex()]


@given(st.lists(st.binary(max_size=40), max_size=6), st.binary(max_size=4), st.integers(1, 30))
def test_ends_of_messages_are_found_however_they_are_cut(sent: list[bytes], rest: bytes, size: int) -> None:
    stream = b"".join(grpc_messages.framed(one) for one in sent) + rest
    ends, found, true = grpc_messages.MessageEnds(), [], 0
    for at in range(0, len(stream), size):
        last = ends.last_in(stream[at : at + size])
        found += [] if last is None else [at + last]

    for one in sent:
        true += len(grpc_messages.framed(one))
    assert (found[-1] if found else 0) == true
    assert ends.is_between == (rest == b"")
