"""The annotation with the shares of a pod."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plugin.gpumemory.vgpu_shares import Share, read_shares, written_shares

words = st.text(st.characters(exclude_characters=",:;"), min_size=1)
shares = st.builds(Share, words, words, st.integers(0, 2**31), st.integers(0, 100))


@given(st.lists(st.lists(shares), min_size=2))
def test_what_is_written_is_read_again(containers: list[list[Share]]) -> None:
    assert read_shares(written_shares(containers)) == containers


@given(st.text("GPU,:;-1 "))
def test_existing_files_are_read(text: str) -> None:
    assert sum(map(len, read_shares(text))) <= text.count(",")


def test_a_number_that_is_none_is_nothing() -> None:
    assert read_shares("GPU-1,NVIDIA,x:;") == [[Share("GPU-1", "NVIDIA", 0, 0)], []]
