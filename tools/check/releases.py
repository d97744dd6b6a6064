"""Print which cited functions of Kubernetes changed in a patch of a minor, and which of these changes nobody explains.

Each ``Source:`` of the code names files and functions of k8s.io/kubernetes and its staging modules, and the releases in
which they were read. Of each minor that it speaks of, all patches are compared, from the first to the newest that can
be had: the text of each function without comments. A file or folder without a function stands for all that it declares.

A change is explained where a `Difference` has a value from that patch on and cites the function, or where
``releases.yaml`` says why it changes nothing here. The exit status is 1 where there is another change, or an
explanation without a change, and 3 where Go or the modules cannot be had.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import yaml

from simkubelet.model.version import SUPPORTED, Version, version
from tools.build.go_build import ROOT, BuildError

from .citations import STAGING, Citation, Cited, citations
from .go_declarations import declarations
from .kubernetes_modules import Archive, Modules

EXPLAINED = Path(__file__).with_suffix(".yaml")
CODE = ("simkubelet", "scenarios")
DIFF_LINES = 40

Texts: TypeAlias = Mapping[str, str]
"""Name of a declaration, with its receiver's type before a dot -> its text."""


Key: TypeAlias = tuple[str, str, str]
"""A change, as explanations name it: file, declaration, patch."""


class Place(NamedTuple):
    """A Go file of a module."""

    module: str
    path: str

    def __str__(self) -> str:
        return self.path if self.module == "kubernetes" else f"{self.module}/{self.path}"


class Change(NamedTuple):
    """One declaration that differs between a patch and the one before it; a text is empty where it is missing."""

    place: Place
    name: str
    patch: Version
    before: str
    after: str

    @property
    def key(self) -> Key:
        """As explanations name it."""
        return str(self.place), self.name, f"1.{self.patch.minor}.{self.patch.patch}"

    def __str__(self) -> str:
        path, name, patch = self.key
        lines = list(difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), lineterm="", n=1))[2:]
        cut = [f"    ... {len(lines) - DIFF_LINES} lines more"] if len(lines) > DIFF_LINES else []
        return "\n".join([f"{patch} {path} {name}", *(f"    {line}" for line in lines[:DIFF_LINES]), *cut])


class Published(Protocol):
    """Where modules come from; `Modules` in earnest."""

    def archive(self, module: str, release: Version) -> Archive | None:
        """Return a module of a release; None where it is not published."""


class Reading:
    """What modules of releases declare."""

    def __init__(self, published: Published) -> None:
        self._published = published
        self._texts: dict[tuple[Place, Version], Texts] = {}

    def paths(self, module: str, release: Version) -> tuple[str, ...]:
        """Return the Go files of a module that are no tests; none where the release is not published."""
        archive = self._published.archive(module, release)
        return () if archive is None else archive.paths()

    def texts(self, place: Place, release: Version) -> Texts:
        """Return what a file declares; nothing where the release has no such file."""
        key = place, release
        if key not in self._texts:
            archive = self._published.archive(place.module, release)
            self._texts[key] = {} if archive is None else declarations(archive.text(place.path))
        return self._texts[key]


def places(cited: Cited, near: str, release: Version, reading: Reading) -> tuple[Place, ...]:
    """Return the files that a citation means in a release: the file, or those of the folder; none where it has none.

    A path that leaves out its beginning means the one that has most folders in common with the file cited before it.

    Args:
        cited: What is cited.
        near: The path that was cited before it; empty for none.
        release: Where to look.
        reading: How to look.

    Raises:
        LookupError: several are as near.
    """
    for module, path in _readings(cited):
        known = reading.paths(module, release)
        folders = {one.rpartition("/")[0] for one in known}
        found = [one for one in (known if path.endswith(".go") else folders) if f"/{one}".endswith(f"/{path}")]
        if found:
            nearest = max(_common(one, near) for one in found)
            chosen = [one for one in found if _common(one, near) == nearest]
            exact = [
                one for one in chosen if one in {path, f"pkg/{path}", f"pkg/kubelet/{path}", f"pkg/kubelet/cm/{path}"}
            ]
            if len(chosen) > 1 and len(exact) != 1:
                raise LookupError(f"{cited.path} can be any of {', '.join(sorted(chosen)[:5])}")
            one = chosen[0] if len(chosen) == 1 else exact[0]
            inside = [one] if one.endswith(".go") else [file for file in known if file.rpartition("/")[0] == one]
            return tuple(Place(module, file) for file in inside)
    return ()


def _readings(cited: Cited) -> Iterator[tuple[str, str]]:
    """Yield the modules that a path may be of, each with the path within it."""
    path = cited.path.removeprefix("staging/src/k8s.io/")
    module, _, rest = path.partition("/")
    if module in STAGING and rest:
        yield module, rest
    for one in dict.fromkeys((cited.module, "kubernetes", *STAGING)):
        if one:
            yield one, cited.path


def _common(path: str, near: str) -> int:
    pairs = zip(path.split("/")[:-1], near.split("/")[:-1], strict=False)
    return next(
        (index for index, (one, other) in enumerate(pairs) if one != other), min(path.count("/"), near.count("/"))
    )


Wanted: TypeAlias = Mapping[Place, frozenset[str]]
"""File of one module -> the declarations to look at; without any: all of them."""


def changes(wanted: Wanted, first: Version, last: Version, reading: Reading) -> Iterator[Change]:
    """Yield what changed between two patches of a minor, by halves, so that few patches are fetched.

    A declaration that is the same in both counts as unchanged; a patch that is not published is passed over.
    """
    different = {
        place: names
        for place, chosen in wanted.items()
        if (names := _different(chosen, reading.texts(place, first), reading.texts(place, last)))
    }
    if not different:
        return
    half = _between(next(iter(different)).module, first, last, reading)
    if half is None:
        for place, names in different.items():
            before, after = reading.texts(place, first), reading.texts(place, last)
            yield from (Change(place, name, last, before.get(name, ""), after.get(name, "")) for name in sorted(names))
    else:
        yield from changes(different, first, half, reading)
        yield from changes(different, half, last, reading)


def _different(chosen: frozenset[str], before: Texts, after: Texts) -> frozenset[str]:
    keys = chosen or before.keys() | after.keys()
    return frozenset(name for name in keys if before.get(name) != after.get(name))


def _between(module: str, first: Version, last: Version, reading: Reading) -> Version | None:
    """Return a published patch between two, near the middle; None where there is none."""
    inner = range(first.patch + 1, last.patch)
    nearest = sorted(inner, key=lambda patch: abs(2 * patch - first.patch - last.patch))
    releases = (Version(first.minor, patch) for patch in nearest)
    return next((release for release in releases if reading.paths(module, release)), None)


class Wishes:
    """What all citations together want to be looked at.

    Args:
        reading: How to look.
        lasts: Minor -> its newest patch.

    Attributes:
        wanted: Minor -> what to look at.
        explained: Changes that the code knows, as a row has a value from that patch on.
        lost: A line for each citation that leads to no declaration.
    """

    def __init__(self, reading: Reading, lasts: Mapping[int, Version]) -> None:
        self.wanted: dict[int, dict[Place, frozenset[str]]] = {minor: {} for minor in lasts}
        self.explained: set[Key] = set()
        self.lost: list[str] = []
        self._reading, self._lasts = reading, lasts

    def add(self, where: str, found: Iterable[Citation]) -> None:
        """Add what a module cites; its docstring's files are those of names without a file.

        Args:
            where: The module, for messages.
            found: Its citations, its docstring's first.
        """
        own: tuple[Cited, ...] = ()
        for citation in found:
            own = own or citation.files
            at = f"{where}:{citation.line}"
            met: dict[str, bool] = {}
            for minor in set(citation.minors) & self._lasts.keys():
                near = ""
                for cited in citation.files:
                    try:
                        here = places(cited, near, self._lasts[minor], self._reading)
                    except LookupError as error:
                        self.lost.append(f"{at}: {error}")
                        continue
                    if cited.path.endswith(".go"):
                        met[cited.path] = met.get(cited.path, False) or bool(here)
                    near = here[0].path if here else near
                    self._want(minor, here, cited.names, citation.patches, met)
                if citation.names:
                    inherited = self._inherited(own, minor)
                    self._want(minor, inherited, citation.names, citation.patches, met)
            missing = (name for name, is_met in met.items() if not is_met and not citation.has_others)
            self.lost += (f"{at}: {name} is in no release that is cited" for name in missing)

    def _inherited(self, own: tuple[Cited, ...], minor: int) -> tuple[Place, ...]:
        near, found = "", list[Place]()
        for cited in own:
            try:
                here = places(cited, near, self._lasts[minor], self._reading)
            except LookupError:
                continue
            near = here[0].path if here else near
            found += here
        return tuple(found)

    def _want(
        self, minor: int, here: Iterable[Place], names: tuple[str, ...], patches: Iterable[str], met: dict[str, bool]
    ) -> None:
        for place in here:
            texts = self._reading.texts(place, self._lasts[minor])
            keys = frozenset(key for key in texts for name in names if key == name or key.endswith(f".{name}"))
            for name in names:
                met[name] = met.get(name, False) or any(key == name or key.endswith(f".{name}") for key in keys)
            if names and not keys:
                continue
            before = self.wanted[minor].get(place)
            is_whole = not names or before == frozenset()
            self.wanted[minor][place] = frozenset() if is_whole else keys | (before or frozenset())
            self.explained |= {(str(place), key, patch) for key in keys or texts for patch in patches}


def explanations(text: str) -> dict[Key, str]:
    """Return what ``releases.yaml`` says: the change -> why it changes nothing here."""
    return {
        (path, name, patch): why
        for path, names in (yaml.safe_load(text) or {}).items()
        for name, patches in names.items()
        for patch, why in patches.items()
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print which cited functions of Kubernetes changed in a patch.")
    parser.add_argument("--minor", action="append", choices=SUPPORTED, help="a minor, such as 1.34; all by default")
    parser.add_argument("--all", action="store_true", help="print explained changes, too")
    parser.add_argument("--everywhere", action="store_true", help="look at each minor for each citation")
    parser.add_argument("--lost", action="store_true", help="print citations that lead to no declaration, too")
    chosen = parser.parse_args(arguments)
    try:
        modules = Modules()
        lasts = {release.minor: modules.newest(release) for release in map(version, chosen.minor or SUPPORTED)}
        reading = Reading(modules)
        wishes = Wishes(reading, lasts)
        for path in sorted(file for folder in CODE for file in (ROOT / folder).rglob("*.py")):
            found = citations(path.read_text(encoding="utf-8"))
            if chosen.everywhere:
                found = (replace(one, minors=tuple(lasts)) for one in found)
            wishes.add(str(path.relative_to(ROOT)), found)
        seen = [
            change for minor, wanted in wishes.wanted.items() for change in minor_changes(wanted, lasts[minor], reading)
        ]
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    written = explanations(EXPLAINED.read_text(encoding="utf-8"))
    known = wishes.explained | written.keys()
    new = [change for change in seen if change.key not in known]
    for change in seen if chosen.all else new:
        print(change)
    for lost in dict.fromkeys(wishes.lost) if chosen.lost else ():
        print(lost)
    keys = {change.key for change in seen}
    stale = [key for key in written if key not in keys and version(key[2]).minor in lasts]
    for key in stale:
        print(f"{EXPLAINED.name}: {' '.join(key)} is no change of what is cited")
    releases = ", ".join(f"1.{last.minor}.{last.patch}" for last in lasts.values())
    print(f"{len(seen)} changes up to {releases}, {len(new)} of them without an explanation")
    return 1 if new or stale else 0


def minor_changes(wanted: Wanted, last: Version, reading: Reading) -> Iterator[Change]:
    """Yield what changed in the patches of a minor up to the newest."""
    for module in sorted({place.module for place in wanted}):
        part = {place: names for place, names in wanted.items() if place.module == module}
        published = [patch for patch in (0, last.patch) if reading.paths(module, Version(last.minor, patch))]
        if len(published) == 2:
            yield from changes(part, Version(last.minor, 0), last, reading)


if __name__ == "__main__":
    sys.exit(main())
