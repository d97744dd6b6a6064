"""Fail where scenarios, bench or tools import of simkubelet and fakegpu what is not public.

Public is what ``__all__`` lists in one of these modules, and nothing with a leading underscore:

- the packages `simkubelet` and `fakegpu` and the modules directly in them;
- the ``__init__`` of a package of `simkubelet`;
- each module of `simkubelet.model` and `simkubelet.apis`, which are data and messages;
- each module of `fakegpu.vendors`, one for each vendor's devices.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMPORTERS = ("scenarios", "bench", "tools")
PACKAGES = ("simkubelet", "fakegpu")
MODULE_BY_MODULE = ("simkubelet.apis", "simkubelet.model", "fakegpu.vendors")
_DEEPEST = 2
"""Parts of the name of a public module elsewhere."""


def is_public(module: str) -> bool:
    """Whether names may be imported from a module at all."""
    if any(part.startswith("_") for part in module.split(".")):
        return False
    return module.count(".") < _DEEPEST or module.startswith(tuple(f"{package}." for package in MODULE_BY_MODULE))


def exported(root: Path, module: str) -> set[str]:
    """What a module promises: its ``__all__``, and of a package that is public module by module these modules."""
    place = root.joinpath(*module.split("."))
    is_package = place.is_dir()
    file = place / "__init__.py" if is_package else place.with_suffix(".py")
    names: set[str] = set()
    for node in ast.parse(file.read_text()).body if file.exists() else ():
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__" and isinstance(node, ast.Assign | ast.AnnAssign):
            names |= set(ast.literal_eval(node.value)) if node.value is not None else set()
    if is_package and f"{module}.".startswith(tuple(f"{package}." for package in MODULE_BY_MODULE)):
        names |= {entry.stem for entry in place.iterdir() if not entry.name.startswith("_")}
    return names


def findings(root: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, what is imported) for each import in `text` of what is not public."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported = [(name.name, "") for name in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported = [(node.module or "", name.name) for name in node.names]
        else:
            continue
        for module, name in imported:
            if module.partition(".")[0] in PACKAGES and not (
                is_public(module) and (not name or name in exported(root, module))
            ):
                yield node.lineno, f"{module}.{name}" if name else module


def main() -> int:
    offences = 0
    for folder in IMPORTERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for number, what in findings(ROOT, path.read_text(encoding="utf-8")):
                offences += 1
                print(f"{path.relative_to(ROOT)}:{number}: {what} is not public", file=sys.stderr)
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
