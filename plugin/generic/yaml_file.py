"""A YAML file as values that know their line, and complaints that begin with ``FILE:LINE:``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml

from simkubelet.apis.documents import BoundsError, compose_yaml, read_file

from ..errors import UsageError

__all__ = ["Value", "read_yaml"]

_T = TypeVar("_T")


class Value:
    """A value of the file and where it stands; `path` names it in complaints."""

    def __init__(self, file: Path, node: yaml.Node, path: str) -> None:
        self.path = path
        self._file = file
        self._node = node

    def fail(self, message: str) -> NoReturn:
        """Complain about this value.

        Raises:
            UsageError: always.
        """
        where = f" {self.path}:" if self.path else ""
        raise UsageError(f"{self._file}:{self._node.start_mark.line + 1}:{where} {message}")

    def plain(self, kind: type[_T], description: str) -> _T:
        """A text, a number or a truth value; `description` says what is expected.

        Raises:
            UsageError: it is something else.
        """
        value: Any = None
        if self._is_scalar:
            with suppress(yaml.YAMLError, ValueError):
                value = yaml.SafeLoader("").construct_object(self._node)
        # A truth value is a number for Python alone.
        if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
            self.fail(f"{self._found}; write {description}")
        return value

    def items(self, description: str) -> Iterator[Value]:
        """The entries of a list.

        Raises:
            UsageError: it is not a list.
        """
        if not isinstance(self._node, yaml.SequenceNode):
            self.fail(f"{self._found}; write {description}")
        for index, node in enumerate(self._node.value):
            yield Value(self._file, node, f"{self.path}[{index}]")

    def fields(self, known: Mapping[str, str] | None, description: str) -> dict[str, Value]:
        """The entries of a mapping.

        Args:
            known: The keys that it may have, with what each is for; None where any text is a key.
            description: What is expected.

        Raises:
            UsageError: it is not a mapping, or has a key that is unknown, not text, or there twice.
        """
        if not isinstance(self._node, yaml.MappingNode):
            self.fail(f"{self._found}; write {description}")
        found: dict[str, Value] = {}
        for key_node, node in self._node.value:
            key = Value(self._file, key_node, self.path).plain(str, "a text as the key")
            value = Value(self._file, key_node, f"{self.path}.{key}" if self.path else key)
            if known is not None and key not in known:
                value.fail(f"unknown key; the keys here are {', '.join(known)}")
            if key in found:
                value.fail("this key is there twice; leave one out")
            value._node = node
            found[key] = value
        return found

    @property
    def is_text(self) -> bool:
        """Whether it is a text and no list or mapping."""
        return self._is_scalar and self._node.tag == "tag:yaml.org,2002:str"

    @property
    def _is_scalar(self) -> bool:
        return isinstance(self._node, yaml.ScalarNode)

    @property
    def _found(self) -> str:
        if isinstance(self._node, yaml.ScalarNode):
            return f"found {self._node.value!r}" if self._node.value else "found nothing"
        return "found a list" if isinstance(self._node, yaml.SequenceNode) else "found a mapping"


def read_yaml(file: Path) -> Value:
    """Read a file with one YAML document.

    Raises:
        UsageError: it cannot be read, or is no YAML.
    """
    try:
        node = compose_yaml(read_file(file), yaml.SafeLoader)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}; name a file that can be read") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        text = " ".join(filter(None, (error.context, error.problem)))
        raise UsageError(f"{file}:{mark.line + 1 if mark else 1}: {text}; write YAML") from error
    except BoundsError as error:
        line = error.mark.line + 1 if error.mark else 1
        raise UsageError(f"{file}:{line}: {error}; write a mapping with 'resource' and 'devices'") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{file}: {' '.join(str(error).split())}; write YAML in UTF-8") from error
    if node is None:
        raise UsageError(f"{file}: the file is empty; write a resource and its devices")
    return Value(file, node, "")
