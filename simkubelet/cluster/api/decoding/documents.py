"""Texts of requests as plain values: JSON as Go's library reads it, and YAML that could be JSON.

Source: sigs.k8s.io/json, internal/golang/encoding/json (scanner.go, decode.go); sigs.k8s.io/yaml, ``YAMLToJSON``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import yaml

__all__ = ["json_document", "yaml_document"]

_TOO_DEEP: Final = "exceeded max depth"
_EXPECTED: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Extra data": "after top-level value",
}
_LITERALS: Final = {"n": "null", "t": "true", "f": "false"}
# As many values as a text has bytes need no aliases; so many more are allowed.
_ALIASED_VALUES: Final = 400_000
# What YAML knows beside JSON's types is text to Kubernetes.
_TEXT_TAGS: Final = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary")


def json_document(body: bytes, faults: list[str] | None = None) -> Any:
    """A JSON text's value; duplicate fields of an object are added to `faults`.

    Bytes that are not UTF-8, and halves of surrogate pairs, become U+FFFD.

    Raises:
        ValueError: it is not JSON; the message is Go's.
    """
    text = body.decode(errors="replace")
    try:
        document = json.loads(text, object_pairs_hook=_Object, parse_constant=_refuse_constant)
        if faults is not None:
            faults += [f'duplicate field "{path}"' for path in _repeated(document, "")]
        if "\\ud" in text.lower():
            plain = json.dumps(document, ensure_ascii=False).encode("utf-16", "surrogatepass")
            document = json.loads(plain.decode("utf-16", "replace"))
    except json.JSONDecodeError as error:
        raise ValueError(_go_words(error)) from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return document


class _Object(dict[str, Any]):
    """An object of a JSON text, which knows the names that it has twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs) if len(pairs) > len(self) else {}
        self.repeated = [name for name, count in counts.items() if count > 1]


def _repeated(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _repeated(inner, f"{path}[{index}]")
    elif isinstance(value, _Object):
        yield from (f"{path}.{name}".lstrip(".") for name in value.repeated)
        for name, inner in value.items():
            yield from _repeated(inner, f"{path}.{name}".lstrip("."))


def yaml_document(body: bytes) -> Any:
    """The value of a YAML text, with texts as keys and no types that JSON does not have.

    Raises:
        ValueError: it is not YAML, or has no value in JSON.
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
    literal = _LITERALS.get(char, "")
    for expected, found in zip(literal[1:], error.doc[error.pos + 1 :], strict=False):
        if found != expected:
            return f"invalid character {_shown(found)} in literal {literal} (expecting {_shown(expected)})"
    return f"invalid character {_shown(char)} {_EXPECTED.get(error.msg, 'in string literal')}"


def _shown(char: str) -> str:
    """A character as Go's JSON quotes it."""
    return r"'\''" if char == "'" else f"'{char}'"
