"""Whole numbers that others send, read as by Go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.apis.integers import parse_int


@given(st.integers(-(2**70), 2**70), st.sampled_from([32, 64]), st.integers(0, 10))
def test_numbers_of_so_many_bits_are_read(number: int, bits: int, zeros: int) -> None:
    text = f"{'-' * (number < 0)}{'0' * zeros}{abs(number)}"

    if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        assert parse_int(text, bits) == number
    else:
        with pytest.raises(ValueError, match=f'^strconv.ParseInt: parsing "{text}": value out of range$'):
            parse_int(text, bits)


@pytest.mark.parametrize(
    "text",
    ["", "+", "1_0", " 1", "1\n", "\N{ARABIC-INDIC DIGIT ONE}", "²", "0x1", "1.0", "--1", "\N{FULLWIDTH DIGIT ONE}"],
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid syntax"):
        parse_int(text)


def test_any_length_is_read() -> None:
    assert parse_int("0" * 10_000 + "7") == 7
    with pytest.raises(ValueError, match="value out of range"):
        parse_int("9" * 10_000)
