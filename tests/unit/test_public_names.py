"""What packages promise in ``__all__``: sorted, there when asked for, and the same for type checkers."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests.support.doc_pages import blocks

ROOT = Path(__file__).resolve().parents[2]
PROMISED = [
    "fakegpu",
    "simkubelet",
    "simkubelet.cluster",
    "simkubelet.devices",
    "simkubelet.framework",
    "simkubelet.host",
    "simkubelet.kubelet",
    "simkubelet.runtime",
    "simkubelet.stories",
    "simkubelet.testing",
]


DOCUMENTED = ["simkubelet", "simkubelet.framework", "simkubelet.stories", "simkubelet.testing"]
"""Those that are for users; the others are for the programs of this project."""


def source(module: str) -> ast.Module:
    place = ROOT.joinpath(*module.split("."))
    return ast.parse((place / "__init__.py" if place.is_dir() else place.with_suffix(".py")).read_text())


def in_order(names: list[str]) -> list[str]:
    """Constants, classes, functions: the order that the linter gives to a literal ``__all__``."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def of_type_checkers(module: str) -> set[str]:
    """The names that a module imports for type checkers, and those that it imports in any case."""
    names: set[str] = set()
    for node in source(module).body:
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in node.body if isinstance(node, ast.If) and is_for_types else [node]:
            if isinstance(inner, ast.ImportFrom) and inner.module != "__future__":
                names |= {alias.asname or alias.name for alias in inner.names}
    return names - {"TYPE_CHECKING"}


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names_are_sorted_and_there(name: str) -> None:
    module = importlib.import_module(name)

    assert module.__all__
    assert module.__all__ == in_order(module.__all__)
    assert len(module.__all__) == len(set(module.__all__))
    assert all(getattr(module, promised) is not None for promised in module.__all__)
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names_are_those_of_type_checkers(name: str) -> None:
    assert of_type_checkers(name) == set(importlib.import_module(name).__all__)


@pytest.mark.parametrize("name", PROMISED)
def test_no_promised_name_is_that_of_a_module(name: str) -> None:
    """Importing that module would put it in the name's place."""
    place = ROOT.joinpath(*name.split("."))
    modules = {entry.stem for entry in place.iterdir()} if place.is_dir() else set()

    assert modules.isdisjoint(importlib.import_module(name).__all__)


def test_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'simkubelet' has no attribute 'Kublet'"):
        getattr(importlib.import_module("simkubelet"), "Kublet")  # noqa: B009  # a type checker refuses the other form


@pytest.mark.parametrize("name", DOCUMENTED)
def test_each_name_for_users_is_in_an_example_that_is_played(name: str) -> None:
    examples = "".join(block.text for block in blocks("docs/api.md") if block.is_played and block.language == "python")

    assert [one for one in importlib.import_module(name).__all__ if not re.search(rf"\b{one}\b", examples)] == []
