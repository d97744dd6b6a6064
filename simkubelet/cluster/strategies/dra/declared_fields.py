"""Objects of resource.k8s.io held against what their types declare, from 1.37 on.

A server checks what it has checked before and what is declared. Where both find the same, it reports what is declared:
in other words, and at the path that the version of the request has. An update is held only against the declarations of
what it changes.

Source: apiserver/pkg/registry/rest/validate.go, ``ValidateDeclarativelyWithMigrationChecks``; apimachinery/pkg/api/
validate (v0.37.2); pkg/apis/resource/v1/zz_generated.validations.go (kubernetes v1.37.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.device_versions import from_v1
from ...objects.objects import JSON
from ..internal_form import in_order
from ..rules import Rules
from .declarations import DECLARED, DECLARED_V1BETA1, ONE_OF, Declared

__all__ = ["with_declared"]

_IS_DECLARED: Final = Difference(
    "what types of `resource.k8s.io` declare of their fields is reported in words of its own, at the path in the "
    "version of the request",
    {"1.26": False, "1.37": True},
    "apiserver/pkg/registry/rest/validate.go, ``ValidateDeclarativelyWithMigrationChecks`` (v0.36.3, v0.37.2); "
    "api/resource/v1/types.go (v0.37.2)",
)
_OLD_PATHS: Final = (
    (
        re.compile(
            r"spec\.devices\.requests\[([0-9]+)\]\.(deviceClassName|selectors|allocationMode|count|adminAccess|tolerations"
            r"|derivedAttributes)"
        ),
        r"spec.devices.requests[\1].exactly.\2",
    ),
    (re.compile(r"spec\.devices\[([0-9]+)\]\.basic\."), r"spec.devices[\1]."),
)
"""Paths of ``v1beta1``, and what they are in ``v1``."""


def with_declared(
    rules: Rules, version: str, kind: str, errors: Sequence[FieldError], new: JSON, old: JSON | None
) -> list[FieldError]:
    """What is wrong with an object in all.

    Args:
        rules: of the server.
        version: in which the request is.
        kind: of the object.
        errors: what is wrong by the other rules.
        new: the object in ``v1``.
        old: what is stored, in ``v1``; None where the object is new.
    """
    if not rules.of(_IS_DECLARED):
        return list(errors)
    shown = from_v1(version, kind)
    walk = _Walk(rules, DECLARED_V1BETA1 if version == "v1beta1" else DECLARED, is_update=old is not None)
    found = list(walk.struct(kind, shown(new), None if old is None else shown(old), ""))
    replaced = {(error.reason, _in_v1(error.path)) for error, is_alone in found if not is_alone}
    kept = [error for error in errors if (error.reason, error.path) not in replaced]
    return [*kept, *(error for error, _ in found)]


def _in_v1(path: str) -> str:
    for pattern, replacement in _OLD_PATHS:
        path = pattern.sub(replacement, path)
    return path


class _Walk:
    """Goes through an object; yields what is wrong, each with whether no other rule says the same."""

    def __init__(self, rules: Rules, declared: Mapping[str, Mapping[str, Declared]], *, is_update: bool) -> None:
        self._rules = rules
        self._declared = declared
        self._is_update = is_update

    def struct(self, type_: str, new: JSON, old: JSON | None, path: str) -> Iterator[tuple[FieldError, bool]]:
        if type_ in ONE_OF:
            yield from self._one_of(type_, new, old, path)
        for name, declared in self._declared[type_].items():
            value, before = new.get(name), None if old is None else old.get(name)
            if old is None or not self._is_same(value, before):
                where = f"{path}.{name}" if path else name
                yield from self._field(declared, value, before, where)

    def _is_same(self, value: Any, before: Any) -> bool:
        is_nothing = value in (None, []) and before in (None, [])
        return self._is_update and (value == before or is_nothing)

    def _one_of(self, type_: str, new: JSON, old: JSON | None, path: str) -> Iterator[tuple[FieldError, bool]]:
        names = ONE_OF[type_]
        chosen = [name for name in names if new.get(name) is not None]
        if self._is_update and old is not None and chosen == [name for name in names if old.get(name) is not None]:
            return
        listed, is_alone = ", ".join(f"`{name}`" for name in names), type_ != "DeviceAttribute"
        if not chosen:
            yield FieldError.invalid(path, "", f"must specify one of: {listed}"), is_alone
        elif len(chosen) > 1:
            several = f"{{{', '.join(chosen)}}}"
            yield FieldError.invalid(path, several, f"must specify exactly one of: {listed}"), is_alone

    def _field(self, declared: Declared, value: Any, before: Any, path: str) -> Iterator[tuple[FieldError, bool]]:
        is_alone = declared.is_alone
        if self._is_update and declared.settled and value is not None and before is not None:
            yield FieldError.invalid(path, None, declared.settled), is_alone
            return
        is_map = declared.is_map or declared.check is not None
        if value in (None, []) or (value == {} and is_map) or (value == "" and not declared.may_be_empty):
            if declared.required:
                yield FieldError.required(path), is_alone
            return
        if declared.gate and declared.gate not in self._rules.gates:
            yield FieldError.forbidden(path, ""), is_alone
            return
        if isinstance(value, list):
            if 0 <= declared.at_most < len(value):
                yield FieldError.too_many(path, len(value), declared.at_most), is_alone
                return
            yield from self._items(declared, value, before or [], path)
        elif isinstance(value, dict) and declared.check is not None:
            for key in sorted(value.keys() - (before or {}).keys() if self._is_update else value):
                yield from self._checked(declared, key, path)
        elif declared.is_map:
            for key, inner in sorted(value.items()):
                old = (before or {}).get(key)
                if old is None or not self._is_same(inner, old):
                    yield from self.struct(declared.type, inner, old, f"{path}[{key}]")
        elif isinstance(value, dict):
            yield from self.struct(declared.type, value, before, path)
        else:
            yield from self._checked(declared, value, path)

    def _items(
        self, declared: Declared, items: Sequence[Any], before: Sequence[Any], path: str
    ) -> Iterator[tuple[FieldError, bool]]:
        known = set()
        for place, item in enumerate(items if declared.key is not None else ()):
            key = declared.key(item) if declared.key is not None else ""
            if key in known:
                shown = in_order(declared.shown or declared.type, item) if isinstance(item, dict) else item
                yield FieldError.duplicate(f"{path}[{place}]", shown), declared.is_alone
            known.add(key)
        for place, item in enumerate(items):
            where = f"{path}[{place}]"
            if declared.type:
                old = None
                if declared.is_by_key and declared.key is not None:
                    key = declared.key(item)
                    old = next((each for each in before if declared.key(each) == key), None)
                if old is None or not self._is_same(item, old):
                    yield from self.struct(declared.type, item, old, where)
            elif declared.check is not None and not (self._is_update and item in before):
                yield from self._checked(declared, item, where)

    def _checked(self, declared: Declared, value: Any, path: str) -> Iterator[tuple[FieldError, bool]]:
        if declared.check is not None:
            for error in declared.check(self._rules, value, path):
                yield error, declared.is_alone
