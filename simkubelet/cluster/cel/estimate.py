"""What an expression about a device may cost at most, in the units in which Kubernetes limits it.

An estimate walks the tree once, and carries with the greatest cost of each part the size that its value may have: the
characters of a string, the items of a list or map. What it does not know is `UNKNOWN`, and a cost that depends on it is
beyond every limit.

Source: cel-go v0.26.0, checker/cost.go; k8s.io/apiserver v0.34.4, pkg/cel/library/cost.go (``EstimateCallCost``);
k8s.io/dynamic-resource-allocation v0.34.4, cel/compile.go (``sizeEstimator``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ...model.version import Difference, Version
from .call_estimates import KUBERNETES, STANDARD, TRAVERSAL, Estimated, constant
from .sizes import NO_ITEM, NOTHING, NOWHERE, ONE, UNKNOWN, Items, Path, Range, declared_size
from .tree import Call, Checked, Comprehension, Expr, Ident, ListOf, Literal, MapOf, Message, Select, Type

__all__ = ["READS_ALL_PATTERNS", "estimated_cost"]

READS_ALL_PATTERNS: Final = Difference(
    "`matches(text, pattern)` in a selector costs what `text.matches(pattern)` does; before, 1",
    {"1.26": False, "1.37": True},
    "cel-go v0.26.0, v0.29.2, checker/cost.go, interpreter/runtimecost.go",
)

_LIST_COST: Final = 10
_MAP_COST: Final = 30
_MESSAGE_COST: Final = 40
_SCALARS: Final = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))
_COMPARED_AT_ONCE: Final = frozenset(("kubernetes.Quantity", "kubernetes.Semver"))
_BASIC: Final = _SCALARS | {"string", "bytes", "list", "null", "dyn", "any", "type", "optional_type"}


@dataclass(frozen=True, slots=True)
class Variable:
    """What is known of the value of a local variable."""

    path: Path
    size: Range | None
    items: Items | None


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
                return ONE
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
        return NOTHING

    def _sum(self, exprs: Iterable[Expr]) -> Range:
        total = NOTHING
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
        return variable.path if variable else self._paths.get(expr.id, NOWHERE)

    def _known_size(self, expr: Expr) -> Range | None:
        if expr.id in self._sizes:
            return self._sizes[expr.id]
        match expr:
            case Literal(value=str() | bytes() as text):
                return Range.of(len(text))
            case Literal():
                return ONE
            case ListOf():
                return Range.of(len(expr.items))
            case MapOf():
                return Range.of(len(expr.entries))
        declared = declared_size(self._path(expr).names)
        if declared is not None:
            self._sizes[expr.id] = declared
            return declared
        if _is_scalar(self._type(expr)):
            return ONE
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
            total = total.plus(ONE)
        self._paths[expr.id] = self._path(expr.operand).then(expr.field)
        return total

    def _list(self, expr: ListOf) -> Range:
        total, size = NOTHING, NO_ITEM if expr.items else UNKNOWN._replace(high=0)
        for item in expr.items:
            total = total.plus(self.cost(item))
            size = size.union(self._size(item))
        self._keep(expr, None, Items(True, ONE, size))
        return total.plus(Range.of(_LIST_COST))

    def _map(self, expr: MapOf) -> Range:
        total = NOTHING
        keys = values = NO_ITEM if expr.entries else NOTHING
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
            total = ONE.plus(self.cost(argument))
            self._keep(expr, self._known_size(argument), self._known_items(argument))
            return total
        costs, sizes = [], []
        for argument in expr.arguments:
            costs.append(self.cost(argument))
            sizes.append(self._size(argument))
        overloads = self._overloads.get(expr.id, ())
        if not overloads:
            return NOTHING
        total = NOTHING
        if expr.target is not None:
            total = self.cost(expr.target)
            sizes.insert(0, self._size(expr.target))
        of_call, size = NO_ITEM, None
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

    def _overload(
        self, expr: Call, overload: str, sizes: list[Range], costs: list[Range]
    ) -> tuple[Range, Range | None]:
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
            estimated = STANDARD.get(overload, constant)(sizes)
        total = estimated.cost
        for cost in costs:
            total = total.plus(cost)
        return total, estimated.size

    def _keep_both(self, expr: Expr, first: Expr, second: Expr) -> None:
        one, other = self._known_items(first), self._known_items(second)
        if one and other:
            self._items[expr.id] = Items(one.is_list, one.keys.union(other.keys), one.values.union(other.values))

    def _own(self, expr: Call, sizes: list[Range]) -> Estimated | None:
        """Kubernetes' estimate for a function, whichever overload it is."""
        if expr.function == "_==_":
            first, second = (self._type(each) for each in expr.arguments)
            return Estimated(ONE) if first == second and first.name in _COMPARED_AT_ONCE else None
        if expr.function == "split" and len(expr.arguments) > 1:
            limit = expr.arguments[1]
            most = sizes[0].high
            if isinstance(limit, Literal) and isinstance(limit.value, int):
                most = limit.value % (1 << 64)
            return Estimated(sizes[0].by(2 * TRAVERSAL), Range(0, most))
        if expr.function == "join" and expr.target is not None:
            return self._join(expr.target, sizes)
        of_function = KUBERNETES.get(expr.function)
        return of_function(sizes) if of_function else None

    def _join(self, target: Expr, sizes: list[Range]) -> Estimated:
        size = NOTHING
        if self._type(target).parameters:
            path = self._path(target)
            declared = declared_size(path.then("@items").names) if path.length else None
            size = sizes[0].times(UNKNOWN if declared is None else declared)
        if len(sizes) > 1:
            between = Range(max(sizes[0].low - 1, 0), max(sizes[0].high - 1, 0))
            size = size.plus(sizes[1].times(between))
        return Estimated(size.by(TRAVERSAL), size)


_DYN: Final = Type("dyn")
_DEVICE_TYPE: Final = Type("kubernetes.DRADevice")


def _is_scalar(kind: Type) -> bool:
    return kind.name in _SCALARS or (kind.name == "optional_type" and _is_scalar(kind.parameters[0]))
