from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.golang.text import InvalidJsonError, formatted, go_duration, json_fault, quoted, read_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("95% used", "95%!u(MISSING)sed"),
        ("100%", "100%!(NOVERB)"),
        ("a %% b", "a % b"),
        ("%5.2f x", "%!f(MISSING) x"),
        ("%é", "%!é(MISSING)"),
        ("% d", "%!d(MISSING)"),
        ("50%-20%", "50%"),
        ("%\n", "%!\n(MISSING)"),
    ],
)
def test_formats_without_arguments_are_as_go_prints_them(text: str, expected: str) -> None:
    assert formatted(text) == expected


@given(st.text(st.characters(exclude_characters="%")))
def test_text_without_a_per_cent_sign_stays(text: str) -> None:
    assert formatted(text) == text


@given(st.integers(0, 59), st.integers(0, 10))
def test_durations_are_written_as_go_does(seconds: int, minutes: int):
    expected = f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
    assert go_duration(minutes * 60 + seconds) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "unexpected end of JSON input"),
        ("  ", "unexpected end of JSON input"),
        ('{"a": ', "unexpected end of JSON input"),
        ('{"a": "b', "unexpected end of JSON input"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ('{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ("{1:2}", "invalid character '1' looking for beginning of object key string"),
        ("{} {}", "invalid character '{' after top-level value"),
        ("[tru]", "invalid character ']' in literal true (expecting 'e')"),
        ("nul", "invalid character ' ' in literal null (expecting 'l')"),
        ("[-x]", "invalid character 'x' in numeric literal"),
        ("-", "invalid character ' ' in numeric literal"),
        ("[1.]", "invalid character ']' after decimal point in numeric literal"),
        ("1\n.5", "invalid character '.' after top-level value"),
        ("1.5.2", "invalid character '.' after top-level value"),
        ("2e+", "invalid character ' ' in exponent of numeric literal"),
        ("3e5e", "invalid character 'e' after top-level value"),
        (r'["a\x"]', "invalid character 'x' in string escape code"),
        (r'["\u00g0"]', r"invalid character 'g' in \u hexadecimal character escape"),
        (r'["\u00', r"invalid character ' ' in \u hexadecimal character escape"),
        ('"a\\', "invalid character ' ' in string escape code"),
        ('["a\tb"]', r"invalid character '\t' in string literal"),
        ("NaN", "invalid character 'N' looking for beginning of value"),
        ("-Infinity", "invalid character 'I' in numeric literal"),
        ("\ufeff{}", "invalid character 'ï' looking for beginning of value"),
        ("[é]", "invalid character 'Ã' looking for beginning of value"),
        ("['a']", r"invalid character '\'' looking for beginning of value"),
        ('{"é" x}', "invalid character 'x' after object key"),
        ("01", "invalid character '1' after top-level value"),
        ('{"a":[{"b":"]"}}', "invalid character '}' after array element"),
        ('[{"a":"["]', "invalid character ']' after object key:value pair"),
    ],
)
def test_what_is_no_json_is_refused_as_go_refuses_it(text: str, words: str) -> None:
    with pytest.raises(InvalidJsonError) as caught:
        read_json(text)

    assert str(caught.value) == words


@pytest.mark.parametrize(("text", "place"), [("[1, ]", "value"), ('{"a": 1,\n}', "object key string")])
def test_trailing_comma_is_reported_as_go_does_where_python_knows_it(text: str, place: str) -> None:
    # As Python 3.13 and later say it.
    error = json.JSONDecodeError("Illegal trailing comma before end of it", text, text.index(","))

    assert json_fault(error) == f"invalid character '{text[-1]}' looking for beginning of {place}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '""'),
        ("a é ü", '"a é ü"'),
        ('"\\', r'"\"\\"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\0\x1b\x7f\x80", r'"\x00\x1b\x7f\u0080"'),
        ("\u200b\U000e0001é", r'"\u200b\U000e0001é"'),
    ],
)
def test_text_is_quoted_as_go_does(text: str, expected: str) -> None:
    assert quoted(text) == expected
    assert quoted(text * 2) == f'"{expected[1:-1] * 2}"'


def test_four_megabytes_are_quoted_soon() -> None:
    began_s = time.thread_time()

    assert len(quoted("\x01" * (4 << 20))) == 2 + (16 << 20)

    assert time.thread_time() - began_s < 2
