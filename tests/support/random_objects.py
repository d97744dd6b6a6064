"""Random changes of whole objects: fields are left out or have other values, lists their items again.

What values may become says a `Pool`, which is that of the objects.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

__all__ = ["Change", "Pool", "changed", "changes"]

_QUANTITY: Final = re.compile(r"-?\d+(\.\d+)?(Gi|Mi|m|u|e3)?")


class Change(NamedTuple):
    """A change of an object: where (modulo the number of its places), what, and with which value of a pool."""

    place: int
    what: str
    value: int


class Pool(NamedTuple):
    """What the values of some objects may become.

    Attributes:
        texts: for texts that are no quantities, and for more keys of maps.
        numbers: for whole numbers.
        quantities: for quantities.
        times_more: how often a list may have its items again.
        maps: the fields that are maps.
        untouched: fields that stay as they are, with all in them.
        never_empty: lists that are left out where they are empty.
        parts: of an object that are changed; all but `untouched` where none is named.
    """

    texts: Sequence[str]
    numbers: Sequence[int]
    quantities: Sequence[str]
    times_more: Sequence[int]
    maps: Sequence[str]
    untouched: Sequence[str] = ()
    never_empty: Sequence[str] = ()
    parts: Sequence[str] = ("spec", "status")


changes = st.lists(
    st.builds(
        Change, st.integers(0, 999), st.sampled_from(("out", "value", "value", "more", "empty")), st.integers(0, 199)
    ),
    max_size=4,
)


def changed(whole: Mapping[str, Any], drawn: Sequence[Change], pool: Pool) -> dict[str, Any]:
    """An object in which fields are left out or have other values, lists their items again, and maps one more key."""
    found = copy.deepcopy(dict(whole))
    more = [change for change in drawn if change.what == "more"]
    for change in drawn:
        if change in more[1:]:
            # Lists in long lists would be millions of items.
            continue
        values = [found.get(part) for part in pool.parts] or [found]
        places = [place for value in values for place in _places(value, pool)]
        places = [(parent, key) for parent, key in places if parent is not found or key not in ("apiVersion", "kind")]
        if places:
            parent, key = places[change.place % len(places)]
            _change(parent, key, change, pool)
    _leave_out_empty(found, pool)
    return found


def _leave_out_empty(value: Any, pool: Pool) -> None:
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _leave_out_empty(inner, pool)
    if isinstance(value, dict):
        for name in pool.never_empty:
            if value.get(name) == []:
                del value[name]


def _change(parent: Any, key: Any, change: Change, pool: Pool) -> None:
    old, is_empty = parent[key], change.what == "empty"
    if change.what == "out":
        del parent[key]
    elif isinstance(old, bool):
        parent[key] = not old
    elif isinstance(old, int):
        parent[key] = pool.numbers[change.value % len(pool.numbers)]
    elif isinstance(old, str):
        texts = pool.quantities if _QUANTITY.fullmatch(old) else pool.texts
        parent[key] = texts[change.value % len(texts)]
    elif isinstance(old, list):
        times = pool.times_more[change.value % len(pool.times_more)] if change.what == "more" else -is_empty
        parent[key] = old * (1 + times)
    elif isinstance(old, dict) and key in pool.maps:
        one = next(iter(old.values()), "x")
        parent[key] = {} if is_empty else {**old, pool.texts[change.value % len(pool.texts)]: copy.deepcopy(one)}


def _places(value: Any, pool: Pool) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if key not in pool.untouched:
            yield value, key
            yield from _places(inner, pool)
