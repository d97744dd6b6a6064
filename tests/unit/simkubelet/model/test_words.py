"""How many there are of something, in words."""

from __future__ import annotations

import pytest

from simkubelet.model.words import number_of


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (0, ("device",), "0 devices"),
        (1, ("device",), "1 device"),
        (2, ("story", "stories"), "2 stories"),
        (1, ("story", "stories"), "1 story"),
        (1000, ("node",), "1,000 nodes"),
    ],
)
def test_number_of_things_is_in_words(count: int, words: tuple[str, ...], text: str) -> None:
    assert number_of(count, *words) == text
