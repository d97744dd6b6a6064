"""Bodies of requests as plain values: JSON as Go's library reads it, and YAML that could be JSON.

Source: sigs.k8s.io/json, internal/golang/encoding/json (scanner.go, decode.go); sigs.k8s.io/yaml, ``YAMLToJSON``
(kubernetes v1.34.4).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Hashable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ....apis.documents import MOST_VALUES, BoundsError, load_json, load_yaml
from ....golang.text import InvalidJsonError, json_fault, refuse_constant

if TYPE_CHECKING:
    import yaml

__all__ = ["json_document", "yaml_document"]

# What YAML knows beside JSON's types is text to Kubernetes.
_TEXT_TAGS: Final = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary")
_INT64_DIGITS: Final = 19
_MOST_DIGITS: Final = 300
_NOT_FINITE: Final = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}


def json_document(body: bytes, faults: list[str] | None = None) -> Any:
    """A JSON text's value; duplicate fields of an object are added to `faults`.

    Bytes that are not UTF-8, and halves of surrogate pairs, become U+FFFD.

    Raises:
        ValueError: it is not JSON; the message is Go's.
    """
    text = body.decode(errors="replace")
    try:
        document = load_json(
            text, object_pairs_hook=_Object, parse_constant=refuse_constant, parse_int=_integer, parse_float=_float
        )
        if faults is not None:
            faults += [f'duplicate field "{path}"' for path in _repeated(document, "")]
        if "\\ud" in text.lower():
            plain = json.dumps(document, ensure_ascii=False).encode("utf-16", "surrogatepass")
            document = json.loads(plain.decode("utf-16", "replace"))
    except json.JSONDecodeError as error:
        raise ValueError(json_fault(_with_bytes(error, body))) from None
    except InvalidJsonError as error:
        raise ValueError(str(error)) from None
    return document


def _with_bytes(error: json.JSONDecodeError, body: bytes) -> json.JSONDecodeError:
    """The error about a JSON text as Go sees it: with the bytes that are not UTF-8."""
    try:
        load_json(body.decode(errors="surrogateescape"), parse_constant=refuse_constant)
    except json.JSONDecodeError as found:
        return found
    return error


def _integer(text: str) -> int | float:
    """A number of JSON without a point, as Go reads it: what is no int64 is a float64."""
    number = int(text) if len(text) <= _INT64_DIGITS + 1 else None
    return number if number is not None and -(2**63) <= number < 2**63 else _float(text)


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"json: cannot unmarshal number {text[:_INT64_DIGITS]}... into Go value of type float64")
    return number


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
        return _plain(load_yaml(body, _loader(), most=MOST_VALUES))
    except yaml.MarkedYAMLError as error:
        raise ValueError(f"yaml: {_go_line(error)}{error.problem}") from None
    except (BoundsError, yaml.YAMLError) as error:
        raise ValueError(f"yaml: {error}") from None


@cache
def _loader() -> type[yaml.SafeLoader]:
    """A safe loader that knows JSON's types; in C where PyYAML has that, as Go's parser is a copy of libyaml."""
    import yaml

    def text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
        return str(loader.construct_scalar(node))

    def integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
        # Numbers of base 60 are texts in Go.
        if ":" in node.value or len(node.value) > _MOST_DIGITS:
            return text(loader, node)
        number = loader.construct_yaml_int(node)
        return number if -(2**63) <= number < 2**63 else float(number)

    def number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
        return text(loader, node) if ":" in node.value else loader.construct_yaml_float(node)

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Hashable, Any]:
        return loader.construct_mapping(node, deep=True)

    loader: type[yaml.SafeLoader] = type("Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
    for tag in _TEXT_TAGS:
        loader.add_constructor(tag, text)
    loader.add_constructor("tag:yaml.org,2002:int", integer)
    loader.add_constructor("tag:yaml.org,2002:float", number)
    loader.add_constructor("tag:yaml.org,2002:set", mapping)
    return loader


def _plain(value: Any) -> Any:
    """What YAML gave, with JSON's types."""
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {_key(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"json: unsupported value: {_NOT_FINITE[str(value)]}")
    return value


def _go_line(error: yaml.MarkedYAMLError) -> str:
    """The line as Go's parser counts it: from zero, except in what is no token; line zero is not mentioned."""
    found = error.problem_mark.line if error.problem_mark is not None else 0
    if found:
        found += type(error).__name__ == "ScannerError"
    elif error.context_mark is not None:
        found = error.context_mark.line
    return f"line {found}: " if found else ""


def _key(key: object) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, str | int | float):
        return str(key)
    raise ValueError(f"unsupported map key of type {type(key).__name__}")
