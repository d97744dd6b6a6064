"""Public names of a package, or of a module like one, whose modules are loaded when a name is first used.

A command loads few modules, and none because a package makes it public. For type checkers the package imports the names
below ``TYPE_CHECKING``; tests/unit/test_public_names.py compares both.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping


def exports(
    package: str, homes: Mapping[str, Collection[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: Its ``__name__``.
        homes: Relative name of a module, such as ``.clock`` -> the names that are defined there.
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(modules[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *modules})
