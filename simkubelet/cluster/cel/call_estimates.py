"""What calls of functions may cost, by the sizes of their operands.

Source: cel-go v0.26.0, checker/cost.go (``functionCost``); k8s.io/apiserver v0.34.4, pkg/cel/library/cost.go
(``EstimateCallCost``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from .sizes import MOST, ONE, Range, rounded

__all__ = ["KUBERNETES", "STANDARD", "TRAVERSAL", "Estimated", "constant"]

TRAVERSAL: Final = 0.1
"""The cost of reading a character."""
_REGEX: Final = 0.25


class Estimated(NamedTuple):
    """The cost of a call without that of its operands, and the size of its result where that is known."""

    cost: Range
    size: Range | None = None


_Sizes: TypeAlias = list[Range]


def constant(_: _Sizes) -> Estimated:
    """What most functions cost."""
    return Estimated(ONE)


def _first(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].by(TRAVERSAL))


def _first_kept(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].by(TRAVERSAL), sizes[0])


def _second(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[1].by(TRAVERSAL))


def _split(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].by(2 * TRAVERSAL), Range(0, sizes[0].high))


def _replace(sizes: _Sizes) -> Estimated:
    text, old, new = sizes[:3]
    low = _replaced(text.low, old.high, new.low, is_shorter=old.high > new.low)
    high = _replaced(text.high, old.low, new.high, is_shorter=old.low < new.high)
    return Estimated(text.by(2 * TRAVERSAL), Range(low, high))


def _replaced(text: int, old: int, new: int, *, is_shorter: bool) -> int:
    """How long a text becomes; `is_shorter` where replacing changes its length to the side that is asked for."""
    if old == 0:
        return min(min(text + 1, MOST) * new + text, MOST)
    if not is_shorter:
        return text
    return min(rounded(text / old) * new, MOST)


def _in(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[1].by(1))


def _contains(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].by(TRAVERSAL).times(sizes[1].by(TRAVERSAL)))


def _matches(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].plus(ONE).by(TRAVERSAL).times(sizes[1].by(_REGEX)))


def _compared(sizes: _Sizes) -> Estimated:
    high = min(sizes[0].high, sizes[1].high)
    return Estimated(Range(min(high, 1), high).by(TRAVERSAL))


def _joined(sizes: _Sizes) -> Estimated:
    size = sizes[0].plus(sizes[1])
    return Estimated(size.by(TRAVERSAL), size)


def _list_joined(sizes: _Sizes) -> Estimated:
    return Estimated(ONE, sizes[0].plus(sizes[1]))


def _to_bytes(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].by(TRAVERSAL), Range(sizes[0].low, sizes[0].high * 4 & MOST))


def _to_text(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].by(TRAVERSAL), Range(sizes[0].low // 4, sizes[0].high))


def _quoted(sizes: _Sizes) -> Estimated:
    low, high = sizes[0]
    return Estimated(sizes[0].by(TRAVERSAL), Range(low + 2, (high * 2 + 2) & MOST))


_OfSizes: TypeAlias = Callable[[_Sizes], Estimated]
KUBERNETES: Final[Mapping[str, _OfSizes]] = {
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _first_kept),
    **dict.fromkeys(("indexOf", "lastIndexOf", "quantity", "isQuantity", "semver", "isSemver"), _first),
    "replace": _replace,
    "split": _split,
}
STANDARD: Final[Mapping[str, _OfSizes]] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _second),
    **dict.fromkeys(
        (
            f"{comparison}_{kind}"
            for comparison in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _compared,
    ),
    **dict.fromkeys(("equals", "not_equals"), _compared),
    **dict.fromkeys(("add_string", "add_bytes"), _joined),
    "add_list": _list_joined,
    "in_list": _in,
    "matches_string": _matches,
    "contains_string": _contains,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_text,
    "strings_quote": _quoted,
    "string_format": _first,
}
