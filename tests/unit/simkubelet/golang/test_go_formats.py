from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.golang.text import formatted, go_duration


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
