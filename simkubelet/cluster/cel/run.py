"""One evaluation of an expression: its variables, its costs, and how it looks into values.

Source: cel-go v0.26.0, interpreter/attributes.go, interpreter/runtimecost.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from .values import (
    Domains,
    EvaluationError,
    ExhaustedError,
    Joined,
    LimitError,
    Optional,
    count_parts,
    key_of,
    size_of,
)

__all__ = ["Effort", "Later", "Qualifier", "Run", "Step", "kept", "resolved", "variable"]


class Run:
    """One evaluation: its variables, and what it has cost.

    Args:
        names: the values of variables.
        limit: what it may cost.
    """

    __slots__ = ("cost", "limit", "names", "parts")

    def __init__(self, names: dict[str, Any], limit: int) -> None:
        self.names = names
        self.limit = limit
        self.cost = 0
        self.parts = limit

    def charge(self, cost: int) -> None:
        """Add what a step costs.

        Raises:
            LimitError: that is more than the limit, or it was before.
        """
        if self.cost <= self.limit:
            self.cost += cost
        if self.cost > self.limit:
            raise LimitError

    def read(self, values: list[Any]) -> None:
        """Count values that a function reads with all of their parts, which costs nothing and takes time.

        Raises:
            LimitError: those of this evaluation have too many parts.
        """
        self.parts -= count_parts(values, self.parts)


Step: TypeAlias = Callable[[Run], Any]
T = TypeVar("T")

_READING_COST: Final = 5
"""Of a character of an expression."""
_MOST_PREPARED: Final = 128


class Effort:
    """What a search may cost that evaluates expressions, in their units; it knows the run that goes on.

    Args:
        most: for all of it.
    """

    __slots__ = ("_is_stopped", "_left", "_prepared", "_run")

    def __init__(self, most: int) -> None:
        self._left = most
        self._prepared: dict[str, Any] = {}
        self._run: Run | None = None
        self._is_stopped = False

    def spend(self, cost: int = 0) -> None:
        """Count what is no evaluation.

        Raises:
            ExhaustedError: there is not as much left, or the search was stopped.
        """
        if self._is_stopped or cost > self._left:
            raise ExhaustedError
        self._left -= cost

    def prepared(self, expression: str, prepare: Callable[[str], T]) -> T:
        """What `prepare` makes of an expression, which costs by its length; the last ones are kept.

        Raises:
            ExhaustedError: see `spend`.
        """
        made: T | None = self._prepared.get(expression)
        if made is None:
            self.spend(_READING_COST * len(expression))
            if len(self._prepared) == _MOST_PREPARED:
                self._prepared.clear()
            made = self._prepared[expression] = prepare(expression)
        return made

    def evaluate(self, step: Step, names: dict[str, Any], limit: int) -> Any:
        """The value of an expression for some variables.

        Raises:
            EvaluationError: it has none.
            LimitError: it costs more than the limit.
            ExhaustedError: see `spend`.
        """
        run = self._run = Run(names, limit)
        run.limit = min(limit, self._left)
        self.spend()
        try:
            return step(run)
        except LimitError:
            if run.limit < limit and run.cost > run.limit:
                raise ExhaustedError from None
            raise
        finally:
            self._left -= min(run.cost, self._left)

    def stop(self) -> None:
        """End the search in another thread; an evaluation ends at its next step."""
        self._is_stopped = True
        if self._run is not None:
            self._run.limit = -1


@dataclass(slots=True)
class Later:
    """The value of a name that is computed where it is first used."""

    step: Step
    names: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A field, key or place of a value; `cost` is that of itself, `key` computes it."""

    key: Step
    is_optional: bool = False
    is_test: bool = False


def variable(name: str) -> Step:
    """A step that gives the value of a variable."""

    def evaluate(run: Run) -> Any:
        value = run.names[name]
        if isinstance(value, Later):
            names, run.names = run.names, value.names
            computed = kept(value.step, run)
            run.names = names
            value = [] if isinstance(computed, list) and not computed else computed
            names[name] = value
        if isinstance(value, EvaluationError):
            raise value
        return value

    return evaluate


def kept(step: Step, run: Run) -> Any:
    """The value of a step, or the error that it ends with."""
    try:
        return step(run)
    except EvaluationError as error:
        return error


def resolved(base: Step, qualifiers: tuple[Qualifier, ...]) -> Step:
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
            if qualifier.is_test:
                run.charge(1)
                return _part(value, qualifier.key(run), is_asked=True) is not _MISSING
            if is_optional:
                value = _part(value, qualifier.key(run), is_asked=True)
                if value is _MISSING:
                    return Optional(False)
                run.charge(1)
            else:
                try:
                    value = _part(value, qualifier.key(run), is_asked=False)
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
