"""Finds the two bundled packages that have names which a user's own project may have: `plugin` and `scenarios`.

In a wheel they are ``simkubelet._bundled.plugin`` and ``simkubelet._bundled.scenarios``; in a checkout, installed as
editable or not at all, their folders are beside this package's. A foreign package of the same name elsewhere on the
path is never taken.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
_PACKAGE = __name__.removesuffix("._internal.bundle")


def load(package: str, module: str = "") -> ModuleType:
    """Import a bundled package, or a module of it, in whichever form it is here.

    Raises:
        ImportError: The package is not here, or another package with this name was imported first.
    """
    name = module_name(package)
    if name == package and sys.path[:1] != [str(CHECKOUT)]:
        sys.path.insert(0, str(CHECKOUT))
    found = importlib.import_module(name)
    if name == package and not _is_ours(found):
        raise ImportError(f"another package named '{package}' was imported before simkubelet's own")
    return importlib.import_module(f"{name}.{module}") if module else found


class LazyModule:
    """A module of a bundled package that is imported when one of its names is first used.

    Where it is used the module is imported below ``TYPE_CHECKING`` as well, for type checkers and import-linter.
    """

    def __init__(self, package: str, module: str) -> None:
        self._package = package
        self._module = module

    def __getattr__(self, name: str) -> Any:
        # pytest asks everything in a plugin's module for marks of mocks and of wrapped functions.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(load(self._package, self._module), name)


@cache
def module_name(package: str) -> str:
    """The name for imports and for ``python -m``: bundled where it is, else the flat name."""
    bundled = f"{_PACKAGE}._bundled.{package}"
    try:
        spec = importlib.util.find_spec(bundled)
    except ModuleNotFoundError:
        spec = None
    return bundled if spec is not None else package


def python_path(package: str) -> str:
    """``PYTHONPATH`` for a process that runs ``python -m`` with `module_name`: this process' own, ours first."""
    inherited = os.environ.get("PYTHONPATH", "")
    needed = [str(CHECKOUT)] if module_name(package) == package else []
    return os.pathsep.join(filter(None, [*needed, inherited]))


def _is_ours(module: ModuleType) -> bool:
    return any(Path(entry).resolve().parent == CHECKOUT for entry in getattr(module, "__path__", ()))
