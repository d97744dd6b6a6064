"""What an expression about a device may cost at most, in the units in which Kubernetes limits it.

An estimate walks the tree once, and carries with the greatest cost of each part the size that its value may have: the
characters of a string, the items of a list or map. What it does not know is `UNKNOWN`, and a cost that depends on it is
beyond every limit.

Source: cel-go v0.26.0, checker/cost.go; k8s.io/apiserver v0.34.4, pkg/cel/library/cost.go (``EstimateCallCost``);
k8s.io/dynamic-resource-allocation v0.34.4, cel/compile.go (``sizeEstimator``).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from ...model.version import Difference, Version
from .tree import Call, Checked, Comprehension, Expr, Ident, ListOf, Literal, MapOf, Message, Select, Type

__all__ = ["MOST", "READS_ALL_PATTERNS", "estimated_cost"]

READS_ALL_PATTERNS: Final = Difference(
    "`matches(text, pattern)` in a selector costs what `text.matches(pattern)` does; before, 1",
    {"1.26": False, "1.37": True},
    "cel-go v0.26.0, v0.29.2, checker/cost.go, interpreter/runtimecost.go",
)

MOST: Final = (1 << 64) - 1
"""The greatest cost that there is; sums and products end here."""
_TRAVERSAL: Final = 0.1
_REGEX: Final = 0.25
_LIST_COST: Final = 10
_MAP_COST: Final = 30
_MESSAGE_COST: Final = 40
_SCALARS: Final = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))
_COMPARED_AT_ONCE: Final = frozenset(("kubernetes.Quantity", "kubernetes.Semver"))
_BASIC: Final = _SCALARS | {"string", "bytes", "list", "null", "dyn", "any", "type", "optional_type"}


class Range(NamedTuple):
    """The least and the greatest that a size or a cost can be."""

    low: int
    high: int

    @classmethod
    def of(cls, number: int) -> Range:
        return cls(number, number)

    def plus(self, other: Range) -> Range:
        return Range(min(self.low + other.low, MOST), min(self.high + other.high, MOST))

    def times(self, other: Range) -> Range:
        return Range(min(self.low * other.low, MOST), min(self.high * other.high, MOST))

    def by(self, factor: float) -> Range:
        """Multiply, and round up."""
        return Range(_rounded(self.low * factor), _rounded(self.high * factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def _rounded(number: float) -> int:
    return min(math.ceil(number), MOST)


UNKNOWN: Final = Range(0, MOST)
_NOTHING: Final = Range.of(0)
_ONE: Final = Range.of(1)
_NO_ITEM: Final = Range(MOST, 0)


class Items(NamedTuple):
    """The sizes of the keys or places, and of the values, of a list or map."""

    is_list: bool
    keys: Range
    values: Range


class Path:
    """Where in ``device`` a value is, as the real estimator keeps it: a Go slice, which shares its memory.

    Of two paths that continue the same one the later may overwrite the end of the earlier.
    """

    __slots__ = ("_memory", "_room", "length")

    def __init__(self, memory: list[str], length: int, room: int) -> None:
        self._memory, self.length, self._room = memory, length, room

    @classmethod
    def begin(cls, name: str) -> Path:
        return cls([name], 1, 1)

    def then(self, name: str) -> Path:
        if self.length < self._room:
            self._memory[self.length :] = [name]
            return Path(self._memory, self.length + 1, self._room)
        return Path([*self._memory[: self.length], name], self.length + 1, max(2 * self._room, 1))

    @property
    def names(self) -> list[str]:
        return self._memory[: self.length]


_NOWHERE: Final = Path([], 0, 0)


@dataclass(frozen=True, slots=True)
class Variable:
    """What is known of the value of a local variable."""

    path: Path
    size: Range | None
    items: Items | None


@dataclass(frozen=True, slots=True)
class Declared:
    """How large a part of ``device`` can be, and its parts."""

    size: int
    fields: Mapping[str, Declared] = field(default_factory=dict)
    keys: Declared | None = None
    values: Declared | None = None


_ATTRIBUTE: Final = Declared(64)


def _by_domain(values: Declared) -> Declared:
    return Declared(32, keys=Declared(63), values=Declared(32, keys=Declared(32), values=values))


_DEVICE: Final = Declared(
    0,
    {
        "driver": Declared(63),
        "allowMultipleAllocations": Declared(1),
        "attributes": _by_domain(_ATTRIBUTE),
        "capacity": _by_domain(Declared(0)),
    },
)


def _declared_size(names: list[str]) -> Range | None:
    """Source: cel/compile.go, ``sizeEstimator.EstimateSize``."""
    if not names or names[0] != "device":
        return None
    part = _DEVICE
    for name in names[1:]:
        if name in ("@items", "@values"):
            found = part.values
        elif name == "@keys":
            found = part.keys
        elif name in part.fields:
            found = part.fields[name]
        else:
            # All attributes have the same size; capacities with a name have none that is known.
            found = part.values if part.values is _ATTRIBUTE else None
        if found is None:
            return None
        part = found
    return Range(0, part.size)


class Estimated(NamedTuple):
    """The cost of a call without that of its operands, and the size of its result where that is known."""

    cost: Range
    size: Range | None = None


_Sizes: TypeAlias = list[Range]


def estimated_cost(checked: Checked, release: Version) -> int:
    """Return the greatest cost of an expression, as a release estimates it."""
    return _Estimator(checked, release).cost(checked.expr).high


class _Estimator:
    def __init__(self, checked: Checked, release: Version) -> None:
        self._reads_patterns = READS_ALL_PATTERNS.at(release)
        self._types = checked.types
        self._overloads = checked.overloads
        self._paths: dict[int, Path] = {}
        self._variables: defaultdict[str, list[Variable]] = defaultdict(list)
        self._sizes: dict[int, Range] = {}
        self._items: dict[int, Items] = {}

    def cost(self, expr: Expr) -> Range:
        match expr:
            case Ident():
                variable = self._variable(expr)
                self._paths[expr.id] = variable.path if variable else Path.begin(expr.name)
                return _ONE
            case Select():
                return self._select(expr)
            case Call():
                return self._call(expr)
            case ListOf():
                return self._list(expr)
            case MapOf():
                return self._map(expr)
            case Message():
                return self._sum(value for _, value, _ in expr.fields).plus(Range.of(_MESSAGE_COST))
            case Comprehension():
                return self._bind(expr) if expr.is_bind else self._loop(expr)
        return _NOTHING

    def _sum(self, exprs: Iterable[Expr]) -> Range:
        total = _NOTHING
        for expr in exprs:
            total = total.plus(self.cost(expr))
        return total

    # What is known of a part

    def _type(self, expr: Expr) -> Type:
        return self._types.get(expr.id, _DEVICE_TYPE if expr.id < 0 else _DYN)

    def _variable(self, expr: Expr) -> Variable | None:
        found = self._variables.get(expr.name) if isinstance(expr, Ident) else None
        return found[-1] if found else None

    def _path(self, expr: Expr) -> Path:
        variable = self._variable(expr)
        return variable.path if variable else self._paths.get(expr.id, _NOWHERE)

    def _known_size(self, expr: Expr) -> Range | None:
        if expr.id in self._sizes:
            return self._sizes[expr.id]
        match expr:
            case Literal(value=str() | bytes() as text):
                return Range.of(len(text))
            case Literal():
                return _ONE
            case ListOf():
                return Range.of(len(expr.items))
            case MapOf():
                return Range.of(len(expr.entries))
        declared = _declared_size(self._path(expr).names)
        if declared is not None:
            self._sizes[expr.id] = declared
            return declared
        if _is_scalar(self._type(expr)):
            return _ONE
        variable = self._variable(expr)
        return variable.size if variable else None

    def _size(self, expr: Expr) -> Range:
        known = self._known_size(expr)
        return UNKNOWN if known is None else known

    def _known_items(self, expr: Expr) -> Items | None:
        if expr.id in self._items:
            return self._items[expr.id]
        variable = self._variable(expr)
        return variable.items if variable else None

    def _keep(self, expr: Expr, size: Range | None, items: Items | None = None) -> None:
        if size is not None:
            self._sizes[expr.id] = size
        if items is not None:
            self._items[expr.id] = items

    # Parts

    def _select(self, expr: Select) -> Range:
        total = self.cost(expr.operand)
        if expr.is_test:
            return total
        kind = self._type(expr.operand)
        if kind.name == "map" or kind.name not in _BASIC:
            total = total.plus(_ONE)
        self._paths[expr.id] = self._path(expr.operand).then(expr.field)
        return total

    def _list(self, expr: ListOf) -> Range:
        total, size = _NOTHING, _NO_ITEM if expr.items else UNKNOWN._replace(high=0)
        for item in expr.items:
            total = total.plus(self.cost(item))
            size = size.union(self._size(item))
        self._keep(expr, None, Items(True, _ONE, size))
        return total.plus(Range.of(_LIST_COST))

    def _map(self, expr: MapOf) -> Range:
        total = _NOTHING
        keys = values = _NO_ITEM if expr.entries else _NOTHING
        for key, value, _ in expr.entries:
            total = total.plus(self.cost(key)).plus(self.cost(value))
            keys, values = keys.union(self._size(key)), values.union(self._size(value))
        self._keep(expr, None, Items(False, keys, values))
        return total.plus(Range.of(_MAP_COST))

    def _bind(self, expr: Comprehension) -> Range:
        total = self.cost(expr.range).plus(self.cost(expr.initial))
        self._push(expr.accumulator, self._of_value(expr.initial))
        total = total.plus(self.cost(expr.result))
        self._variables[expr.accumulator].pop()
        self._keep(expr, self._known_size(expr.result), self._known_items(expr.result))
        return total

    def _loop(self, expr: Comprehension) -> Range:
        total = self.cost(expr.range).plus(self.cost(expr.initial))
        self._push(expr.accumulator, self._of_value(expr.initial))
        self._push(expr.variable, self._of_item(expr.range))
        each = self.cost(expr.condition)
        each = self.cost(expr.step).plus(each)
        self._variables[expr.variable].pop()
        total = total.plus(self.cost(expr.result))
        self._variables[expr.accumulator].pop()
        count = self._size(expr.range)
        if isinstance(expr.initial, Literal):
            self._keep(expr, self._known_size(expr.initial))
        elif isinstance(expr.initial, ListOf | MapOf):
            self._keep(expr, count, self._known_items(expr.step))
        return total.plus(count.times(each))

    def _push(self, name: str, variable: Variable) -> None:
        self._variables[name].append(variable)

    def _of_value(self, expr: Expr) -> Variable:
        return Variable(self._path(expr), self._known_size(expr), self._known_items(expr))

    def _of_item(self, range_: Expr) -> Variable:
        """What is known of the items of a list, or of the keys of a map."""
        items = self._known_items(range_)
        is_list = items.is_list if items else self._type(range_).name == "list"
        size = (items.values if is_list else items.keys) if items else None
        return Variable(self._path(range_).then("@items" if is_list else "@keys"), size, None)

    # Calls

    def _call(self, expr: Call) -> Range:
        if expr.function == "dyn":
            (argument,) = expr.arguments
            total = _ONE.plus(self.cost(argument))
            self._keep(expr, self._known_size(argument), self._known_items(argument))
            return total
        costs, sizes = [], []
        for argument in expr.arguments:
            costs.append(self.cost(argument))
            sizes.append(self._size(argument))
        overloads = self._overloads.get(expr.id, ())
        if not overloads:
            return _NOTHING
        total = _NOTHING
        if expr.target is not None:
            total = self.cost(expr.target)
            sizes.insert(0, self._size(expr.target))
        of_call, size = _NO_ITEM, None
        for overload in overloads:
            cost, result = self._overload(expr, overload, sizes, costs)
            of_call = of_call.union(cost)
            if result is not None:
                size = result if size is None else size.union(result)
            if overload in ("index_list", "index_map"):
                container = expr.arguments[0]
                items = self._known_items(container)
                size = items.values if items else None
                end = "@items" if overload == "index_list" else "@values"
                self._paths[expr.id] = self._path(container).then(end)
            if size is None:
                size = self._known_size(expr)
        self._keep(expr, size)
        return total.plus(of_call)

    def _overload(self, expr: Call, overload: str, sizes: _Sizes, costs: list[Range]) -> tuple[Range, Range | None]:
        """The cost of a call with that of its arguments, and the size of its result."""
        match overload:
            case "logical_or" | "logical_and":
                return Range(costs[0].low, costs[0].plus(costs[1]).high), None
            case "conditional":
                _, first, second = expr.arguments
                self._keep_both(expr, first, second)
                return costs[0].plus(costs[1].union(costs[2])), sizes[1].union(sizes[2])
        estimated = self._own(expr, sizes)
        if estimated is None:
            if overload in ("add_string", "add_bytes", "add_list"):
                self._keep_both(expr, *expr.arguments)
            if overload == "matches" and self._reads_patterns:
                overload = "matches_string"
            estimated = _STANDARD.get(overload, _constant)(sizes)
        total = estimated.cost
        for cost in costs:
            total = total.plus(cost)
        return total, estimated.size

    def _keep_both(self, expr: Expr, first: Expr, second: Expr) -> None:
        one, other = self._known_items(first), self._known_items(second)
        if one and other:
            self._items[expr.id] = Items(one.is_list, one.keys.union(other.keys), one.values.union(other.values))

    def _own(self, expr: Call, sizes: _Sizes) -> Estimated | None:
        """Kubernetes' estimate for a function, whichever overload it is."""
        if expr.function == "_==_":
            first, second = (self._type(each) for each in expr.arguments)
            return Estimated(_ONE) if first == second and first.name in _COMPARED_AT_ONCE else None
        if expr.function == "split" and len(expr.arguments) > 1:
            limit = expr.arguments[1]
            most = sizes[0].high
            if isinstance(limit, Literal) and isinstance(limit.value, int):
                most = limit.value % (1 << 64)
            return Estimated(sizes[0].by(2 * _TRAVERSAL), Range(0, most))
        if expr.function == "join" and expr.target is not None:
            return self._join(expr.target, sizes)
        of_function = _KUBERNETES.get(expr.function)
        return of_function(sizes) if of_function else None

    def _join(self, target: Expr, sizes: _Sizes) -> Estimated:
        size = _NOTHING
        if self._type(target).parameters:
            path = self._path(target)
            declared = _declared_size(path.then("@items").names) if path.length else None
            size = sizes[0].times(UNKNOWN if declared is None else declared)
        if len(sizes) > 1:
            between = Range(max(sizes[0].low - 1, 0), max(sizes[0].high - 1, 0))
            size = size.plus(sizes[1].times(between))
        return Estimated(size.by(_TRAVERSAL), size)


_DYN: Final = Type("dyn")
_DEVICE_TYPE: Final = Type("kubernetes.DRADevice")


def _is_scalar(kind: Type) -> bool:
    return kind.name in _SCALARS or (kind.name == "optional_type" and _is_scalar(kind.parameters[0]))


# What functions cost, by the sizes of their operands


def _constant(_: _Sizes) -> Estimated:
    return Estimated(_ONE)


def _first(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].by(_TRAVERSAL))


def _first_kept(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].by(_TRAVERSAL), sizes[0])


def _second(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[1].by(_TRAVERSAL))


def _split(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].by(2 * _TRAVERSAL), Range(0, sizes[0].high))


def _replace(sizes: _Sizes) -> Estimated:
    text, old, new = sizes[:3]
    low = _replaced(text.low, old.high, new.low, is_shorter=old.high > new.low)
    high = _replaced(text.high, old.low, new.high, is_shorter=old.low < new.high)
    return Estimated(text.by(2 * _TRAVERSAL), Range(low, high))


def _replaced(text: int, old: int, new: int, *, is_shorter: bool) -> int:
    """How long a text becomes; `is_shorter` where replacing changes its length to the side that is asked for."""
    if old == 0:
        return min(min(text + 1, MOST) * new + text, MOST)
    if not is_shorter:
        return text
    return min(_rounded(text / old) * new, MOST)


def _in(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[1].by(1))


def _contains(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].by(_TRAVERSAL).times(sizes[1].by(_TRAVERSAL)))


def _matches(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].plus(_ONE).by(_TRAVERSAL).times(sizes[1].by(_REGEX)))


def _compared(sizes: _Sizes) -> Estimated:
    high = min(sizes[0].high, sizes[1].high)
    return Estimated(Range(min(high, 1), high).by(_TRAVERSAL))


def _joined(sizes: _Sizes) -> Estimated:
    size = sizes[0].plus(sizes[1])
    return Estimated(size.by(_TRAVERSAL), size)


def _list_joined(sizes: _Sizes) -> Estimated:
    return Estimated(_ONE, sizes[0].plus(sizes[1]))


def _to_bytes(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].by(_TRAVERSAL), Range(sizes[0].low, sizes[0].high * 4 & MOST))


def _to_text(sizes: _Sizes) -> Estimated:
    return Estimated(sizes[0].by(_TRAVERSAL), Range(sizes[0].low // 4, sizes[0].high))


def _quoted(sizes: _Sizes) -> Estimated:
    low, high = sizes[0]
    return Estimated(sizes[0].by(_TRAVERSAL), Range(low + 2, (high * 2 + 2) & MOST))


_OfSizes: TypeAlias = Callable[[_Sizes], Estimated]
_KUBERNETES: Final[Mapping[str, _OfSizes]] = {
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _first_kept),
    **dict.fromkeys(("indexOf", "lastIndexOf", "quantity", "isQuantity", "semver", "isSemver"), _first),
    "replace": _replace,
    "split": _split,
}
_STANDARD: Final[Mapping[str, _OfSizes]] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _second),
    **dict.fromkeys(
        (
            f"{comparison}_{kind}"
            for comparison in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _compared,
    ),
    **dict.fromkeys(("equals", "not_equals"), _compared),
    **dict.fromkeys(("add_string", "add_bytes"), _joined),
    "add_list": _list_joined,
    "in_list": _in,
    "matches_string": _matches,
    "contains_string": _contains,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_text,
    "strings_quote": _quoted,
    "string_format": _first,
}
