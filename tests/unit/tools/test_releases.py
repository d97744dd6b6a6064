"""Which functions of Kubernetes the code cites, and what is found of their changes, on small Go texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from simkubelet.model.version import Version
from tools.check.citations import Cited, citations
from tools.check.go_declarations import declarations
from tools.check.releases import EXPLAINED, Place, Reading, Wishes, changes, explanations, minor_changes

PATH = "pkg/kubelet/cm/devicemanager/manager.go"
ALLOCATE = "func (m *ManagerImpl) Allocate(n int) error {{\n\t// {0}\n\treturn m.take({1}) // {0}\n}}\n"
OTHER = "func other() {}\n"


class Release:
    """A module in which the files of a mapping are."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def paths(self) -> tuple[str, ...]:
        return tuple(self._files)

    def text(self, path: str) -> str:
        return self._files.get(path, "")


class Published:
    """Patches of 1.34 of the module kubernetes; keeps which were asked for."""

    def __init__(self, *sources: str | None, path: str = PATH) -> None:
        self._sources, self._path = sources, path
        self.asked: set[int] = set()

    def archive(self, module: str, release: Version) -> Any:
        if module != "kubernetes" or release.patch >= len(self._sources):
            return None
        self.asked.add(release.patch)
        source = self._sources[release.patch]
        return None if source is None else Release({self._path: source, "pkg/kubelet/kubelet.go": OTHER})


def found(module: str, published: Published, last: int) -> tuple[list[tuple[str, str, str]], Wishes]:
    """The changes of what a Python module cites, and the wishes that led to them."""
    reading, newest = Reading(published), Version(34, last)
    wishes = Wishes(reading, {34: newest})
    wishes.add("module.py", citations(module))
    return [change.key for change in minor_changes(wishes.wanted[34], newest, reading)], wishes


def cites(text: str) -> str:
    return f'"""Something.\n\nSource: {text}\n"""\n'


def test_declarations_are_found_without_their_comments() -> None:
    source = """package p

// Limit is a limit.
const Limit = 5

const (
\tfirst  = 1 // one
\tsecond = `a
b // no comment`
)

/* A type
of ours. */
type Set[T any] struct {
\titems map[T]bool
}

func (s *Set[T]) Add(
\titem T,
) {
\ts.items[item] = true // "quoted"

}

func short() int { return 1 }
"""

    assert declarations(source) == {
        "Limit": "const Limit = 5",
        "first": "\tfirst = 1",
        "second": "\tsecond = `a\\nb // no comment`",
        "Set": "type Set[T any] struct {\n\titems map[T]bool\n}",
        "Set.Add": "func (s *Set[T]) Add(\n\titem T,\n) {\n\ts.items[item] = true\n}",
        "short": "func short() int { return 1 }",
    }


@pytest.mark.parametrize(
    ("text", "files", "minors"),
    [
        pytest.param(
            "devicemanager/manager.go, ``Allocate``, ``A.b``; kubelet.go (kubernetes v1.33.13, v1.34.4).",
            [Cited("devicemanager/manager.go", "", ("Allocate", "A.b")), Cited("kubelet.go", "", ())],
            (33, 34),
            id="files with and without functions",
        ),
        pytest.param(
            "topologymanager/policy.go (kubernetes v1.34.4 to v1.37.0, unchanged)",
            [Cited("topologymanager/policy.go", "", ())],
            (34, 35, 36, 37),
            id="range",
        ),
        pytest.param(
            "client-go, tools/cache/reflector.go, ``ListAndWatch`` (v0.34.4)",
            [Cited("tools/cache/reflector.go", "client-go", ("ListAndWatch",))],
            (34,),
            id="staging module",
        ),
        pytest.param(
            "pkg/registry/core/{node,pod}/strategy.go (kubernetes/kubernetes#1; v1.36.3)",
            [Cited("pkg/registry/core/node/strategy.go", "", ()), Cited("pkg/registry/core/pod/strategy.go", "", ())],
            (36,),
            id="alternatives and an issue",
        ),
    ],
)
def test_citation_names_files_functions_and_minors(text: str, files: list[Cited], minors: tuple[int, ...]) -> None:
    (citation,) = citations(cites(text))

    assert (list(citation.files), citation.minors) == (files, minors)
    assert not citation.has_others


def test_citation_of_another_project_is_known_as_such() -> None:
    (citation,) = citations(cites("internal/cri/server/events.go, ``handleEvent`` (containerd v2.1.4)"))

    assert citation.has_others
    assert citation.minors == ()


def test_changed_function_is_found_with_its_patch_and_few_patches_are_read() -> None:
    before, after = ALLOCATE.format("old", "n") + OTHER, ALLOCATE.format("new", "n + 1") + OTHER
    published = Published(*[before] * 11, after, after)

    keys, _ = found(cites("devicemanager/manager.go, ``Allocate`` (kubernetes v1.34.4)"), published, last=12)

    assert keys == [(PATH, "ManagerImpl.Allocate", "1.34.11")]
    assert len(published.asked) < 7


def test_changed_comment_is_no_change() -> None:
    published = Published(ALLOCATE.format("old", "n"), ALLOCATE.format("new", "n"))

    assert found(cites("devicemanager/manager.go, ``Allocate`` (kubernetes v1.34.0)"), published, last=1)[0] == []


def test_patch_that_is_not_published_is_passed_over() -> None:
    published = Published(ALLOCATE.format("", "n"), None, ALLOCATE.format("", "2"))

    keys, _ = found(cites("devicemanager/manager.go, ``Allocate`` (kubernetes v1.34.0)"), published, last=2)

    assert keys == [(PATH, "ManagerImpl.Allocate", "1.34.2")]


def test_file_without_functions_stands_for_all_that_it_declares() -> None:
    published = Published(OTHER, ALLOCATE.format("", "n"))

    keys, _ = found(cites("devicemanager/manager.go (kubernetes v1.34.0)"), published, last=1)

    assert keys == [(PATH, "ManagerImpl.Allocate", "1.34.1"), (PATH, "other", "1.34.1")]


def test_name_without_a_file_is_looked_for_in_the_files_of_the_module() -> None:
    module = cites("devicemanager/manager.go, ``other`` (kubernetes v1.34.0)")
    module += 'def f():\n    """Do it.\n\n    Source: ``Allocate``.\n    """\n'
    published = Published(OTHER + ALLOCATE.format("", "n"), OTHER + ALLOCATE.format("", "2"))

    assert found(module, published, last=1)[0] == [(PATH, "ManagerImpl.Allocate", "1.34.1")]


def test_row_with_a_value_from_that_patch_on_explains_the_change() -> None:
    source = "devicemanager/manager.go, ``Allocate`` (v1.34.1)"
    module = f'ROW = Difference("it does", {{"1.26": False, "1.34.1": True}}, "{source}")'
    published = Published(ALLOCATE.format("", "n"), ALLOCATE.format("", "2"))

    keys, wishes = found(module, published, last=1)

    assert keys == [(PATH, "ManagerImpl.Allocate", "1.34.1")]
    assert wishes.explained == set(keys)


def test_function_that_is_not_there_and_file_that_can_be_several_are_lost() -> None:
    class Two(Published):
        def archive(self, module: str, release: Version) -> Any:
            if module != "kubernetes":
                return None
            return Release({"pkg/a/manager.go": OTHER, "pkg/b/manager.go": OTHER, "pkg/c/one.go": OTHER})

    _, wishes = found(cites("manager.go, ``other``; c/one.go, ``gone`` (kubernetes v1.34.0)"), Two(), last=1)

    assert wishes.lost == [
        "module.py:1: manager.go can be any of pkg/a/manager.go, pkg/b/manager.go",
        "module.py:1: gone is in no release that is cited",
    ]


def test_change_shows_its_difference() -> None:
    published = Published(ALLOCATE.format("", "n"), ALLOCATE.format("", "2"))
    place = Place("kubernetes", PATH)

    (change,) = changes({place: frozenset()}, Version(34, 0), Version(34, 1), Reading(published))

    assert str(change).splitlines() == [
        f"1.34.1 {PATH} ManagerImpl.Allocate",
        "    @@ -1,3 +1,3 @@",
        "     func (m *ManagerImpl) Allocate(n int) error {",
        "    -\treturn m.take(n)",
        "    +\treturn m.take(2)",
        "     }",
    ]


def explained() -> Iterator[tuple[str, str, str]]:
    yield from explanations(EXPLAINED.read_text(encoding="utf-8"))


def test_explanations_name_a_file_a_declaration_and_a_patch() -> None:
    assert all(path.endswith(".go") and name and patch.count(".") == 2 for path, name, patch in explained())
