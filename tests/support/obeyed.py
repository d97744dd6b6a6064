"""Text as strangers may choose it, and what a terminal, a browser or a CI system would obey of it."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from hypothesis import strategies as st

_BIDIRECTIONAL: Final = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_SIGNS: Final = (
    *(":", "::", "#", "##", "[", "]", "error", "vso", " "),
    *("\n", "\r", "\x1b[0m", "\x9b2J", "\u202e", "\udc80"),
)
ANY_TEXT: Final = st.text(st.characters(codec=None)) | st.lists(
    st.sampled_from(_SIGNS) | st.text(max_size=2), max_size=20
).map("".join)
WORKFLOW_COMMAND: Final = re.compile(r"^\s*::[A-Za-z]|##\w*\[", re.MULTILINE)
"""What the runners of GitHub, Azure or TeamCity obey."""


def is_obeyed(character: str) -> bool:
    """Whether a terminal or a browser does something else than to show it."""
    is_control = unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} and character not in "\n\t"
    return is_control or unicodedata.bidirectional(character) in _BIDIRECTIONAL


def is_harmless(text: str) -> bool:
    """Whether nothing in a text is obeyed by a terminal or a browser."""
    return not any(map(is_obeyed, text))
