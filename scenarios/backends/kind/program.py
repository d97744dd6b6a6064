"""A program of the user's on a cluster's node: what it needs of this machine, and how it is brought there.

A program is carried with the shared libraries that the dynamic loader gives it here, a script with its interpreter,
and each argument that names a file with that file, a Python script with the modules beside it that it imports. In its
container every file has the path that it has here.
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simkubelet.model.errors import InputError

from ...story.specs import PluginSpec
from .node import PLACE

PROGRAMS: Final = f"{PLACE}/programs"
"""The folder on a node below which the files of users' programs lie, each at its own path."""
LDD: Final = "/usr/bin/ldd"
_NATIVE: Final = b"\x7fELF"
_SCRIPT: Final = b"#!"
_LONGEST_LINE_BYTES: Final = 256
"""Of a script's first line; Linux, include/uapi/linux/binfmts.h, ``BINPRM_BUF_SIZE``."""


@dataclass(frozen=True, slots=True)
class Program:
    """What runs in a container: the words, and the files that the plugin image does not have."""

    argv: tuple[str, ...]
    files: frozenset[Path]


def programs_of(specs: Iterable[PluginSpec], replacements: Mapping[str, Sequence[str]]) -> dict[str, Program]:
    """Return plugin -> its program, for the plugins that are not bundled.

    Args:
        specs: A story's plugins.
        replacements: Plugin name -> argv that takes the place of its own program.

    Raises:
        InputError: One cannot run anywhere else.
    """
    found = {}
    for spec in specs:
        replacement = replacements.get(spec.name)
        if argv := spec.foreign_program(replacement):
            try:
                found[spec.name] = carried(argv, spec.working_folder(replacement))
            except InputError as error:
                raise InputError(f"plugin '{spec.name}': {error}") from None
    return found


def archive_of(programs: Iterable[Program]) -> bytes:
    """All files of some programs as a tar archive, to be unpacked at a node's root."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path in sorted({path for program in programs for path in program.files}):
            archive.add(path.resolve(), f"{PROGRAMS}{path}")
    return stream.getvalue()


def volume_of(path: Path) -> str:
    """A name for the volume of a carried file."""
    return f"file-{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"


def carried(argv: Sequence[str], folder: Path | None = None) -> Program:
    """What a command needs to run elsewhere; relative paths of files begin in `folder`.

    Raises:
        InputError: It cannot.
    """
    words, files = _runnable(_found(argv[0]))
    # Not Path.is_file, which raises where a word, a whole script perhaps, is too long for a path.
    places = [os.path.join(folder or "", word) for word in argv[1:]]  # noqa: PTH118
    given = [_whole(Path(place)) if os.path.isfile(place) else None for place in places]  # noqa: PTH113
    rest = [word if path is None else str(path) for word, path in zip(argv[1:], given, strict=True)]
    named = {path for path in given if path is not None}
    return Program((*words, *rest), frozenset(files) | named | _modules_beside(named))


def _found(name: str) -> Path:
    # As on the simulator, the Python that runs it comes before others.
    place = shutil.which(name, path=os.pathsep.join([f"{sys.prefix}/bin", os.environ.get("PATH", os.defpath)]))
    if place is None:
        raise InputError(f"no program '{name}'; give its path or put its folder on PATH")
    return _whole(Path(place))


def _whole(path: Path) -> Path:
    """The path from the root, with its own last name: a program may look at how it is called."""
    return path.parent.resolve() / path.name


def _runnable(place: Path) -> tuple[list[str], set[Path]]:
    """The words that start a program, and the files that they need."""
    if place.resolve() == Path(sys.executable).resolve():
        return [str(place.resolve())], set()
    if re.fullmatch(r"python[0-9.]*", place.resolve().name):
        raise InputError(
            f"{place} is another Python than the one that runs simkubelet, which a cluster's nodes have; "
            f"use {sys.executable}"
        )
    with place.open("rb") as file:
        line = file.read(_LONGEST_LINE_BYTES).partition(b"\n")[0]
    if line.startswith(_NATIVE):
        return [str(place)], {place, *_libraries(place)}
    if not line.startswith(_SCRIPT):
        raise InputError(f"{place} is neither a native program nor a script that begins with '#!' and its interpreter")
    interpreter, *options = line.removeprefix(_SCRIPT).decode(errors="replace").split(maxsplit=1) or [""]
    if Path(interpreter).name == "env" and options:
        interpreter, *options = options[0].split()
    try:
        words, files = _runnable(_found(interpreter))
    except InputError as error:
        raise InputError(f"the interpreter of {place}: {error}") from None
    return [*words, *options, str(place)], {place, *files}


def _modules_beside(scripts: Iterable[Path]) -> set[Path]:
    """The modules in the folders of Python scripts that these import, and those that they import in turn."""
    found: set[Path] = set()
    left = [path for path in scripts if path.suffix == ".py"]
    while left:
        script = left.pop()
        try:
            tree = ast.parse(script.read_bytes())
        except (SyntaxError, ValueError):
            # Python says what is wrong, there as here.
            continue
        statements = list(ast.walk(tree))
        names = {alias.name for one in statements if isinstance(one, ast.Import) for alias in one.names}
        names |= {one.module for one in statements if isinstance(one, ast.ImportFrom) and one.module and not one.level}
        beside = {script.parent / f"{name}.py" for name in names}
        new = {path for path in beside if path.is_file()} - found
        found |= new
        left += new
    return found


def _libraries(program: Path) -> list[Path]:
    listed = subprocess.run([LDD, str(program)], capture_output=True, text=True, check=False).stdout
    if missing := re.findall(r"(\S+) => not found", listed):
        raise InputError(f"{program} needs {', '.join(missing)}, which the dynamic loader does not find here")
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", listed)]
