"""What an expression is for a device, and what it costs to find out.

A checked expression becomes a function of a `Run`, which counts the costs of each step as the real interpreter does
and ends the evaluation where they exceed the limit. Errors of parts are exceptions, and values only where a loop or
``cel.bind`` keeps them.

Source: cel-go v0.26.0, interpreter/runtimecost.go, interpreter/planner.go, interpreter/interpretable.go,
interpreter/attributes.go; k8s.io/apiserver v0.34.4, pkg/cel/library/cost.go (``CallCost``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ...model.version import Version
from .call_costs import CostOf, cost_of, one
from .functions import call, is_own
from .run import Later, Qualifier, Run, Step, kept, resolved, variable
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
    EvaluationError,
    Joined,
    NamedType,
    Optional,
    key_of,
    value_of_key,
)

__all__ = ["evaluation"]

_LIST_COST: Final = 10
_MAP_COST: Final = 30
_MESSAGE_COST: Final = 40
_FOLDED: Final = frozenset(("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"))
"""Conversions, which cost nothing where they are of constants."""
_HASHED: Final = (bool, int, float, str, type(None))
_NO_OVERLOAD: Final = "no such overload"


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
    qualifiers: tuple[Qualifier, ...] = field(default=())
    is_choice: bool = False


def evaluation(checked: Checked, release: Version) -> Step:
    """Return what evaluates an expression, at the costs of a release.

    It raises `EvaluationError` where the expression has no value for the variables of a run, and `LimitError` where it
    costs too much.

    Raises:
        EvaluationError: a constant in it can never be evaluated.
    """
    return _Planner(checked, release).plan(checked.expr).step


class _Planner:
    def __init__(self, checked: Checked, release: Version) -> None:
        self._release = release
        self._overloads = checked.overloads
        self._types = checked.types

    def plan(self, expr: Expr) -> _Planned:
        match expr:
            case Literal(value=value):
                return _Planned(lambda _: value, is_constant=True)
            case Ident(name=name) if name in _TYPE_NAMES and self._types[expr.id].name == "type":
                return _Planned(lambda _: NamedType(name), is_constant=True)
            case Ident(name=name):
                return _attribute(variable(name), ())
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
        return self._qualified(self.plan(expr.operand), Qualifier(lambda _: name, is_test=expr.is_test))

    def _qualified(self, operand: _Planned, qualifier: Qualifier) -> _Planned:
        base, qualifiers = operand.base or operand.step, (*operand.qualifiers, qualifier)
        if operand.is_choice:
            return _choice(base, qualifiers)
        return _attribute(base, qualifiers)

    def _index(self, expr: Call, *, is_optional: bool) -> _Planned:
        operand, index = (self.plan(each) for each in expr.arguments)
        key = resolved(index.base, index.qualifiers) if index.base else index.step
        return self._qualified(operand, Qualifier(key, is_optional))

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
        chosen = [resolved(each.base, each.qualifiers) if each.base else each.step for each in (first, second)]

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
            items, new = _operands(steps, run, one, are_all=True)
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
        cost = cost_of(function, overload, self._release)
        steps = [each.step for each in planned]
        reads_parts = function in ("_==_", "_!=_", "@in") or not is_own(function)
        # A pattern that is a constant is compiled before.
        are_all = len(steps) < 3 and not (function == "matches" and planned[1].is_constant)

        def evaluate(run: Run) -> Any:
            operands = _operands(steps, run, cost, are_all=are_all)
            if function == "join":
                value = call(function, is_member, operands)
                run.charge(cost(operands, value))
                return value
            run.charge(cost(operands, None))
            if reads_parts:
                run.read(operands)
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
            inner = {**outer, accumulator: Later(initial, outer)}
            try:
                for item in items:
                    run.names = inner
                    inner[variable] = item
                    try:
                        if condition(run) is False:
                            break
                    except EvaluationError:
                        pass
                    inner[accumulator] = kept(step, run)
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


def _operands(steps: list[Step], run: Run, cost: CostOf, *, are_all: bool) -> list[Any]:
    """The operands of a function; one whose operands are all there costs something even where one is an error.

    Args:
        steps: evaluate them.
        run: the evaluation.
        cost: of the function.
        are_all: whether they are evaluated behind an error, too.
    """
    values: list[Any] = []
    failed: EvaluationError | None = None
    for step in steps:
        try:
            values.append(step(run))
        except EvaluationError as error:
            failed = failed or error
            values.append(None)
            if not are_all:
                break
    if failed:
        if len(values) == len(steps):
            run.charge(cost(values, None))
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


def _attribute(base: Step, qualifiers: tuple[Qualifier, ...]) -> _Planned:
    resolve = resolved(base, qualifiers)
    cost = 0 if qualifiers and qualifiers[-1].is_test else 1

    def evaluate(run: Run) -> Any:
        try:
            return resolve(run)
        finally:
            run.charge(cost)

    return _Planned(evaluate, base=base, qualifiers=qualifiers)


def _choice(base: Step, qualifiers: tuple[Qualifier, ...]) -> _Planned:
    return _Planned(resolved(base, qualifiers), base=base, qualifiers=qualifiers, is_choice=True)
