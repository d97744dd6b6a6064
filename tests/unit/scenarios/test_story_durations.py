from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.story.part import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200ms", 0.2), ("10s", 10.0), ("5m", 300.0), ("1h30m", 5400.0), ("1m1ms", 60.001), ("0s", 0.0)],
)
def test_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "10 s", "-1s", "1.5s", "30m1h", "1s1s", "s", "5min", "٣s", 10, None, True])
def test_anything_else_is_refused_with_examples(text: object) -> None:
    with pytest.raises(ValueError, match="expected a duration like 200ms, 10s, 5m or 1h30m"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=7 * 24 * 3_600_000))
def test_written_duration_is_read_again(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000
