from __future__ import annotations

import errno
import os

import pytest

from simkubelet._internal.output import give_up, has_no_reader


@pytest.mark.parametrize(
    ("number", "expected"), [(errno.EPIPE, True), (errno.EIO, True), (errno.ENOSPC, False), (errno.EBADF, False)]
)
def test_lost_reader_is_distinguished_from_a_full_disk(number: int, expected: bool) -> None:
    assert has_no_reader(OSError(number, "failed")) is expected


def test_stream_that_is_given_up_flushes_without_an_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        stream.write("nobody reads this")
        with pytest.raises(BrokenPipeError):
            stream.flush()

        give_up(stream)

        stream.flush()
