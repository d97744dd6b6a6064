"""Where stories are: the built-in ones, and the files and folders of a user.

Nothing here needs the model, so that a listing starts fast.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

import yaml

from simkubelet.model.errors import InputError

ENDINGS = (".yaml", ".yml")
CHOSEN = (
    "device-unhealthy",
    "gopher-pending",
    "kubelet-restart",
    "amd/partitions-of-one-gpu",
    "bugs/k1-rolling-update-loses-the-new-plugin",
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
    catalog = _catalog()
    return path.relative_to(catalog).with_suffix("").as_posix() if path.is_relative_to(catalog) else str(path)


@cache
def _catalog() -> Path:
    return Path(str(resources.files(__package__))).parent / "catalog"


def _in_number_order(name: str) -> list[str | int]:
    """A key that puts ``k4`` before ``k18``: texts and numbers alternate, so that equal places compare."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def chosen() -> list[Path]:
    """The files of the stories that are played where a user names none."""
    known = builtin()
    return [known[name] for name in CHOSEN]


def find(arguments: Iterable[str]) -> list[Path]:
    """The files of the stories that a user names: by built-in name or topic, by file, or by a folder that holds some.

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
    path = Path(argument)
    if named := [known[name] for name in known if argument in (name, name.rpartition("/")[2])]:
        return named
    # A user's own folder of stories comes before a topic of its name.
    if files := sorted(file for file in path.rglob("*") if file.suffix in ENDINGS and file.is_file()):
        return files
    if of_topic := [known[name] for name in known if name.startswith(f"{argument.rstrip('/')}/")]:
        return of_topic
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


def first_sentence(text: str) -> str:
    """The text up to its first full stop, on one line."""
    return " ".join(text.split()).split(". ")[0].rstrip(".")


def summaries() -> dict[str, str]:
    """Built-in name -> first sentence of the description."""
    return {name: first_sentence(yaml.safe_load(path.read_bytes())["description"]) for name, path in builtin().items()}
