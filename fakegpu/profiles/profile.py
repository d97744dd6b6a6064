"""GPU profiles by name or file: what one model of GPU is, and how a server places several of them.

A profile is a YAML file, in ``profiles/`` of the package or anywhere else. The number of GPUs is not part of it: a
machine with more GPUs than ``topology.slots`` has further servers of the same kind, each in PCI domains of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from ..errors import InputError
from .profile_model import Profile

_NAME: Final = re.compile(r"^[a-z0-9][a-z0-9.-]*$")
_KEY: Final = re.compile(r"([\w.]+): (.*)")
_SUFFIX: Final = ".yaml"
_Model = TypeVar("_Model", bound=BaseModel)


@cache
def profile_names() -> tuple[str, ...]:
    """Names of the profiles that come with the package, sorted."""
    folder = files(__package__)
    return tuple(sorted(entry.name.removesuffix(_SUFFIX) for entry in folder.iterdir() if entry.name.endswith(_SUFFIX)))


def is_file_name(name: str) -> bool:
    """Whether ``name`` means a file: it ends in ``.yaml`` or ``.yml``, or has a slash."""
    return "/" in name or name.endswith((_SUFFIX, ".yml"))


def profile_text(name: str) -> str:
    """The YAML of one profile, by the name of one of the package or by its file.

    Raises:
        InputError: no profile has this name, or the file cannot be read.
    """
    if is_file_name(name):
        return _read(Path(name))
    if not _NAME.match(name) or name not in profile_names():
        raise InputError(
            f"no GPU profile '{name}'; there are {', '.join(profile_names())}, or give a file, ./NAME.yaml"
        )
    return (files(__package__) / f"{name}{_SUFFIX}").read_text(encoding="utf-8")


def parse_profile(text: str, where: str) -> Profile:
    """Reads YAML as a profile.

    Args:
        text: the YAML.
        where: name of the file, for the message.

    Raises:
        InputError: a key is unknown or missing, a value has the wrong type or is impossible, or a figure has no
            source; names the first such place by file and line.
    """
    return parse_as(Profile, text, where)


def load_profile(name: str) -> Profile:
    """A profile, by the name of one of the package or by its file.

    Raises:
        InputError: as ``profile_text`` and ``parse_profile``.
    """
    return parse_profile(profile_text(name), name if is_file_name(name) else f"{name}{_SUFFIX}")


def parse_as(model: type[_Model], text: str, where: str) -> _Model:
    """Reads YAML as ``model``.

    Raises:
        InputError: as ``parse_profile``.
    """
    try:
        content = yaml.load(text, Loader=LOADER)  # noqa: S506 - one of the safe loaders
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: not YAML: {' '.join(str(error).split())}") from None
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        path: list[Any] = list(first["loc"])
        if not path and (named := _KEY.match(message)):
            path, message = named[1].split("."), named[2]
        key = f"{'.'.join(map(str, path))}: " if path else ""
        raise InputError(f"{where}:{line_of(text, path)}: {key}{message}") from None


LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C parser where PyYAML has it: ten times as fast."""


def line_of(text: str, path: Sequence[str | int]) -> int:
    """Line, from 1, of the innermost part of ``path`` that the YAML has."""
    node = yaml.compose(text, Loader=LOADER)
    line = 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = (node.value[part], node.value[part])
        else:
            found = None
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return int(line)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a profile: the file is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
