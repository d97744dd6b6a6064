"""Read which files and functions of Kubernetes the ``Source:`` lines of the code cite, and of which minors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from simkubelet.model.version import SUPPORTED

__all__ = ["STAGING", "Citation", "Cited", "citations"]

STAGING: Final = (
    *("api", "apimachinery", "apiserver", "client-go", "component-base", "component-helpers", "cri-client"),
    *("dynamic-resource-allocation", "kubectl", "kubelet"),
)
"""The modules beside k8s.io/kubernetes that are cited."""
_OURS: Final = frozenset({"kubernetes", "to", "and", *STAGING})
_MINORS: Final = tuple(int(text.removeprefix("1.")) for text in SUPPORTED)
_ROWS: Final = frozenset({"Difference", "Gate"})
_SOURCE: Final = re.compile(r"Source:(.*?)(?:\n\s*\n|\n\s*(?:Raises|Args|Returns|Attributes|Yields):|\Z)", re.DOTALL)
_WORD: Final = re.compile(
    r"``(?P<name>[^`]+)``"
    r"|(?:(?P<owner>[\w./-]*\w) )?v(?P<major>\d+)\.(?P<minor>\d+)\.\d+"
    r"|(?:k8s\.io/)?\b(?P<module>" + "|".join(STAGING) + r")\b(?!/|\.go)"
    r"|(?P<path>[\w-]+(?:/[\w.{},-]*[\w}])+|[\w-]+\.go)\b(?!#)"
)
_OTHERS: Final = re.compile(r"\b(?:Go|go|Linux|etcd) v?\d|Go's|\w\.org/|sigs\.k8s\.io|kube-openapi|github\.com")
_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.\w+)?")


@dataclass(frozen=True, slots=True)
class Cited:
    """A file or folder, and what is cited of it.

    Attributes:
        path: As written, which may leave out its beginning.
        module: The module that was named last before it; empty for none.
        names: Functions and other declarations; empty for all.
    """

    path: str
    module: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Citation:
    """One ``Source:``.

    Attributes:
        line: Where its text begins.
        files: What it cites of files that it names.
        names: What it cites of the files that the module's docstring names.
        minors: Minors of Kubernetes that it speaks of; of the module's docstring where it names none.
        has_others: It cites other projects too, whose files are not Kubernetes'.
        patches: Of a row: the patches from which on a value of it counts, such as "1.34.4".
    """

    line: int
    files: tuple[Cited, ...]
    names: tuple[str, ...]
    minors: tuple[int, ...]
    has_others: bool
    patches: frozenset[str]


def citations(module: str) -> Iterator[Citation]:
    """Yield what the text of a Python module cites, that of its docstring first."""
    minors: tuple[int, ...] = ()
    for line, text, patches in _sources(module):
        found = _citation(line, text, minors, patches)
        minors = minors or found.minors
        yield found


def _sources(module: str) -> Iterator[tuple[int, str, frozenset[str]]]:
    for node in ast.walk(ast.parse(module)):
        match node:
            case ast.Constant(value=str(text)):
                yield from ((node.lineno, " ".join(found[1].split()), frozenset()) for found in _SOURCE.finditer(text))
            case ast.Call(func=ast.Name(id=name), args=[_, ast.Dict(keys=keys), ast.Constant(value=str(text)), *_]) if (
                name in _ROWS
            ):
                releases = (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
                yield node.lineno, text, frozenset(release for release in releases if release.count(".") == 2)


def _citation(line: int, text: str, inherited: tuple[int, ...], patches: frozenset[str]) -> Citation:
    files: list[tuple[str, str, list[str]]] = []
    names: list[str] = []
    minors: set[int] = set()
    module, has_others = "", bool(_OTHERS.search(text))
    for word in _WORD.finditer(text):
        if word["name"]:
            if _NAME.fullmatch(word["name"]):
                (files[-1][2] if files else names).append(word["name"])
        elif word["path"]:
            files += ((path, module, []) for path in _spread(word["path"]))
        elif word["module"]:
            module = word["module"]
        elif (word["owner"] or "kubernetes").rpartition("/")[2] not in _OURS:
            has_others = True
        else:
            first = max(minors) if word["owner"] == "to" and minors else int(word["minor"])
            minors |= set(_MINORS) & set(range(first, int(word["minor"]) + 1))
        if word["owner"] and word["owner"].rpartition("/")[2] in STAGING:
            module = word["owner"].rpartition("/")[2]
    cited = tuple(Cited(path, module, tuple(names)) for path, module, names in files)
    return Citation(line, cited, tuple(names), tuple(sorted(minors)) or inherited, has_others, patches)


def _spread(path: str) -> Iterator[str]:
    """Yield the paths that a path with alternatives in braces stands for."""
    parts = re.split(r"\{([\w,]+)\}", path)
    yield from ("".join(chosen) for chosen in product(*(part.split(",") for part in parts)))
