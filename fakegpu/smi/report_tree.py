"""The form of the long report: labels with a value, or with what stands below them."""

from __future__ import annotations

from collections.abc import Sequence

Tree = Sequence[tuple[str, "str | Tree"]]
"""Lines in the order of the report. A label may begin with blanks: its line is set in without a heading above it."""
