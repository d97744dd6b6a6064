"""Hypothesis strategy for objects of the API: every field of the right type, and of whatever value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from simkubelet.cluster.api.decoding.definitions import Schema, resolved, schema_of

__all__ = ["objects"]

_TEXTS = st.sampled_from(
    ["", "c", "n", "a.b/c", "nvidia.com/gpu", "Always", "Exists", "In", "True", "Running", "Ä -", "1"]
)
_NUMBERS = st.sampled_from([0, 1, -1, 80, 65536, 2**31 - 1])
_QUANTITIES = st.sampled_from(["1", "0", "-1", "1500m", "1Gi"])
_DATES = st.sampled_from(["2026-01-02T03:04:05Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
_MOST_FIELDS = 5
_DEEPEST = 9

Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def objects(draw: Draw, kind: str, group: str, always: Mapping[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
    """An object of a kind of version v1 with the metadata of its name alone.

    Args:
        draw: Hypothesis' own.
        kind: the kind.
        group: the kind's group.
        always: the fields of its spec that it has, and their strategies; half of the objects have others too.
    """
    properties = schema_of(group, "v1", kind)["properties"]
    made = {part: _value(draw, properties[part], 0) for part in ("spec", "status")}
    return {
        **made,
        "spec": {**(made["spec"] if draw(st.booleans()) else {}), **draw(st.fixed_dictionaries(dict(always)))},
    }


def _value(draw: Draw, schema: Schema, depth: int) -> Any:
    plain = resolved(schema)
    if "oneOf" in plain:
        return draw(_QUANTITIES if "format" not in plain else st.one_of(_NUMBERS, _TEXTS))
    match plain.get("type"):
        case "string":
            return draw(_DATES if plain.get("format") == "date-time" else _TEXTS)
        case "integer":
            return draw(_NUMBERS)
        case "boolean":
            return draw(st.booleans())
        case "array":
            return [_value(draw, plain["items"], depth + 1) for _ in range(draw(st.integers(0, 2)))]
        case "object" if "additionalProperties" in plain:
            keys = draw(st.lists(_TEXTS, max_size=2, unique=True))
            return {key: _value(draw, plain["additionalProperties"], depth + 1) for key in keys}
    properties = sorted(plain.get("properties", ()))
    if not properties or depth > _DEEPEST:
        return {}
    names = draw(st.lists(st.sampled_from(properties), max_size=_MOST_FIELDS, unique=True))
    return {name: _value(draw, plain["properties"][name], depth + 1) for name in names}
