"""Label and field selectors as a query names them.

Source: staging/src/k8s.io/apimachinery/pkg/labels/selector.go, pkg/fields/selector.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ....apis.integers import parse_int
from ...objects.objects import JSON
from ..errors import FieldError, StatusError
from ..registry.kinds import Kind
from ..registry.names import is_label_value, is_qualified_name

__all__ = ["Place", "Requirement", "Selection", "SelectorError", "parse_fields", "parse_labels"]

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_TOKEN: Final = re.compile(r"\s*(!=|==|=|!|,|\(|\)|<|>|[^\s!=,()<>]+|$)")
_SYMBOLS: Final = ("!=", "==", "=", "!", ",", "(", ")", "<", ">")
_BINARY: Final = "in, notin, =, ==, !=, gt, lt"
_OPERATORS: Final = ("in", "notin", "=", "==", "!=", ">", "<")
_NEGATIVE: Final = ("notin", "!=")


class SelectorError(Exception):
    """A text that is not a selector; the message is the API server's."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label must be; `operator` is one of those of the text, or ``exists`` and ``!``."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "in" | "=" | "==":
                return value in self.values
            case "notin" | "!=":
                return value not in self.values
            case _:
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        (limit,) = self.values
        try:
            number, bound = parse_int(value), parse_int(limit)
            return number > bound if self.operator == ">" else number < bound
        except ValueError:
            return False


class _Tokens:
    def __init__(self, text: str) -> None:
        self._tokens: deque[str] = deque(_TOKEN.findall(text))

    def look(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def take(self) -> str:
        return self._tokens.popleft() if self._tokens else ""


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The requirements of a label selector, all of which must hold.

    Raises:
        SelectorError: it is none.
    """
    tokens = _Tokens(text)
    found: list[Requirement] = []
    while (word := tokens.look()) != "":
        if word in _SYMBOLS and word != "!":
            raise SelectorError(f"found '{word}', expected: !, identifier, or 'end of string'")
        try:
            found.append(_requirement(tokens))
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from None
        end = tokens.take()
        if end == "":
            break
        if end != ",":
            raise SelectorError(f"found '{end}', expected: ',' or 'end of string'")
        following = tokens.look()
        if following == "" or (following in _SYMBOLS and following != "!"):
            raise SelectorError(f"found '{following}', expected: identifier after ','")
    return tuple(found)


def _requirement(tokens: _Tokens) -> Requirement:
    key = tokens.take()
    absent = key == "!"
    if absent:
        key = tokens.take()
    if key == "" or key in _SYMBOLS:
        raise SelectorError(f"found '{key}', expected: identifier")
    if faults := is_qualified_name(key):
        raise SelectorError(str(FieldError.invalid("<nil>", key, "; ".join(faults))))
    if absent or tokens.look() in ("", ","):
        return Requirement(key, "!" if absent else "exists")
    operator = tokens.take()
    if operator not in _OPERATORS:
        raise SelectorError(f"found '{operator}', expected: {_BINARY}")
    values = _listed_values(tokens) if operator in ("in", "notin") else {_exact_value(tokens)}
    for value in sorted(values):
        if operator in ("<", ">") and not _INTEGER.fullmatch(value):
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise SelectorError(str(FieldError.invalid("values[0]", value, why)))
        if faults := is_label_value(value):
            raise SelectorError(str(FieldError.invalid(f"values[0][{key}]", value, "; ".join(faults))))
    return Requirement(key, operator, frozenset(values))


def _exact_value(tokens: _Tokens) -> str:
    if tokens.look() in ("", ","):
        return ""
    value = tokens.take()
    if value in _SYMBOLS:
        raise SelectorError(f"found '{value}', expected: identifier")
    return value


def _listed_values(tokens: _Tokens) -> set[str]:
    opening = tokens.take()
    if opening != "(":
        raise SelectorError(f"found '{opening}' expected: '('")
    values: set[str] = set()
    last = ","
    while True:
        word = tokens.take()
        if word == ")":
            return values | {""} if last == "," else values
        if word == ",":
            if last == ",":
                values.add("")
        elif word == "" or word in _SYMBOLS:
            expected = "',', or identifier" if last == "," else "',' or ')'"
            raise SelectorError(f"found '{word}', expected: {expected}")
        elif last != ",":
            raise SelectorError(f"found '{word}', expected: ',' or ')'")
        else:
            values.add(word)
        last = word


def _by_key(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return found


class _Labels:
    """Requirements as they are looked at for each object: a hundred thousand of them take as long as its labels do.

    A label that must not be there, or not have some values, is looked for among those of the object.
    """

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        requirements = tuple(dict.fromkeys(requirements))
        self._absent = frozenset(one.key for one in requirements if one.operator == "!")
        others = [one for one in requirements if one.operator in _NEGATIVE]
        self._refused = _by_key((one.key, value) for one in others for value in one.values)
        self._needed = [one for one in requirements if one.operator not in ("!", *_NEGATIVE)]

    def match(self, labels: Mapping[str, str]) -> bool:
        """Whether all hold for the labels of an object."""
        return (
            labels.keys().isdisjoint(self._absent)
            and not any(value in self._refused.get(key, ()) for key, value in labels.items())
            and all(one.matches(labels) for one in self._needed)
        )


def parse_fields(text: str) -> tuple[tuple[str, str, bool], ...]:
    """The terms of a field selector: field, value, and whether they must be equal.

    Raises:
        SelectorError: it is none.
    """
    terms = []
    for part in sorted(re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL)):
        found = re.match(r"(.*?)(!=|==|=)(.*)", part, re.DOTALL)
        if found is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        name, operator, value = found.groups()
        terms.append((name, _unescaped(value), operator != "!="))
    return tuple(terms)


def _unescaped(value: str) -> str:
    if found := re.search(r"(?:^|[^\\])(?:\\\\)*(\\([^\\,=])|\\$)", value):
        raise SelectorError(f"invalid field selector: invalid escape sequence: {found[1]}")
    return re.sub(r"\\(.)", r"\1", value)


@dataclass(frozen=True, slots=True)
class Place:
    """One field and the value that all objects of a selection have there; `value_of` reads it from any object."""

    field: str
    value: str
    value_of: Callable[[JSON], str]


def _namespace(obj: JSON) -> str:
    return str(obj["metadata"].get("namespace", ""))


_EVERYWHERE: Final = Place("", "", lambda obj: "")


class Selection:
    """Which objects of a kind a request is about.

    Attributes:
        namespace: the only one of them; None for all.
        place: the first field whose value is asked for; else the namespace, or the empty field that all have.
    """

    def __init__(self, kind: Kind, namespace: str | None, labels: str = "", fields: str = "") -> None:
        """Read the selectors.

        Raises:
            StatusError: one of them cannot be understood, or not for this kind.
        """
        try:
            self._labels = _Labels(parse_labels(labels))
            terms = [(name, self._getter(kind, name), value, equal) for name, value, equal in parse_fields(fields)]
        except SelectorError as error:
            raise StatusError.bad_request(str(error)) from None
        # One getter for each field, whatever number of values it must not have.
        getters = {name: getter for name, getter, _, _ in terms}
        self._wanted = [
            (getters[name], value) for name, value in {(name, value) for name, _, value, equal in terms if equal}
        ]
        refused = _by_key((name, value) for name, _, value, equal in terms if not equal)
        self._refused = [(getters[name], values) for name, values in refused.items()]
        self.namespace = namespace
        places = [Place(name, value, getter) for name, getter, value, equal in terms if equal]
        if namespace is not None:
            places.append(Place("metadata.namespace", namespace, _namespace))
        self.place = [*places, _EVERYWHERE][0]

    @staticmethod
    def _getter(kind: Kind, field: str) -> Callable[[JSON], str]:
        kind.field_value(field, {"metadata": {}})
        return lambda obj: kind.field_value(field, obj)

    def matches(self, obj: JSON) -> bool:
        metadata = obj["metadata"]
        if self.namespace is not None and _namespace(obj) != self.namespace:
            return False
        return (
            all(value(obj) == wanted for value, wanted in self._wanted)
            and all(value(obj) not in values for value, values in self._refused)
            and self._labels.match(metadata.get("labels") or {})
        )
