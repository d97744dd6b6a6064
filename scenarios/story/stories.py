"""Where stories are: the built-in ones, and the files and folders of a user; and which of them a user selects.

Nothing here needs the model, so that a listing starts fast.
"""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from simkubelet.apis.documents import load_yaml, read_file
from simkubelet.model.errors import InputError

ENDINGS = (".yaml", ".yml")
_MOST_LEVELS: Final = 100
_PATTERN_SIGNS = "*?["
_LONGEST_NAME: Final = 255
"""Bytes: NAME_MAX of Linux."""
CHOSEN = (
    "device-unhealthy",
    "gopher-pending",
    "kubelet-restart",
    "amd/partitions-of-one-gpu",
    "bugs/k1-rolling-update-loses-the-new-plugin",
    "conformance/kubelet-restart/registers-again",
    "dra/claim-runs-with-its-device",
    "generic/replicas-share-a-device",
    "gopher/renamed-file",
    "gpu-memory/earliest-pod-is-served-first",
    "gpushare/scheduler-names-the-gpu",
    "iluvatar/refused-registration-ends-the-plugin",
    "kubelet/restart-before-admission",
    "node/pod-resources",
    "node/reboot",
    "nodes/two-nodes-one-gpu-each",
    "nvidia/mig-mixed",
    "nvidia/time-slicing",
    "plugins/cdi-gives-a-pod-its-gpus",
    "plugins/plugin-hangs",
    "pods/static-pod",
    "tap/allocate-hangs",
    "topology/single-numa-node",
    "volcano/shared-memory",
)
"""The built-in stories that are played where a user names none: some of each topic, none of which takes long."""


def builtin() -> dict[str, Path]:
    """The built-in stories, by topic and name (``bugs/…``), those without a topic first."""
    named = {name_of(path): path for path in _catalog().rglob("*.yaml")}
    return dict(sorted(named.items(), key=lambda item: ("/" in item[0], _in_number_order(item[0]))))


def name_of(path: Path) -> str:
    """How a user names a story of this file: by its built-in name, or by its path."""
    return path.relative_to(_catalog()).with_suffix("").as_posix() if is_builtin(path) else str(path)


def is_builtin(path: Path) -> bool:
    """Whether the file is one of the built-in stories."""
    return path.is_relative_to(_catalog())


@cache
def _catalog() -> Path:
    return Path(str(resources.files(__package__))).parent / "catalog"


def _in_number_order(name: str) -> list[str | int]:
    """A key that puts ``k4`` before ``k18``: texts and numbers alternate, so that equal places compare."""
    return [int(part) if part.isascii() and part.isdecimal() else part for part in re.split(r"([0-9]+)", name)]


def chosen() -> list[Path]:
    """The files of the stories that are played where a user names none."""
    known = builtin()
    return [known[name] for name in CHOSEN]


def find(arguments: Iterable[str]) -> list[Path]:
    """The files of the stories that a user names: by built-in name or topic, by file, by a folder, or by a pattern.

    Returns:
        Each file once, in the order given.

    Raises:
        InputError: Something named is no story.
    """
    found: dict[Path, None] = {}
    known = builtin()
    for argument in arguments:
        found.update(dict.fromkeys(_find_one(argument, known)))
    return list(found)


def _find_one(argument: str, known: Mapping[str, Path]) -> list[Path]:
    if not argument:
        raise InputError("a story's name is empty; name one, a file or a folder, such as . for this one")
    path = Path(argument)
    if named := [known[name] for name in known if argument in (name, name.rpartition("/")[2])]:
        return named
    # A user's own folder of stories comes before a topic of its name.
    # Unlike Path.rglob it passes over a folder that vanishes meanwhile.
    walked = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    if files := sorted(file for file in walked if file.suffix in ENDINGS and file.is_file()):
        return files
    if of_topic := [known[name] for name in known if name.startswith(f"{argument.rstrip('/')}/")]:
        return of_topic
    if any(sign in argument for sign in _PATTERN_SIGNS) and (matching := _matching(argument, known)):
        return matching
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in path.parts):
        raise InputError(f"no story '{argument[:40]}…': no file has a name as long as that")
    if path.is_dir():
        raise InputError(f"no story in folder '{argument}'; stories are files that end in .yaml")
    if path.suffix in ENDINGS or path.is_file():
        return [path]
    close = difflib.get_close_matches(argument, [*known, *(path.stem for path in known.values())], n=1)
    hint = (
        f"did you mean '{close[0]}'?"
        if close
        else "'simkubelet list' shows the built-in ones; or name a file or a folder"
    )
    raise InputError(f"no story '{argument}'; {hint}")


def _matching(pattern: str, known: Mapping[str, Path]) -> list[Path]:
    """The files of a pattern such as ``bugs/k1*``: the user's own, else the built-in stories of such a name."""
    # Path.glob takes no absolute pattern.
    paths = map(Path, glob.iglob(pattern, recursive=True))  # noqa: PTH207
    files = sorted(path for path in paths if path.suffix in ENDINGS)
    return files or [
        path
        for name, path in known.items()
        if fnmatchcase(name, pattern) or fnmatchcase(name.rpartition("/")[2], pattern)
    ]


def selected(files: Iterable[Path], expression: str) -> list[Path]:
    """The stories whose name an expression matches, such as ``restart and not (amd or mig)``.

    A word matches each name that contains it, in capitals or not. The name of a built-in story includes its topic.

    Raises:
        InputError: The expression cannot be read, or matches no story.
    """
    matches = _reader(expression)
    found = [path for path in files if matches((name_of(path) if is_builtin(path) else path.stem).lower())]
    if not found:
        raise InputError(f"-k: no story matches '{expression}'; 'simkubelet list' shows the built-in ones")
    return found


def tagged(files: Iterable[Path], tags: Collection[str]) -> list[Path]:
    """The stories that have any of some tags.

    A file that is no YAML, or no story, is among them: to load it will report why.

    Raises:
        InputError: None of the stories has one of the tags.
    """
    found = {path: _tags(contents(path)) for path in files}
    known = sorted({tag for of_story in found.values() for tag in of_story or ()})
    if unknown := sorted(set(tags).difference(known)):
        has = f"their tags are: {', '.join(known)}" if known else "none of them has a tag"
        raise InputError(f"--tag: no story has the tag '{unknown[0]}'; {has}")
    return [path for path, of_story in found.items() if of_story is None or not of_story.isdisjoint(tags)]


def contents(path: Path) -> Any:
    """What a file says, unchecked; None where it cannot be read."""
    try:
        return load_yaml(read_file(path))
    except (OSError, ValueError, yaml.YAMLError):
        return None


def _tags(document: Any) -> frozenset[str] | None:
    """The tags of a story; None where the document cannot be one."""
    tags = document.get("tags", []) if isinstance(document, dict) else None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return None
    return frozenset(tags)


def _reader(expression: str) -> Callable[[str], bool]:
    """What an expression says of a name; ``not`` binds closer than ``and``, and that closer than ``or``."""
    words = deque(re.findall(r"[()]|[^\s()]+", expression))

    def either() -> Callable[[str], bool]:
        choices = [every()]
        while words and words[0] == "or":
            words.popleft()
            choices.append(every())
        return lambda name: any(choice(name) for choice in choices)

    def every() -> Callable[[str], bool]:
        parts = [single()]
        while words and words[0] == "and":
            words.popleft()
            parts.append(single())
        return lambda name: all(part(name) for part in parts)

    def single() -> Callable[[str], bool]:
        word = words.popleft() if words else ""
        if word == "not":
            negated = single()
            return lambda name: not negated(name)
        if word == "(":
            inner = either()
            if words and words.popleft() == ")":
                return inner
        if word in ("", "(", ")", "and", "or"):
            raise unreadable
        return lambda name: word.lower() in name

    unreadable = InputError(f"-k: '{expression}' cannot be read; write words with and, or, not, and parentheses")
    if words.count("(") + words.count("not") > _MOST_LEVELS:
        raise InputError(f"-k: more than {_MOST_LEVELS} parentheses and nots; write a shorter expression")
    matches = either()
    if words:
        raise unreadable
    return matches


def first_sentence(text: str) -> str:
    """The text up to its first full stop, on one line."""
    return " ".join(text.split()).split(". ")[0].rstrip(".")


class Summary(NamedTuple):
    """What a listing shows of a story: the first sentence of its description, and its tags."""

    text: str
    tags: tuple[str, ...]


def summaries() -> dict[str, Summary]:
    """Built-in name -> what a listing shows of the story."""
    documents = {name: contents(path) for name, path in builtin().items()}
    return {name: Summary(first_sentence(one["description"]), tuple(one["tags"])) for name, one in documents.items()}
