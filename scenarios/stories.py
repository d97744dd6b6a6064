"""Where stories are: those that come along, and the files and folders of a user.

Nothing here needs the model, so that a listing starts fast.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from simkubelet.errors import InputError

from .positioned import read_yaml

ENDINGS = (".yaml", ".yml")


def builtin() -> dict[str, Path]:
    """The stories that come along, by name in alphabetical order."""
    catalog = Path(str(resources.files(__package__).joinpath("catalog")))
    return {path.stem: path for path in sorted(catalog.rglob("*.yaml"), key=lambda path: path.stem)}


def find(arguments: Iterable[str]) -> list[Path]:
    """The files of the stories that a user names: by built-in name, by file, or by a folder that holds some.

    Returns:
        Each file once, in the order given; all built-in stories where nothing is named.

    Raises:
        InputError: Something named is no story.
    """
    found: dict[Path, None] = {}
    for argument in arguments:
        found.update(dict.fromkeys(_find_one(argument)))
    return list(found or dict.fromkeys(builtin().values()))


def _find_one(argument: str) -> list[Path]:
    path, known = Path(argument), builtin()
    if argument in known:
        return [known[argument]]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in ENDINGS and file.is_file())
        if not files:
            raise InputError(f"no story in folder '{argument}'; stories are files that end in .yaml")
        return files
    if path.suffix in ENDINGS or path.is_file():
        return [path]
    close = difflib.get_close_matches(argument, known, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(known)}, or name a file or a folder"
    raise InputError(f"no story '{argument}'; {hint}")


def first_sentence(text: str) -> str:
    """The text up to its first full stop, on one line."""
    return " ".join(text.split()).split(". ")[0].rstrip(".")


def summaries() -> dict[str, str]:
    """Built-in name -> first sentence of the description."""
    return {
        name: first_sentence(str(read_yaml(path.read_bytes()).data["description"])) for name, path in builtin().items()
    }
