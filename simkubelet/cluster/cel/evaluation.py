"""What an expression is for a device, and what it costs to find out.

A checked expression becomes a function of a `Run`, which counts the costs of each step as the real interpreter does
and ends the evaluation where they exceed the limit. Errors of parts are exceptions, and values only where a loop or
``cel.bind`` keeps them.

Source: cel-go v0.26.0, interpreter/runtimecost.go, interpreter/planner.go, interpreter/interpretable.go,
interpreter/attributes.go; k8s.io/apiserver v0.34.4, pkg/cel/library/cost.go (``CallCost``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ...model.version import Difference, Version
from .estimate import READS_ALL_PATTERNS
from .functions import call
from .tree import (
    ACCUMULATOR,
    Call,
    Checked,
    Comprehension,
    Expr,
    Ident,
    ListOf,
    Literal,
    MapOf,
    Message,
    Select,
)
from .values import (
    TYPES,
    Domains,
    EvaluationError,
    Joined,
    LimitError,
    NamedType,
    Optional,
    Quantity,
    Semver,
    key_of,
    size_of,
    value_of_key,
)

__all__ = ["Program", "Run", "program"]

_COUNTS_PREFIX: Final = Difference(
    "`startsWith` and `endsWith` in a selector cost by the length of what is looked for, not of the whole text",
    {"1.26": False, "1.37": True},
    "cel-go v0.26.0, v0.29.2, interpreter/runtimecost.go",
)
_TRAVERSAL: Final = 0.1
_REGEX: Final = 0.25
_LIST_COST: Final = 10
_MAP_COST: Final = 30
_MESSAGE_COST: Final = 40
_FOLDED: Final = frozenset(("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"))
"""Conversions, which cost nothing where they are of constants."""
_HASHED: Final = (bool, int, float, str, type(None))
_NO_OVERLOAD: Final = "no such overload"


class Run:
    """One evaluation: its variables, and what it has cost.

    Args:
        names: the values of variables.
        limit: what it may cost.
    """

    __slots__ = ("cost", "limit", "names")

    def __init__(self, names: dict[str, Any], limit: int) -> None:
        self.names = names
        self.limit = limit
        self.cost = 0

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise LimitError


Step: TypeAlias = Callable[[Run], Any]
_CostOf: TypeAlias = Callable[[list[Any], Any], int]


@dataclass(slots=True)
class _Later:
    """The value of a name that is computed where it is first used."""

    step: Step
    names: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Qualifier:
    """A field, key or place of a value; `cost` is that of itself, `key` computes it."""

    key: Step
    is_optional: bool = False
    is_test: bool = False


@dataclass(frozen=True, slots=True)
class _Planned:
    """How a part is evaluated.

    Attributes:
        step: computes its value.
        is_constant: whether it is a constant, of which nothing costs anything.
        base: for a variable, a choice or one of their parts: what is looked into.
        qualifiers: and the way from there.
    """

    step: Step
    is_constant: bool = False
    base: Step | None = None
    qualifiers: tuple[_Qualifier, ...] = field(default=())
    is_choice: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """An expression that can be evaluated."""

    step: Step

    def run(self, names: Mapping[str, Any], limit: int) -> tuple[Any, int]:
        """Return what it is, and what that has cost.

        Raises:
            EvaluationError: it has no value for these variables.
            LimitError: it costs more than the limit.
        """
        run = Run(dict(names), limit)
        return self.step(run), run.cost


def program(checked: Checked, release: Version) -> Program:
    """Plan the evaluation of an expression, whose costs are those of a release.

    Raises:
        EvaluationError: a constant in it can never be evaluated.
    """
    return Program(_Planner(checked, release).plan(checked.expr).step)


class _Planner:
    def __init__(self, checked: Checked, release: Version) -> None:
        self._costs: dict[str, _CostOf] = dict(_OF_OVERLOADS)
        if READS_ALL_PATTERNS.at(release):
            self._costs["matches"] = _matched
        if _COUNTS_PREFIX.at(release):
            self._costs |= {"starts_with_string": _second_read, "ends_with_string": _second_read}
        self._overloads = checked.overloads
        self._types = checked.types

    def plan(self, expr: Expr) -> _Planned:
        match expr:
            case Literal(value=value):
                return _Planned(lambda _: value, is_constant=True)
            case Ident(name=name) if name in _TYPE_NAMES and self._types[expr.id].name == "type":
                return _Planned(lambda _: NamedType(name), is_constant=True)
            case Ident(name=name):
                return _attribute(_variable(name), ())
            case Select():
                return self._select(expr)
            case Call():
                return self._call(expr)
            case ListOf():
                return self._list(expr)
            case MapOf():
                return self._map(expr)
            case Message():
                return _Planned(_no_message)
            case Comprehension():
                return self._loop(expr)

    # Variables and their parts

    def _select(self, expr: Select) -> _Planned:
        name = expr.field
        return self._qualified(self.plan(expr.operand), _Qualifier(lambda _: name, is_test=expr.is_test))

    def _qualified(self, operand: _Planned, qualifier: _Qualifier) -> _Planned:
        base, qualifiers = operand.base or operand.step, (*operand.qualifiers, qualifier)
        if operand.is_choice:
            return _choice(base, qualifiers)
        return _attribute(base, qualifiers)

    def _index(self, expr: Call, *, is_optional: bool) -> _Planned:
        operand, index = (self.plan(each) for each in expr.arguments)
        key = _resolved(index.base, index.qualifiers) if index.base else index.step
        return self._qualified(operand, _Qualifier(key, is_optional))

    # Operators that do not need all of their operands

    def _call(self, expr: Call) -> _Planned:
        match expr.function:
            case "_[_]":
                return self._index(expr, is_optional=False)
            case "_?._" | "_[?_]":
                return self._index(expr, is_optional=True)
            case "_&&_":
                return self._logic(expr, decides=False)
            case "_||_":
                return self._logic(expr, decides=True)
            case "_?_:_":
                return self._conditional(expr)
            case "@not_strictly_false":
                return _Planned(_not_false(self.plan(expr.arguments[0]).step))
            case "or" | "orValue" if expr.target is not None:
                return self._alternative(expr, expr.target)
            case "_+_" if isinstance(expr.arguments[0], Ident) and expr.arguments[0].name == ACCUMULATOR:
                return self._gathered(expr)
        return self._function(expr)

    def _logic(self, expr: Call, *, decides: bool) -> _Planned:
        steps = [self.plan(each).step for each in expr.arguments]

        def evaluate(run: Run) -> bool:
            failed: EvaluationError | None = None
            for step in steps:
                try:
                    if _truth(step(run)) is decides:
                        return decides
                except EvaluationError as error:
                    failed = failed or error
            if failed:
                raise failed
            return not decides

        return _Planned(evaluate)

    def _conditional(self, expr: Call) -> _Planned:
        condition, first, second = (self.plan(each) for each in expr.arguments)
        chosen = [_resolved(each.base, each.qualifiers) if each.base else each.step for each in (first, second)]

        def evaluate(run: Run) -> Any:
            return chosen[0 if _truth(condition.step(run)) else 1](run)

        return _choice(evaluate, ())

    def _alternative(self, expr: Call, target: Expr) -> _Planned:
        first, second = self.plan(target).step, self.plan(expr.arguments[0]).step

        def evaluate(run: Run) -> Any:
            value = first(run)
            if not isinstance(value, Optional):
                raise EvaluationError(_NO_OVERLOAD)
            if not value.has_value:
                return second(run)
            return value if expr.function == "or" else value.value

        return _Planned(evaluate)

    def _gathered(self, expr: Call) -> _Planned:
        """A loop that gathers a list: nothing else has that list, so it grows."""
        steps = [self.plan(each).step for each in expr.arguments]

        def evaluate(run: Run) -> Any:
            items, new = _operands(steps, run, _one)
            run.charge(1)
            if isinstance(items, list) and isinstance(new, list):
                items += new
                return items
            return call("_+_", False, [items, new])

        return _Planned(evaluate)

    # Functions

    def _function(self, expr: Call) -> _Planned:
        planned = [self.plan(each) for each in expr.operands]
        function, is_member = expr.function, expr.target is not None
        if function in _FOLDED and len(planned) == 1 and planned[0].is_constant:
            value = call(function, is_member, [planned[0].step(_NOWHERE)])
            return _Planned(lambda _: value, is_constant=True)
        overloads = self._overloads.get(expr.id, ())
        overload = overloads[0] if len(overloads) == 1 else ""
        if overload == "in_list" and planned[1].is_constant:
            items = planned[1].step(_NOWHERE)
            if all(isinstance(each, _HASHED) for each in items):
                return _member(planned[0].step, items)
        cost_of = _OF_FUNCTIONS.get(function) or self._costs.get(overload, _one)
        steps = [each.step for each in planned]

        def evaluate(run: Run) -> Any:
            operands = _operands(steps, run, cost_of)
            if function == "join":
                value = call(function, is_member, operands)
                run.charge(cost_of(operands, value))
                return value
            run.charge(cost_of(operands, None))
            return call(function, is_member, operands)

        return _Planned(evaluate)

    # Lists, maps, loops

    def _list(self, expr: ListOf) -> _Planned:
        planned = [self.plan(each) for each in expr.items]
        if all(each.is_constant for each in planned):
            items = [each.step(_NOWHERE) for each in planned]
            return _Planned(lambda _: items, is_constant=True)
        steps, optional = [each.step for each in planned], expr.optional

        def evaluate(run: Run) -> list[Any]:
            values = []
            try:
                for place, step in enumerate(steps):
                    value = step(run)
                    if place not in optional:
                        values.append(value)
                    elif not isinstance(value, Optional):
                        raise EvaluationError("cannot initialize optional list element from non-optional value")
                    elif value.has_value:
                        values.append(value.value)
            except EvaluationError:
                run.charge(_LIST_COST)
                raise
            run.charge(_LIST_COST)
            return values

        return _Planned(evaluate)

    def _map(self, expr: MapOf) -> _Planned:
        planned = [(self.plan(key), self.plan(value), is_optional) for key, value, is_optional in expr.entries]
        steps = [(key.step, value.step, is_optional) for key, value, is_optional in planned]
        if all(key.is_constant and value.is_constant for key, value, _ in planned):
            constant = _entries(steps, _NOWHERE)
            return _Planned(lambda _: constant, is_constant=True)

        def evaluate(run: Run) -> dict[Any, Any]:
            try:
                entries = _entries(steps, run)
            except EvaluationError:
                run.charge(_MAP_COST)
                raise
            run.charge(_MAP_COST)
            return entries

        return _Planned(evaluate)

    def _loop(self, expr: Comprehension) -> _Planned:
        range_, initial = self.plan(expr.range).step, self.plan(expr.initial).step
        condition, step, result = (self.plan(each).step for each in (expr.condition, expr.step, expr.result))
        variable, accumulator = expr.variable, expr.accumulator

        def evaluate(run: Run) -> Any:
            items = range_(run)
            if isinstance(items, dict):
                items = [value_of_key(key) for key in items]
            elif not isinstance(items, list | Joined):
                raise EvaluationError(f"got '{items!r}', expected iterable type")
            outer = run.names
            inner = {**outer, accumulator: _Later(initial, outer)}
            try:
                for item in items:
                    run.names = inner
                    inner[variable] = item
                    try:
                        if condition(run) is False:
                            break
                    except EvaluationError:
                        pass
                    inner[accumulator] = _kept(step, run)
                run.names = {**outer, accumulator: inner[accumulator]}
                return result(run)
            finally:
                run.names = outer

        return _Planned(evaluate)


_NOWHERE: Final = Run({}, 0)
_TYPE_NAMES: Final = frozenset(name for _, name in TYPES)


def _member(item: Step, items: list[Any]) -> _Planned:
    """Whether a value is one of several constants, which costs nothing."""
    if not items:
        return _Planned(lambda _: False, is_constant=True)
    return _Planned(lambda run: call("@in", False, [item(run), items]))


def _no_message(_: Run) -> Any:
    raise EvaluationError(_NO_OVERLOAD)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(_NO_OVERLOAD)
    return value


def _variable(name: str) -> Step:
    def evaluate(run: Run) -> Any:
        value = run.names[name]
        if isinstance(value, _Later):
            names, run.names = run.names, value.names
            computed = _kept(value.step, run)
            run.names = names
            value = [] if isinstance(computed, list) and not computed else computed
            names[name] = value
        if isinstance(value, EvaluationError):
            raise value
        return value

    return evaluate


def _kept(step: Step, run: Run) -> Any:
    """The value of a step, or the error that it ends with."""
    try:
        return step(run)
    except EvaluationError as error:
        return error


def _operands(steps: list[Step], run: Run, cost_of: _CostOf) -> list[Any]:
    """The operands of a function, of which up to two are all evaluated, and which costs something even without one."""
    values: list[Any] = []
    failed: EvaluationError | None = None
    for step in steps:
        try:
            values.append(step(run))
        except EvaluationError as error:
            failed = failed or error
            values.append(None)
            if len(steps) > 2:
                break
    if failed:
        if len(values) == len(steps):
            run.charge(cost_of(values, None))
        raise failed
    return values


def _not_false(step: Step) -> Step:
    def evaluate(run: Run) -> bool:
        try:
            value = step(run)
        except EvaluationError:
            value = True
        run.charge(1)
        return value is not False

    return evaluate


def _entries(steps: list[tuple[Step, Step, bool]], run: Run) -> dict[Any, Any]:
    entries: dict[Any, Any] = {}
    for key_step, value_step, is_optional in steps:
        key, value = key_step(run), value_step(run)
        if is_optional:
            if not isinstance(value, Optional):
                raise EvaluationError(f"cannot initialize optional entry '{key}' from non-optional value")
            if not value.has_value:
                continue
            value = value.value
        entries[key_of(key)] = value
    return entries


def _attribute(base: Step, qualifiers: tuple[_Qualifier, ...]) -> _Planned:
    resolve = _resolved(base, qualifiers)
    cost = 0 if qualifiers and qualifiers[-1].is_test else 1

    def evaluate(run: Run) -> Any:
        try:
            return resolve(run)
        finally:
            run.charge(cost)

    return _Planned(evaluate, base=base, qualifiers=qualifiers)


def _choice(base: Step, qualifiers: tuple[_Qualifier, ...]) -> _Planned:
    return _Planned(_resolved(base, qualifiers), base=base, qualifiers=qualifiers, is_choice=True)


def _resolved(base: Step, qualifiers: tuple[_Qualifier, ...]) -> Step:
    """A step that looks into the value of another; it costs one for each part."""
    if not qualifiers:
        return base

    def evaluate(run: Run) -> Any:
        value = base(run)
        is_optional = isinstance(value, Optional)
        if is_optional:
            if not value.has_value:
                return value
            value = value.value
        for qualifier in qualifiers:
            is_optional = is_optional or qualifier.is_optional
            key = qualifier.key(run)
            if qualifier.is_test:
                run.charge(1)
                return _part(value, key, is_asked=True) is not _MISSING
            if is_optional:
                value = _part(value, key, is_asked=True)
                if value is _MISSING:
                    return Optional(False)
                run.charge(1)
            else:
                try:
                    value = _part(value, key, is_asked=False)
                finally:
                    run.charge(1)
        return Optional(True, value) if is_optional else value

    return evaluate


_MISSING: Final = object()


def _part(value: Any, key: Any, *, is_asked: bool) -> Any:
    """A part of a value; `_MISSING` where it has none and that is asked for."""
    if isinstance(value, dict):
        if not isinstance(key, bool | int | float | str):
            raise EvaluationError(f"unsupported key type: {key!r}")
        found = value.get(key_of(key), _MISSING)
        if found is not _MISSING:
            return found
        if isinstance(value, Domains):
            return {}
    elif isinstance(value, list | Joined):
        if isinstance(key, bool) or not isinstance(key, int | float) or int(key) != key:
            raise EvaluationError(f"unsupported index type '{key!r}' in list")
        if 0 <= key < size_of(value):
            return value[int(key)]
        if not is_asked:
            raise EvaluationError(f"index out of bounds: {key}")
    if is_asked:
        return _MISSING
    raise EvaluationError(f"no such key: {key}")


# What functions cost


def _up(number: float) -> int:
    return math.ceil(number)


def _sizes(operands: list[Any]) -> list[int]:
    values = (each.value if isinstance(each, Optional) and each.has_value else each for each in operands)
    return [size_of(each) for each in values]


def _one(operands: list[Any], value: Any) -> int:
    return 1


def _first(operands: list[Any], value: Any) -> int:
    return _up(size_of(operands[0]) * _TRAVERSAL)


def _second_read(operands: list[Any], value: Any) -> int:
    return _up(_sizes(operands)[1] * _TRAVERSAL)


def _first_twice(operands: list[Any], value: Any) -> int:
    return _up(size_of(operands[0]) * 2 * _TRAVERSAL)


def _traversed(operands: list[Any], value: Any) -> int:
    text = operands[0]
    return int(len(text.encode()) * _TRAVERSAL) if isinstance(text, str) else 1


def _result_twice(operands: list[Any], value: Any) -> int:
    return _up(size_of(value) * 2 * _TRAVERSAL)


def _second(operands: list[Any], value: Any) -> int:
    return size_of(operands[1])


def _least(operands: list[Any], value: Any) -> int:
    return _up(min(_sizes(operands)) * _TRAVERSAL)


def _equality(operands: list[Any], value: Any) -> int:
    return 1 if isinstance(operands[0], Quantity | Semver) else _least(operands, value)


def _both(operands: list[Any], value: Any) -> int:
    return _up(sum(_sizes(operands)) * _TRAVERSAL)


def _matched(operands: list[Any], value: Any) -> int:
    text, pattern = _sizes(operands)
    return _up((1.0 + text) * _TRAVERSAL) * _up(pattern * _REGEX)


def _contained(operands: list[Any], value: Any) -> int:
    text, other = _sizes(operands)
    return _up(text * _TRAVERSAL) * _up(other * _TRAVERSAL)


_OF_FUNCTIONS: Final[Mapping[str, _CostOf]] = {
    "_==_": _equality,
    "_!=_": _least,
    "join": _result_twice,
    **dict.fromkeys(("indexOf", "lastIndexOf"), _traversed),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _first),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _first),
    **dict.fromkeys(("replace", "split"), _first_twice),
}
_OF_OVERLOADS: Final[Mapping[str, _CostOf]] = {
    **dict.fromkeys(
        (
            "starts_with_string",
            "ends_with_string",
            "string_to_bytes",
            "bytes_to_string",
            "strings_quote",
            "string_format",
        ),
        _first,
    ),
    **dict.fromkeys(
        (
            f"{comparison}_{kind}"
            for comparison in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _least,
    ),
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    "in_list": _second,
    "matches_string": _matched,
    "contains_string": _contained,
}
