"""Files, JSON and YAML of others, read within bounds: bytes of a file, levels of a document, aliases of YAML.

Go's libraries count levels, up to 10,000. Python's readers end where the interpreter's stack does, elsewhere in each
version, and what walks over a document recurses as well. So levels are counted here, up to a number that all of it can
do on any Python. A text that has too few brackets to be so deep is not scanned.

Source: encoding/json/scanner.go, ``maxNestingDepth`` (Go 1.24); goyaml.v2/decode.go, ``allowedAliasRatio``, and
scannerc.go, ``max_flow_level`` (sigs.k8s.io/yaml v1.6.0).
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import yaml

__all__ = [
    "LARGEST_CHECKPOINT",
    "LARGEST_FILE",
    "LARGEST_RECORD",
    "MOST_LEVELS",
    "MOST_VALUES",
    "BoundsError",
    "check_depth",
    "compose_yaml",
    "load_json",
    "load_yaml",
    "read_file",
]

LARGEST_FILE: Final = 10 << 20
"""Bytes of a file. Source: kubelet/config/file.go, ``maxConfigLength`` (kubernetes v1.34.4)."""
MOST_LEVELS: Final = 200
"""Levels of lists and mappings. What kinds of Kubernetes have is no deeper than 40."""
LARGEST_CHECKPOINT: Final = 64 << 20
"""Bytes of what a kubelet keeps."""
LARGEST_RECORD: Final = 256 << 20
"""Bytes of what a program writes by itself, such as a trace."""
MOST_VALUES: Final = 200_000
"""Of a document that is read as a whole: what YAML makes of ten megabytes takes a minute."""
_PATIENCE_S: Final = 10
_PART: Final = 1 << 20
_STRING_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[][{}]', re.DOTALL)
_LEVEL_BEGINS: Final = (b"\n", b"\r", b"\xc2\x85", b"\xe2\x80", b"[", b"{", b"-", b"?")
"""Each level of a YAML text in UTF-8 begins with one of these, and two at most with the same one."""
_SHORT: Final = 1 << 16
_TOO_DEEP: Final = "exceeded max depth"
_DEEP_FOR_LIBYAML: Final = "maximum nesting depth"
_LONGEST_NUMBER: Final = 3_500
"""Characters. Python writes no integer of more than 4,300 digits; a hexadecimal number becomes longer as it is written.
Reading 1:59:59, a number of YAML 1.1, takes the square of its length."""
_NUMBER: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|[0-9_]+(?::[0-9_]+)*)")
_LIKE_A_LONG_NUMBER: Final = re.compile(rb"(?<![-+0-9a-fA-Fx_:])[-+0-9a-fA-Fx_:]{%d}" % (_LONGEST_NUMBER + 1))
_ALIASED_VALUES: Final = 400_000
"""As many values as a text has bytes need no aliases; so many more are allowed."""


class BoundsError(ValueError):
    """A document has more levels than `MOST_LEVELS`, or its aliases make too much of it; the message is Go's.

    `mark` is the place in a YAML text, as PyYAML's errors have it; None in JSON.
    """

    def __init__(self, message: str, mark: Any = None) -> None:
        super().__init__(message)
        self.mark = mark


def read_file(path: str | os.PathLike[str] | int, limit: int = LARGEST_FILE, *, within_s: float | None = None) -> bytes:
    """All of a file, which may be a pipe in which somebody writes; or what a descriptor has not yet read of one.

    Waits at most `within_s` for each part of what is no regular file: 10 seconds, and 0 where others are not to wait.

    Raises:
        OSError: it cannot be read, is larger than `limit`, or nothing came; `strerror` says it.
    """
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.dup(path) if isinstance(path, int) else os.open(path, flags)
    except BlockingIOError as error:
        # Source: fcntl(2), "Leases".
        raise BlockingIOError(error.errno, "is kept by a lease of another process", path) from None
    try:
        size = os.fstat(descriptor).st_size
        content = bytearray()
        wait_s = _PATIENCE_S if within_s is None else within_s
        readable = select.poll()
        readable.register(descriptor, select.POLLIN)
        while max(size, len(content)) <= limit:
            if not readable.poll(wait_s * 1000):
                raise TimeoutError(errno.ETIMEDOUT, f"nothing was written to it for {wait_s:g} s", path)
            try:
                part = os.read(descriptor, min(_PART, limit + 1 - len(content)))
            except OSError as error:
                raise OSError(error.errno, error.strerror, path) from None
            if not part:
                return bytes(content)
            content += part
    finally:
        os.close(descriptor)
    raise OSError(errno.EFBIG, f"it is larger than {_shown(limit)}", path)


def _shown(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size} bytes"


def load_json(text: str | bytes, **hooks: Any) -> Any:
    """The value of a JSON text, read with the hooks of ``json.loads``.

    Raises:
        json.JSONDecodeError: it is no JSON.
        BoundsError: it has too many levels before anything else is wrong.
        UnicodeDecodeError: it is bytes that are no text.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    end = _end_of_levels(text)
    if end is None:
        return json.loads(text, **hooks)
    try:
        json.loads(text[:end], **hooks)
    except json.JSONDecodeError as error:
        if error.pos < end:
            raise
    raise BoundsError(_TOO_DEEP)


def _end_of_levels(text: str) -> int | None:
    """Where the bracket of the first level that is too deep ends."""
    if text.count("[") + text.count("{") <= MOST_LEVELS:
        return None
    level = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        if found[0] in "[{":
            level += 1
            if level > MOST_LEVELS:
                return found.end()
        elif found[0] in "]}":
            level -= 1
    return None


def check_depth(value: Any, levels: int = MOST_LEVELS) -> None:
    """Refuse a value of lists and dictionaries that has more levels.

    Raises:
        BoundsError: it has.
    """
    level = [value]
    for _ in range(levels + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise BoundsError(_TOO_DEEP)


def load_yaml(
    text: str | bytes, kind: type[yaml.SafeLoader] | None = None, *, is_first: bool = False, most: int | None = None
) -> Any:
    """The value of a text with one YAML document, made by a safe loader; None where it has none.

    With `is_first` the text may have more of them, which are not read. `most` is as for `compose_yaml`.

    Raises:
        yaml.YAMLError: it is no YAML, or has several documents.
        BoundsError: it has too many levels, or too many values once its aliases are followed.
        ValueError: it has a value that Python does not have, such as the 30th of February.
    """
    return _from_yaml(text, kind, _constructed, is_first=is_first, most=most)


def _constructed(loader: Any, node: yaml.Node | None) -> Any:
    return None if node is None else loader.construct_document(node)


def compose_yaml(
    text: str | bytes, kind: type[yaml.SafeLoader] | None = None, most: int | None = None
) -> yaml.Node | None:
    """The nodes of a text with one YAML document; None where it has none.

    Args:
        text: The text.
        kind: A safe loader, by default the fastest.
        most: How many values it may have where that is not for its length alone to say.

    Raises:
        yaml.YAMLError: it is no YAML, or has several documents.
        BoundsError: it has too many levels, or too many values once its aliases are followed.
    """
    node: yaml.Node | None = _from_yaml(text, kind, lambda loader, node: node, most=most)
    return node


def _from_yaml(
    text: str | bytes,
    kind: type[yaml.SafeLoader] | None,
    result: Callable[[Any, Any], Any],
    *,
    is_first: bool = False,
    most: int | None = None,
) -> Any:
    import yaml

    make: Any = kind or getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    encoded = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    try:
        # A text in UTF-16 has NULs.
        is_simple = len(encoded) <= _SHORT and b"*" not in encoded and b"\0" not in encoded
        is_simple = is_simple and not _LIKE_A_LONG_NUMBER.search(encoded)
        if not is_simple or sum(map(encoded.count, _LEVEL_BEGINS)) > MOST_LEVELS // 2:
            _check_events(text, make, most or len(encoded) + _ALIASED_VALUES, is_first=is_first)
        loader = make(text)
        try:
            has_node = not is_first or loader.check_node()
            node = None if not has_node else loader.get_node() if is_first else loader.get_single_node()
            return result(loader, node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        if _DEEP_FOR_LIBYAML in str(error.problem):
            raise BoundsError(_TOO_DEEP, error.problem_mark) from None
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise yaml.YAMLError(f"a value is not of the type of its tag: {error}") from None


def _check_events(text: str | bytes, kind: Any, most: int, *, is_first: bool) -> None:
    """Refuse a text with too many levels, or too many values once its aliases are followed.

    A composer recurses, and a loop over an endless value does not end; a parser keeps its levels in a list.
    """
    import yaml

    anchored: dict[str, tuple[int, int]] = {}
    """Levels and values of what has an anchor; none while it has not ended."""
    open_ = [_Open(None)]
    total, has_aliases = 0, False
    event: Any
    for event in yaml.parse(text, Loader=kind):
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append(_Open(event.anchor))
            levels, values = 0, 1
        elif isinstance(event, yaml.CollectionEndEvent):
            ended = open_.pop()
            levels, values = ended.levels + 1, ended.values
            total -= values
            if ended.anchor is not None:
                anchored[ended.anchor] = levels, values
        elif isinstance(event, yaml.ScalarEvent):
            is_plain = event.tag is not None or event.implicit[0]
            if len(event.value) > _LONGEST_NUMBER and is_plain and _NUMBER.fullmatch(event.value):
                raise BoundsError(f"a number of more than {_LONGEST_NUMBER} characters", event.start_mark)
            levels, values = 0, 1
            if event.anchor is not None:
                anchored[event.anchor] = levels, values
        elif isinstance(event, yaml.AliasEvent):
            if any(one.anchor == event.anchor for one in open_):
                raise BoundsError(f"anchor '{event.anchor}' value contains itself", event.start_mark)
            has_aliases = True
            # An unknown one is the composer's to report.
            levels, values = anchored.get(str(event.anchor), (0, 0))
        elif is_first and isinstance(event, yaml.DocumentEndEvent):
            return
        else:
            continue
        around = open_[-1]
        around.levels = max(around.levels, levels)
        around.values += values
        total += values
        if len(open_) - 1 + levels > MOST_LEVELS:
            raise BoundsError(_TOO_DEEP, event.start_mark)
        if total > most:
            many = "document contains excessive aliasing" if has_aliases else f"more than {most} values"
            raise BoundsError(many, event.start_mark)


@dataclass(slots=True)
class _Open:
    """A collection that has not ended: levels and values in it so far."""

    anchor: str | None
    levels: int = 0
    values: int = 0
