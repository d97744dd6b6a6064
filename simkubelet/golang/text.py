"""Text as Go reads and writes it: JSON, lists of what spew prints, quoted strings, formats and durations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring
from typing import Any, Final

__all__ = [
    "InvalidJsonError",
    "formatted",
    "go_duration",
    "json_list",
    "json_string",
    "parse_bool",
    "quoted",
    "read_json",
    "spew_list",
    "spew_lists",
]

_UNSAFE_IN_HTML: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\"} | dict(zip("\a\b\f\n\r\t\v", map("\\{}".format, "abfnrtv"), strict=True))

_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}

_VERB: Final = re.compile(r"%[#0+\- ]*\d*(?:\.\d*)?(.?)", re.DOTALL)


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
    """A text that is no JSON; the message is Go's for the usual mistakes."""


def read_json(text: str) -> Any:
    """Read JSON.

    Raises:
        InvalidJsonError: it is none.
        ValueError: it is deeper than Python reads, or has a number of more digits than Python takes.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            message = f"invalid character {text[error.pos]!r} after top-level value"
        elif error.msg == "Expecting value" and error.pos < len(text):
            message = f"invalid character {text[error.pos]!r} looking for beginning of value"
        else:
            message = "unexpected end of JSON input"
        raise InvalidJsonError(message) from None
    except RecursionError as error:
        raise ValueError(str(error)) from None


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
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escaped(c)) for c in text) + '"'


def go_duration(seconds: float) -> str:
    """Whole seconds as Go prints a duration: ``10s``, ``1m20s``, ``5m0s``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _is_safe_in_html(text: str) -> bool:
    if not text.isascii() and ("\u2028" in text or "\u2029" in text):
        return False
    return not ("<" in text or ">" in text or "&" in text)


def _escaped(character: str) -> str:
    number = ord(character)
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
