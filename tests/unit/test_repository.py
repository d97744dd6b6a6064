"""What the pages and the configuration promise about the checkout, compared with the checkout."""

from __future__ import annotations

import ast
import graphlib
import importlib
import importlib.metadata
import inspect
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import simkubelet.model.errors

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("fakegpu", "plugin", "scenarios", "simkubelet")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def page(name: str) -> str:
    return (ROOT / name).read_text()


def sources() -> list[Path]:
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return sorted(path for path in found if "_generated" not in path.parts)


def nox_sessions(tag: str = "") -> set[str]:
    """The names of the sessions of noxfile.py, or of those with a tag."""
    functions = (node for node in ast.parse(page("noxfile.py")).body if isinstance(node, ast.FunctionDef))
    decorated = ((function.name, list(map(ast.unparse, function.decorator_list))) for function in functions)
    return {name for name, decorators in decorated if decorators and (not tag or f"tags=[{tag}]" in decorators[0])}


@pytest.mark.parametrize("command", ["dev", ".ci/run"])
def test_command_has_run_bit(command):
    assert os.access(ROOT / command, os.X_OK)


def test_readme_shows_both_commands():
    shown = re.findall(r"^\./dev [\w -]+$", page("README.md"), re.MULTILINE)

    assert shown == ["./dev run kubelet-restart", "./dev test"]


def test_ci_runs_the_readmes_test_command():
    assert set(re.findall(r"\./dev \w+", page(".ci/run"))) == {"./dev test"}


def test_quick_run_has_lint_unit_and_catalogue():
    assert nox_sessions("QUICK") == {"lint", "unit", "catalogue"}


def test_contributing_names_every_nox_session():
    named = set(re.findall(r"^\| `(\w+)` \|", page("CONTRIBUTING.md"), re.MULTILINE))

    assert named == nox_sessions()


def test_contributing_gives_the_exit_status_of_every_error_class():
    listed = {int(status) for status in re.findall(r"^\| (\d+) \|", page("CONTRIBUTING.md"), re.MULTILINE)}
    classes = inspect.getmembers(simkubelet.model.errors, inspect.isclass)
    used = {error.exit_status for _, error in classes if issubclass(error, simkubelet.model.errors.SimkubeletError)}

    assert listed == used | {0, 130}


def test_versions_agree():
    declared = PYPROJECT["project"]["version"]
    latest = re.search(r"^## \[?(\d[^\]\s]*)", page("CHANGELOG.md"), re.MULTILINE)

    assert latest is not None
    assert latest.group(1) == declared
    assert importlib.metadata.version("simkubelet") == declared


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_typed(package):
    assert (ROOT / package / "py.typed").exists()


@pytest.mark.parametrize("package", PACKAGES)
def test_package_promises_exactly_its_public_names(package):
    module = importlib.import_module(package)
    assert all(hasattr(module, name) for name in module.__all__), "what is loaded on demand is there"
    defined = {name for name, value in vars(module).items() if not name.startswith("_") and not inspect.ismodule(value)}

    assert defined - {"annotations"} == set(module.__all__)


def test_imports_of_our_own_package_are_relative():
    absolute = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        # Programs of stories are no modules of the package.
        if "catalog" not in path.parts
        for node in imports_of(path)
        if isinstance(node, ast.ImportFrom) and not node.level
        if (node.module or "").partition(".")[0] == path.relative_to(ROOT).parts[0]
    ]

    assert absolute == []


@cache
def imports_of(file: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """The import statements anywhere in a file's text."""
    nodes = ast.walk(ast.parse(file.read_text()))
    return tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def imported(file: Path, root: Path) -> Iterator[str]:
    """Yield the full name of each module, or name in a module, that a file imports anywhere in its text."""
    folder = file.parent.relative_to(root).parts
    for node in imports_of(file):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        else:
            parents = folder[: len(folder) + 1 - node.level] if node.level else ()
            module = ".".join([*parents, *filter(None, [node.module])])
            yield from (f"{module}.{name.name}" for name in node.names)


def import_graph(files: Iterable[Path], root: Path) -> dict[str, set[str]]:
    """Return which of the modules in `files` each one imports; a package is the module of its ``__init__.py``."""
    modules = {".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file for file in files}
    found = {}
    for module, file in modules.items():
        homes = {name if name in modules else name.rpartition(".")[0] for name in imported(file, root)}
        found[module] = homes & modules.keys() - {module}
    return found


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the modules of one circle, the first of them also as the last; empty where there is no circle."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle():
    assert circle(import_graph(sources(), ROOT)) == []


@pytest.mark.parametrize(
    ("back", "length"),
    [
        ("from .a import name", 2),
        ("from made.a import name", 2),
        ("import made.a", 2),
        ("if TYPE_CHECKING:\n    from . import a", 2),
        ("def function():\n    from .a import name", 2),
        ("from . import name", 3),
        ("from .c import name", 0),
    ],
)
def test_circle_of_modules_is_found_whatever_way_they_import(tmp_path: Path, back: str, length: int):
    texts = {"__init__": "from .a import name", "a": "from .b import name", "b": back, "c": "name = 1"}
    (tmp_path / "made").mkdir()
    for name, text in texts.items():
        (tmp_path / "made" / f"{name}.py").write_text(text)

    assert len(set(circle(import_graph(tmp_path.rglob("*.py"), tmp_path)))) == length


def fidelity_rows() -> list[list[str]]:
    lines = page("docs/fidelity.md").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [row for row in rows if len(row) == 5 and row[0] not in ("observable", "---")]


def test_fidelity_page_names_modules_that_are_there():
    named = {module for row in fidelity_rows() for module in re.findall(r"`([\w/]+(?:\.py|\.c|\.yaml|/))`", row[2])}

    assert named
    folders = [ROOT / "simkubelet", ROOT / "fakegpu", ROOT]
    assert [module for module in sorted(named) if not any((folder / module).exists() for folder in folders)] == []


def test_fidelity_page_names_tests_sequences_and_stories_that_are_there():
    verified = "; ".join(row[3] for row in fidelity_rows())
    tests = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    recordings = [page(f"tests/oracle/{name}.jsonl") for name in ("sequences", "dra_sequences")]
    recorded = {json.loads(line)["name"] for text in recordings for line in text.splitlines()}
    catalog = {path.stem for path in (ROOT / "scenarios" / "catalog").rglob("*.yaml")}

    assert set(re.findall(r"\btest_\w+\.py", verified)) <= tests
    assert _after("recorded", verified) <= recorded
    assert _after("story|stories", verified) <= catalog


def _after(word: str, verified: str) -> set[str]:
    lists = re.findall(rf"\b(?:{word}) ([a-z0-9-]+(?:, [a-z0-9-]+)*)", verified)
    return {name for names in lists for name in names.split(", ")}


def test_folders_of_tests_share_support_only():
    tests = ROOT / "tests"
    imported = {
        file.relative_to(tests): set(re.findall(r"^ *(?:from|import) tests\.(\w+)", file.read_text(), re.M))
        for file in tests.rglob("*.py")
    }

    assert {file: folders for file, folders in imported.items() if folders - {"support", file.parts[0]}} == {}


LIMIT_OF_ITS_OWN = re.compile(
    r"asyncio\.timeout\([1-9]|(?:asyncio\.wait_for|select\.select)\(.*, [1-9][\d.]*\)|timeout=[1-9]"
    r"|(?:LIMIT|PATIENCE|WAIT)_S(?:: Final)? = [1-9]"
)
"""A wait in real time for a second or longer; a shorter one waits for nothing to happen."""


def limits_of_its_own(text: str) -> list[str]:
    """Return the lines of a test that limit a wait by a number."""
    return [f"{number}: {line}" for number, line in enumerate(text.splitlines(), 1) if LIMIT_OF_ITS_OWN.search(line)]


def test_tests_wait_as_long_as_patience_says():
    files = {*(ROOT / "tests").rglob("*.py")} - {ROOT / "tests" / "support" / "patience.py", Path(__file__)}

    assert {str(path): found for path in files if (found := limits_of_its_own(path.read_text()))} == {}


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("await asyncio.wait_for(it, 5.0)", True),
        ("async with asyncio.timeout(5):", True),
        ("async with asyncio.timeout(LIMIT_S):", False),
        ("    subprocess.run(it, timeout=60)", True),
        ("subprocess.run(it, timeout=PROGRAM_LIMIT_S)", False),
        ('kubectl("wait pod/a --timeout=60s")', True),
        ("WAIT_S: Final = 10", True),
        ("_PATIENCE_S = 20.0", True),
        ("await allocate(plugin, timeout=0.2)", False),
    ],
)
def test_limit_of_its_own_is_found(line: str, is_found: bool):
    assert bool(limits_of_its_own(line)) is is_found


def is_skipped_by_failures(body: list[ast.stmt]) -> bool:
    """Whether something is done after a yield but what is checked, and not in a `finally`."""
    for number, statement in enumerate(body):
        yields = not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            isinstance(node, ast.Yield) for node in ast.walk(statement)
        )
        if yields:
            later = [one for one in body[number + 1 :] if not isinstance(one, ast.Assert)]
            inner = [] if isinstance(statement, ast.Try) else getattr(statement, "body", [])
            return bool(later) or is_skipped_by_failures(inner)
    return False


def test_what_tests_enter_is_left_when_they_fail():
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any("contextmanager" in ast.unparse(decorator) for decorator in node.decorator_list)
        and is_skipped_by_failures(node.body)
    ]

    assert found == [], "what they leave open fails another test, when it is collected: use try and finally"


@pytest.mark.parametrize(
    ("body", "is_found"),
    [
        ("yield; stop()", True),
        ("with it:\n    yield\nstop()", True),
        ("with it:\n    yield\n    stop()", True),
        ("try:\n    yield\nfinally:\n    stop()", False),
        ("yield; assert stopped", False),
        ("start(); yield", False),
    ],
)
def test_end_that_failures_skip_is_found(body: str, is_found: bool):
    assert is_skipped_by_failures(ast.parse(body).body) is is_found


def test_readme_of_a_package_links_to_no_file_of_the_repository() -> None:
    hook = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = "".join(page(fragment["path"]) for fragment in hook["fragments"])
    for one in hook["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)

    links = re.findall(r"\]\(([^)]*)\)", text)
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert "docs/stories.md" in text
