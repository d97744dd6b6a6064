"""Reads YAML or JSON into plain values as Kubernetes' Go programs do.

That is YAML 1.1 with differences from Python's reader: ``y`` and ``n`` are truth values, ``0o17`` is a number, ``1:30``
and dates are texts; tags of no known kind are passed over; every key is a text in the end.

Source: resolve.go and yaml.go (go.yaml.in/yaml v2.4), yaml.go (sigs.k8s.io/yaml v1.6.0).
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Final

import yaml

from .errors import ConfigError

__all__ = ["go_json", "parse"]

_PLAIN: Final = "!plain"
_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE: Final = frozenset(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"))
_FALSE: Final = frozenset(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"))
_INTEGER: Final = re.compile("[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]*|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LARGEST_INTEGER: Final = 2**64 - 1
_EXPECTED_TOKENS: Final = {
    ("while parsing a block mapping", "<block end>"): "key",
    ("while parsing a block collection", "<block end>"): "'-' indicator",
    ("while parsing a flow node", "the node content"): "node content",
    ("while parsing a block node", "the node content"): "node content",
}
"""What Python's reader was at and expected → what the original's reader says that it expected."""
_WORDS: Final = (
    ("not allowed here$", "not allowed in this context"),
    ("^found character '.*' that", "found character that"),
    ("^found undefined alias '(.*)'", r"unknown anchor '\1' referenced"),
    ("^found unhashable key", "invalid map key"),
)
_EXPONENT_FROM: Final = 1e21
"""From here on Go writes numbers into JSON with an exponent."""


def parse(text: str) -> Any:
    """The first document as what JSON can have; None where there is none. Of equal keys the last counts.

    Raises:
        ConfigError: the text is no YAML, or has a key that is none in JSON.
    """
    if text.lstrip().startswith("{"):
        # JSON may be indented with tabs, which Python's YAML reader does not take.
        with suppress(ValueError):
            return _jsonable(json.loads(text))
    try:
        return _jsonable(next(iter(yaml.load_all(text, _Loader)), None))
    except yaml.YAMLError as error:
        raise ConfigError(f"error converting YAML to JSON: yaml: {_problem(error)}") from error


def go_json(value: Any) -> str:
    """A value as Go writes it in JSON, on one line."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


class _Loader(yaml.SafeLoader):
    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            return "tag:yaml.org,2002:merge" if value == "<<" else _PLAIN
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]  # has no types


def _construct_plain(loader: _Loader, node: yaml.ScalarNode) -> Any:
    text = str(loader.construct_scalar(node))
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(digits) and abs(number := _integer(digits)) <= _LARGEST_INTEGER:
        return number
    return float(digits) if _FLOAT.fullmatch(digits) else text


def _integer(digits: str) -> int:
    unsigned = digits.lstrip("+-")
    is_octal = len(unsigned) > 1 and unsigned.isdecimal() and unsigned.startswith("0")
    number = int(unsigned, 8 if is_octal else 0)
    return -number if digits.startswith("-") else number


def _construct_unknown(loader: _Loader, _suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return node.value


_Loader.add_constructor(_PLAIN, _construct_plain)
_Loader.add_multi_constructor("!", _construct_unknown)


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    if isinstance(value, float) and abs(value) < _EXPONENT_FROM and value.is_integer():
        return int(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _key(key: object) -> str:
    match key:
        case str():
            return key
        case bool():
            return str(key).lower()
        case int() | float():
            return f"{key:g}" if isinstance(key, float) else str(key)
    raise ConfigError("error converting YAML to JSON: unsupported map key of type: %!s(<nil>), key: <nil>")


def _problem(error: yaml.YAMLError) -> str:
    """The error in the words of the original's reader, as far as the two readers agree."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return "control characters are not allowed"
    problem = error.problem or ""
    if expected := re.match("expected (.+?), but (?:got|found) ", problem):
        wanted = _EXPECTED_TOKENS.get((error.context or "", expected.group(1)), expected.group(1))
        text = f"did not find expected {wanted}"
    else:
        text = problem
        for pattern, words in _WORDS:
            text = re.sub(pattern, words, text)
    line = _line(error, problem)
    return f"line {line}: {text}" if line else text


def _line(error: yaml.MarkedYAMLError, problem: str) -> int:
    """The line that the original would tell, 0 for none."""
    mark = error.problem_mark
    if mark is None:
        return 0
    # The original's reader ends the last line if nothing else does.
    line = int(mark.line) + ("<stream end>" in problem and bool(mark.column))
    if line:
        return line + isinstance(error, yaml.scanner.ScannerError)
    return int(error.context_mark.line) if error.context_mark is not None else 0
