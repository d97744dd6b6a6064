"""The checks: those stories of the catalogue that have a section `check`, by group and name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from simkubelet.model.errors import InputError

from ..story.check_spec import CheckSpec
from ..story.document import Document, load
from ..story.stories import builtin, first_sentence

TOPIC: Final = "conformance/"
"""The folder of the catalogue that has them, one folder a group."""

GROUPS: Final = {
    "registration": "Registration",
    "options": "Options",
    "lists": "Device lists",
    "allocation": "Allocation",
    "preferred-allocation": "Preferred allocation",
    "pre-start": "PreStartContainer",
    "health": "Health",
    "kubelet-restart": "Kubelet restart",
    "stream": "End of the ListAndWatch stream",
    "start": "Start before the kubelet",
    "instances": "Two instances at once",
    "clock": "Clock jumps",
    "hostile-kubelet": "Hostile or slow kubelet",
    "limits": "Limits",
    "resources": "Resource leaks",
    "shutdown": "Shutdown",
}
"""The groups in the order of a report: folder -> heading."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check; `id` is GROUP/NAME and never changes."""

    id: str
    path: Path
    document: Document
    spec: CheckSpec

    @property
    def group(self) -> str:
        """The folder that it is in."""
        return self.id.partition("/")[0]

    @property
    def summary(self) -> str:
        """What a plugin that passes does, in a sentence."""
        return first_sentence(self.document.scenario.description)


def all_checks() -> tuple[Check, ...]:
    """Every check with the defaults of its parameters, group after group."""
    found = []
    for name, path in builtin().items():
        if name.startswith(TOPIC):
            document = load(path)
            if document.scenario.check is not None:
                found.append(Check(name.removeprefix(TOPIC), path, document, document.scenario.check))
    order = list(GROUPS)
    return tuple(sorted(found, key=lambda check: (order.index(check.group), check.id)))


def _any(check: Check) -> bool:
    return True


def selected(
    checks: Iterable[Check], only: Sequence[str], skip: Sequence[str], applies: Callable[[Check], bool] = _any
) -> tuple[Check, ...]:
    """Those checks that some pattern of `only` names, and those that they need; none that some of `skip` names.

    Args:
        checks: To choose from.
        only: A group, an id, or either with ``*`` and ``?``; all checks where there is none.
        skip: The same.
        applies: Whether a check applies to the plugin; one that does not needs no other.

    Raises:
        InputError: A pattern names no check.
    """
    known = tuple(checks)
    for option, patterns in (("--only", only), ("--skip", skip)):
        for pattern in patterns:
            if not any(_names(pattern, check) for check in known):
                raise InputError(
                    f"{option}: no check '{pattern}'; 'simkubelet conform --list' shows them and their groups"
                )
    chosen = [check for check in known if not only or any(_names(one, check) for one in only)]
    wanted = with_needed(known, (one.id for one in chosen if not any(_names(name, one) for name in skip)), applies)
    left = tuple(check for check in known if check.id in wanted and not any(_names(one, check) for one in skip))
    if not left:
        raise InputError("--only and --skip leave no check; 'simkubelet conform --list' shows all")
    return left


def with_needed(checks: Iterable[Check], ids: Iterable[str], applies: Callable[[Check], bool] = _any) -> frozenset[str]:
    """Ids of checks, with all that those of them need to be passed first that apply, as far as `checks` has them."""
    by_id, found, waiting = {check.id: check for check in checks}, set[str](), list(ids)
    while waiting:
        if (one := waiting.pop()) in by_id and one not in found:
            found.add(one)
            waiting += by_id[one].spec.needs.passed if applies(by_id[one]) else ()
    return frozenset(found)


def _names(pattern: str, check: Check) -> bool:
    return any(fnmatchcase(name, pattern.rstrip("/")) for name in (check.id, check.group))
