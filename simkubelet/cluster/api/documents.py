"""Texts of requests as plain values: JSON as Go's library reads it, and YAML that could be JSON.

Source: sigs.k8s.io/json, internal/golang/encoding/json (scanner.go, decode.go); sigs.k8s.io/yaml, ``YAMLToJSON``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ..objects import JSON

if TYPE_CHECKING:
    import yaml

__all__ = ["json_document", "yaml_document"]

Pairs = Callable[[list[tuple[str, Any]]], JSON]

_TOO_DEEP: Final = "exceeded max depth"
_EXPECTED: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Extra data": "after top-level value",
}
# As many values as a text has bytes need no aliases; so many more are allowed.
_ALIASED_VALUES: Final = 400_000
# What YAML knows beside JSON's types is text to Kubernetes.
_TEXT_TAGS: Final = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary")


def json_document(body: bytes, pairs: Pairs = dict) -> Any:
    """A JSON text's value; `pairs` makes its objects.

    Bytes that are no UTF-8, and halves of surrogate pairs, become U+FFFD.

    Raises:
        ValueError: it is no JSON, in Go's words.
    """
    text = body.decode(errors="replace")
    try:
        document = json.loads(text, object_pairs_hook=pairs, parse_constant=_refuse_constant)
        if "\\ud" in text.lower():
            plain = json.dumps(document, ensure_ascii=False).encode("utf-16", "surrogatepass")
            document = json.loads(plain.decode("utf-16", "replace"))
    except json.JSONDecodeError as error:
        raise ValueError(_go_words(error)) from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return document


def yaml_document(body: bytes) -> Any:
    """The value of a YAML text, with texts as keys and no types that JSON does not have.

    Raises:
        ValueError: it is no YAML, or has no value in JSON.
    """
    import yaml

    try:
        return _Plain(len(body) + _ALIASED_VALUES).value(yaml.load(body, Loader=_loader()))  # noqa: S506  # a safe one
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark is not None else ""
        raise ValueError(f"yaml: {where}{error.problem}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"yaml: {error}") from None
    except RecursionError:
        raise ValueError(f"yaml: {_TOO_DEEP}") from None


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def text(loader: Loader, node: yaml.ScalarNode) -> str:
        return str(loader.construct_scalar(node))

    def mapping(loader: Loader, node: yaml.MappingNode) -> dict[Hashable, Any]:
        return loader.construct_mapping(node, deep=True)

    for tag in _TEXT_TAGS:
        Loader.add_constructor(tag, text)
    Loader.add_constructor("tag:yaml.org,2002:set", mapping)
    return Loader


class _Plain:
    """Makes JSON's types of what YAML gave, at most `left` values, as aliases can multiply a short text."""

    def __init__(self, left: int) -> None:
        self._left = left

    def value(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError("yaml: document contains excessive aliasing")
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        if isinstance(value, dict):
            return {_key(key): self.value(inner) for key, inner in value.items()}
        return value


def _key(key: object) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, str | int | float):
        return str(key)
    raise ValueError(f"unsupported map key of type {type(key).__name__}")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"invalid character '{name.lstrip('-')[0]}' looking for beginning of value")


def _go_words(error: json.JSONDecodeError) -> str:
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        return "unexpected end of JSON input"
    char = error.doc[error.pos]
    return f"invalid character {char!r} {_EXPECTED.get(error.msg, 'in string literal')}"
