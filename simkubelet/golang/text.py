"""Text as Go reads and writes it: JSON, lists of what spew prints, quoted strings, formats and durations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring
from typing import Any, Final

from ..apis.documents import load_json

__all__ = [
    "InvalidJsonError",
    "formatted",
    "go_duration",
    "json_fault",
    "json_list",
    "json_string",
    "parse_bool",
    "quoted",
    "read_json",
    "refuse_constant",
    "spew_list",
    "spew_lists",
]

_UNSAFE_IN_HTML: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\"} | dict(zip("\a\b\f\n\r\t\v", map("\\{}".format, "abfnrtv"), strict=True))

_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}

_ENDS_EARLY: Final = "unexpected end of JSON input"
_JSON_SPACE: Final = " \t\r\n"
_LITERALS: Final = {"n": "null", "t": "true", "f": "false"}
_VALUE: Final = "Expecting value"
_KEY: Final = "Expecting property name enclosed in double quotes"
_PLACES: Final = {
    _VALUE: "looking for beginning of value",
    _KEY: "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Extra data": "after top-level value",
}
_NUMBER: Final = re.compile(r"-?[0-9]+(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][+-]?[0-9]+)?\Z")
_LONGEST_NUMBER: Final = 1000
_MOST_SHOWN: Final = 1 << 16
_GOOD_CHARACTERS: Final = re.compile(r'(?:[^"\\\0-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*')
_BAD_ESCAPE: Final = re.compile(r"\\(?:u[0-9A-Fa-f]{0,3})?")
_STRING_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*"|([][{}])', re.DOTALL)

_VERB: Final = re.compile(r"%[#0+\- ]*[0-9]*(?:\.[0-9]*)?(.?)", re.DOTALL)


def formatted(text: str) -> str:
    """Text that somebody gave to Go's formatter as a format, without arguments: ``95% of`` is ``95%!o(MISSING)f``.

    Formats that take a width from the arguments, or count them, are not followed.
    """

    def replacement(found: re.Match[str]) -> str:
        return {"": "%!(NOVERB)", "%": "%"}.get(found[1], f"%!{found[1]}(MISSING)")

    return _VERB.sub(replacement, text)


def json_string(text: str) -> str:
    """A string as Go's JSON encoder writes it: what is unsafe in HTML is escaped, other Unicode is not."""
    encoded: str = encode_basestring(text)
    return encoded if _is_safe_in_html(text) else encoded.translate(_UNSAFE_IN_HTML)


def json_list(texts: Sequence[str]) -> str:
    """A list of strings as Go's JSON encoder writes it."""
    if not texts:
        return "[]"
    together = " ".join(texts)
    if len(encode_basestring(together)) == len(together) + 2 and _is_safe_in_html(together):
        # Nothing is escaped in any of them.
        return '["' + '","'.join(texts) + '"]'
    return "[" + ",".join(map(json_string, texts)) + "]"


class InvalidJsonError(Exception):
    """A text that is no JSON; the message is Go's."""


def read_json(text: str) -> Any:
    """Read JSON.

    Raises:
        InvalidJsonError: it is none.
        ValueError: it has too many levels, or a number of more digits than Python takes.
    """
    try:
        return load_json(text, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        raise InvalidJsonError(json_fault(error)) from None


def refuse_constant(name: str) -> Any:
    """Refuse a number that only Python takes for JSON: NaN, Infinity or -Infinity.

    Raises:
        InvalidJsonError: always.
    """
    if name.startswith("-"):
        raise InvalidJsonError("invalid character 'I' in numeric literal")
    raise InvalidJsonError(f"invalid character '{name[0]}' looking for beginning of value")


def json_fault(error: json.JSONDecodeError) -> str:
    """What Go's reader says of a text that is no JSON.

    Source: Go 1.24, encoding/json/scanner.go.
    """
    text, position = error.doc, error.pos
    if error.msg.startswith("Unterminated string"):
        return _string_fault(text, position + 1)
    if error.msg.startswith("Invalid control"):
        return _fault(text, position, "in string literal")
    if error.msg.startswith("Invalid \\"):
        return _string_fault(text, text.rindex("\\", 0, position + 1))
    if error.msg.startswith("Illegal trailing comma"):
        # Python 3.13 reports the comma, Go what follows it.
        rest = text[position + 1 :].lstrip(_JSON_SPACE)
        return _fault(rest, 0, _PLACES[_VALUE if rest.startswith("]") else _KEY])
    if error.msg == _VALUE and position < len(text):
        literal = _LITERALS.get(text[position], "")
        for number, expected in enumerate(literal):
            if text[position + number : position + number + 1] != expected:
                return _fault(text, position + number, f"in literal {literal} (expecting {_shown(expected)})")
        if text[position] == "-":
            return _fault(text, position + 1, "in numeric literal")
    if position >= len(text.rstrip(_JSON_SPACE)):
        return _ENDS_EARLY
    # Python takes the good part of a number for the whole.
    if (begun := _NUMBER.search(text, max(0, position - _LONGEST_NUMBER), position)) and not begun["exponent"]:
        if text[position] == "." and not begun["fraction"]:
            return _fault(text, position + 1, "after decimal point in numeric literal")
        if text[position] in "eE":
            has_sign = text[position + 1 : position + 2] in ("+", "-")
            return _fault(text, position + 1 + has_sign, "in exponent of numeric literal")
    if error.msg == "Expecting ',' delimiter" and _is_in_list(text[:position]):
        return _fault(text, position, "after array element")
    # What is left is a byte order mark at the beginning.
    return _fault(text, position, _PLACES.get(error.msg, _PLACES[_VALUE]))


def _string_fault(text: str, begin: int) -> str:
    """What is wrong with a string of a JSON text from a place in it."""
    end = _GOOD_CHARACTERS.match(text, begin).end()  # type: ignore[union-attr]  # it matches nothing as well
    escape = _BAD_ESCAPE.match(text, end)
    if escape is None:
        return _ENDS_EARLY if end == len(text) else _fault(text, end, "in string literal")
    place = r"in \u hexadecimal character escape" if len(escape[0]) > 1 else "in string escape code"
    return _fault(text, escape.end(), place)


def _fault(text: str, position: int, place: str) -> str:
    # At the end Go's reader looks at a space once more.
    return f"invalid character {_shown(text[position : position + 1] or ' ')} {place}"


def _is_in_list(text: str) -> bool:
    """Whether the innermost of what has begun and not ended in a JSON text is a list."""
    open_: list[str] = []
    for bracket in _STRING_OR_BRACKET.findall(text):
        if bracket in ("[", "{"):
            open_.append(bracket)
        elif bracket:
            open_.pop()
    return open_[-1:] == ["["]


def _shown(character: str) -> str:
    """A character as Go's JSON quotes it: the first byte of its UTF-8."""
    if character in "'\"":
        return {"'": r"'\''", '"': "'\"'"}[character]
    return f"'{quoted(chr(character.encode(errors='surrogateescape')[0]))[1:-1]}'"


def parse_bool(text: str) -> bool:
    """Read a bool as Go's ``strconv.ParseBool`` does.

    Raises:
        ValueError: it is none; the message is Go's.
    """
    if text not in _BOOLS:
        raise ValueError(f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax")
    return _BOOLS[text]


def spew_list(texts: Sequence[str] | None) -> str:
    """A list of strings as spew prints it; None is a nil one."""
    return "<nil>" if texts is None else f"[{' '.join(texts)}]"


def spew_lists(items: Iterable[tuple[object, Sequence[str] | None]]) -> str:
    """The inside of a map to lists of strings as spew prints it; the caller has sorted the items."""
    return " ".join(f"{key}:{spew_list(texts)}" for key, texts in items)


def quoted(text: str) -> str:
    """Text in quotes as Go's ``%q`` prints it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{text.translate(_SHOWN)}"'


def go_duration(seconds: float) -> str:
    """Whole seconds as Go prints a duration: ``10s``, ``1m20s``, ``5m0s``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _is_safe_in_html(text: str) -> bool:
    if not text.isascii() and ("\u2028" in text or "\u2029" in text):
        return False
    return not ("<" in text or ">" in text or "&" in text)


def _escaped(character: str) -> str:
    if escape := _ESCAPES.get(character):
        return escape
    if character.isprintable():
        return character
    number = ord(character)
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


class _Shown(dict[int, str]):
    """The number of a character -> what stands for it in quotes; kept for the frequent ones, as texts may be long."""

    def __missing__(self, number: int) -> str:
        shown = _escaped(chr(number))
        if number < _MOST_SHOWN:
            self[number] = shown
        return shown


_SHOWN: Final = _Shown()
