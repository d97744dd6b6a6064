"""Random selectors in CEL, of all that our environment has, and the device that they are about."""

from __future__ import annotations

from functools import cache
from typing import Final, TypeAlias

from hypothesis import strategies as st

from simkubelet.cluster.objects.objects import JSON
from tests.support.oracle import OracleProgram

__all__ = ["DEVICE", "DRIVER", "expressions"]

DRIVER: Final = "a"
DEVICE: Final[JSON] = {
    "name": "d",
    "attributes": {
        "x": {"string": "abc"},
        "y": {"int": 3},
        "z": {"bool": True},
        "v": {"version": "1.2.3"},
        "b/x": {"string": "hello world, hello"},
    },
    "capacity": {"x": {"value": "1Gi"}, "b/y": {"value": "5"}},
}
"""Of each domain it has one attribute with text at most, as the order of a Go map is another each time."""

_Scope: TypeAlias = tuple[tuple[str, str], ...]
"""Names of variables with their types."""
_Part: TypeAlias = st.SearchStrategy[str]

_CONSTANTS: Final = {
    "bool": ("true", "false"),
    "int": ("0", "1", "2", "-3", "17"),
    "uint": ("0u", "1u", "2u"),
    "double": ("0.5", "1.0", "-2.25"),
    "string": ('""', '"a"', '"abc"', '"x,y,z"', '"é"', '"1Gi"', '"1.2.3"', '"abcdefghijklmnopqrstuvwxyz"'),
    "bytes": ('b"a"', 'b"abcd"'),
    "quantity": ('quantity("1")', 'quantity("2Gi")', 'device.capacity["a"].x', 'device.capacity["b"].y'),
    "semver": ('semver("1.2.3")', 'semver("0.1.0")'),
    "dyn": (
        'device.attributes["a"].x',
        'device.attributes["a"].y',
        'device.attributes["a"].z',
        'device.attributes["a"].v',
        "device.attributes.b.x",
        'device.attributes["a"].missing',
        'device.attributes["c"].x',
    ),
    "list(int)": ("[]", "[1]", "[1, 2, 3]", "[3, 0]"),
    "list(string)": ('["a"]', '["a", "bcd", "ef"]', '"x,y,z".split(",")'),
    "map": ('{"a": 1}', '{"x": 1, "y": 2}', "{}"),
}
_TYPES: Final = tuple(_CONSTANTS)
_ITEMS: Final = {"list(int)": "int", "list(string)": "string", "map": "string"}


def expressions() -> st.SearchStrategy[str]:
    """Whole expressions, some of which are refused, fail, or cost too much."""
    return st.integers(0, 4).flatmap(lambda depth: _of("bool", depth, ()))


@cache
def _of(kind: str, depth: int, scope: _Scope) -> _Part:
    leaf = [st.sampled_from(_CONSTANTS[kind])]
    if names := [name for name, of in scope if of == kind]:
        leaf.append(st.sampled_from(names))
    if kind == "string":
        leaf.append(st.just("device.driver"))
    if depth == 0:
        return st.one_of(leaf)
    return st.deferred(lambda: st.one_of(*leaf, *_calls(kind, depth - 1, scope), *_shared(kind, depth - 1, scope)))


def _joined(form: str, *parts: _Part) -> _Part:
    return st.tuples(*parts).map(lambda texts: form.format(*texts))


def _shared(kind: str, depth: int, scope: _Scope) -> list[_Part]:
    """Forms of any type: choices, names for values, optional values."""

    def part(of: str) -> _Part:
        return _of(of, depth, scope)

    def bound(of: str) -> _Part:
        name = f"v{len(scope)}"
        inner = _of(kind, depth, (*scope, (name, of)))
        return _joined(f"cel.bind({name}, {{}}, {{}})", part(of), inner)

    forms = [
        _joined("({} ? {} : {})", part("bool"), part(kind), part(kind)),
        st.sampled_from(_TYPES).flatmap(bound),
        _joined("optional.of({}).orValue({})", part(kind), part(kind)),
        _joined("optional.none().orValue({})", part(kind)),
        _joined("[{}, {}][{}]", part(kind), part(kind), st.sampled_from(("0", "1", "2"))),
    ]
    if kind != "dyn":
        forms.append(_joined('{{"k": {}}}.k', part(kind)))
    return forms


def _calls(kind: str, depth: int, scope: _Scope) -> list[_Part]:
    def part(of: str) -> _Part:
        return _of(of, depth, scope)

    def loop(form: str, of: str, inner: str) -> _Part:
        name = f"v{len(scope)}"
        body = _of(inner, depth, (*scope, (name, _ITEMS[of])))
        return _joined(form.replace("NAME", name), part(of), body)

    return [_joined(form, *map(part, kinds)) for form, *kinds in _FORMS.get(kind, ())] + [
        loop(form, of, inner) for form, of, inner in _LOOPS.get(kind, ())
    ]


_LOOPS: Final = {
    "bool": [(f"{{}}.{macro}(NAME, {{}})", of, "bool") for macro in ("all", "exists", "exists_one") for of in _ITEMS]
    + [("device.attributes.a.exists(NAME, {1})", "list(string)", "bool")],
    "list(int)": [
        ("{}.map(NAME, {})", "list(int)", "int"),
        ("{}.map(NAME, {})", "list(string)", "int"),
        ("{}.filter(NAME, {})", "list(int)", "bool"),
        ("{}.map(NAME, NAME > 1, {})", "list(int)", "int"),
    ],
    "list(string)": [
        ("{}.map(NAME, {})", "list(int)", "string"),
        ("{}.filter(NAME, {})", "list(string)", "bool"),
    ],
}
_COMPARED: Final = ("bool", "int", "uint", "double", "string", "bytes")
_FORMS: Final[dict[str, list[tuple[str, ...]]]] = {
    "bool": [
        ("({} && {})", "bool", "bool"),
        ("({} || {})", "bool", "bool"),
        ("!{}", "bool"),
        *((f"({{}} {sign} {{}})", kind, kind) for kind in _TYPES for sign in ("==", "!=")),
        *((f"({{}} {sign} {{}})", kind, kind) for kind in _COMPARED for sign in ("<", "<=", ">", ">=")),
        *((f"({{}} {sign} {{}})", "dyn", kind) for kind in ("int", "string", "dyn") for sign in ("<", ">=", "==")),
        ("({} in {})", "int", "list(int)"),
        ("({} in {})", "string", "list(string)"),
        ("({} in {})", "string", "map"),
        ("({} in device.attributes)", "string"),
        ("{}.contains({})", "string", "string"),
        ("{}.startsWith({})", "string", "string"),
        ("{}.endsWith({})", "string", "string"),
        ("{}.matches({})", "string", "string"),
        ("matches({}, {})", "string", "string"),
        ("{}.contains({})", "dyn", "string"),
        ("isQuantity({})", "string"),
        ("isSemver({})", "string"),
        ("{}.isLessThan({})", "quantity", "quantity"),
        ("{}.isGreaterThan({})", "semver", "semver"),
        ("{}.isLessThan({})", "dyn", "semver"),
        ("{}.isInteger()", "quantity"),
        ("has(device.attributes[{}].x)", "string"),
        ("device.attributes[{}].?x.hasValue()", "string"),
        ("device.attributes[{}][?{}].hasValue()", "string", "string"),
        ("optional.ofNonZeroValue({}).hasValue()", "string"),
        ("optional.of({}).optMap(m, m + 1).hasValue()", "int"),
        ("dyn({})", "bool"),
        ("type({0}) == type({1})", "dyn", "string"),
        ("device.allowMultipleAllocations",),
    ],
    "int": [
        *((f"({{}} {sign} {{}})", "int", "int") for sign in "+-*/%"),
        ("-({})", "int"),
        ("size({})", "string"),
        ("{}.size()", "list(int)"),
        ("{}.size()", "list(string)"),
        ("size({})", "map"),
        ("int({})", "double"),
        ("{}.compareTo({})", "quantity", "quantity"),
        ("{}.compareTo({})", "semver", "semver"),
        ("{}.asInteger()", "quantity"),
        ("{}.major()", "semver"),
        ("{}.indexOf({})", "string", "string"),
        ("{}.lastIndexOf({})", "string", "string"),
        ("{}[{}]", "list(int)", "int"),
        ("{}[{}]", "map", "string"),
        ("device.attributes[{}].?y.orValue(1)", "string"),
    ],
    "uint": [("({} + {})", "uint", "uint"), ("uint({})", "int")],
    "double": [("({} * {})", "double", "double"), ("double({})", "int"), ("{}.asApproximateFloat()", "quantity")],
    "string": [
        ("({} + {})", "string", "string"),
        ("{}.lowerAscii()", "string"),
        ("{}.upperAscii()", "string"),
        ("{}.trim()", "string"),
        ("{}.replace({}, {})", "string", "string", "string"),
        ("{}.replace({}, {}, {})", "string", "string", "string", "int"),
        ("{}.substring({})", "string", "int"),
        ("{}.substring({}, {})", "string", "int", "int"),
        ("{}.charAt({})", "string", "int"),
        ("{}.join({})", "list(string)", "string"),
        ("{}.join()", "list(string)"),
        ("{}[{}]", "list(string)", "int"),
        ("string({})", "int"),
        ("string({})", "bytes"),
        ("strings.quote({})", "string"),
    ],
    "bytes": [("({} + {})", "bytes", "bytes"), ("bytes({})", "string")],
    "quantity": [("quantity({})", "string"), ('device.capacity[{}].?x.orValue(quantity("1"))', "string")],
    "semver": [("semver({})", "string")],
    "dyn": [
        ("dyn({})", "int"),
        ("dyn({})", "string"),
        ("device.attributes[{}].x", "string"),
        ("device.attributes[{}][{}]", "string", "string"),
        ("dyn({}).x", "map"),
    ],
    "list(int)": [
        ("({} + {})", "list(int)", "list(int)"),
        ("[{}, {}]", "int", "int"),
        ("[?optional.of({}), {}]", "int", "int"),
    ],
    "list(string)": [
        ("{}.split({})", "string", "string"),
        ("{}.split({}, {})", "string", "string", "int"),
        ("({} + {})", "list(string)", "list(string)"),
        ("[{}]", "string"),
    ],
    "map": [("{{{}: {}}}", "string", "int"), ('{{"y": {}, {}: 1}}', "int", "string")],
}


def select(real: OracleProgram, expression: str) -> JSON:
    """What the real compiler and interpreter say of an expression and `DEVICE`."""
    answer = real.ask(cmd="select", expression=expression, driver=DRIVER, device=DEVICE, sharing=True)
    return {key: answer[key] for key in ("estimate", "matches", "cost", "failure", "error") if key in answer}
