"""Selectors of devices: expressions in CEL about one device of a ResourceSlice.

Expressions are compiled and evaluated by the package ``cel-expr-python``, Google's implementation in C++, which is
imported with the first selector. Its type checker sees ``device`` as a message, so that an unknown field is an error of
the expression. To the evaluation ``device`` is a mapping, quantities and versions are mappings with one key of ours: it
has no values of other types. What it lacks of Kubernetes' environment is in docs/dra.md.

Source: k8s.io/dynamic-resource-allocation v0.34.4, cel/compile.go; k8s.io/apiserver v0.34.4, pkg/cel/library.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...model.errors import InputError
from ...model.resources import parse_quantity

if TYPE_CHECKING:
    from cel_expr_python import cel
    from google.protobuf.descriptor_pool import DescriptorPool

__all__ = ["CompileError", "DeviceView", "SelectorError", "compiled_selector", "device_view", "expression_refusal"]

DeviceView: TypeAlias = dict[str, Any]
"""A device as an expression sees it: ``driver``, and ``attributes`` and ``capacity`` by domain and name."""

_MOST_KEPT: Final = 128
_MISSING: Final = "CEL selectors need the package cel-expr-python: pip install 'simkubelet[dra]'"
_QUANTITY: Final = "kubernetes.Quantity"
_VERSION: Final = "kubernetes.Semver"
_KINDS_OF_VALUES: Final = ("int", "bool", "string", "ints", "bools", "strings")
_DOMAIN: Final = re.compile(r"""\[\s*\??\s*(?:"([^"\\]+)"|'([^'\\]+)')\s*\]""")
_TESTED_DOMAIN: Final = re.compile(r"""(?:"([^"\\]+)"|'([^'\\]+)')\s+in\s+device\.(?:attributes|capacity)""")
_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-.]+)?"
)
_NOT_IN_THE_PACKAGE: Final = re.compile(
    r"\b(isSorted|sum|min|max|indexOf|lastIndexOf|find|findAll|isURL|url|isIP|ip|isCIDR|cidr|add|sub|sign|unwrapOpt"
    r"|transformList|transformMap|transformMapEntry)\s*[(.]|\b(sets|format)\s*\.|\boptional\s*\.\s*unwrap\b"
    r"|\b(all|exists|existsOne)\s*\(\s*\w+\s*,\s*\w+\s*,|\b(semver|isSemver)\s*\([^()]*,"
)
"""Kubernetes' own functions and macros, and optional arguments of functions, that the package does not know."""
_MIXED_NUMBERS: Final = re.compile(r"'_[<>]=?_' applied to '\((int|uint|double), (int|uint|double)\)'")
"""What Kubernetes compares, and the package does not."""
_UNKNOWN_NAME: Final = re.compile(
    r"(ERROR: <input>:\d+:)(\d+)(: undeclared reference to ')([\w.]+)\.\w+(' \(in container ''\)\n \| .*\n \| )\.*\^"
)
_OF_AN_ERROR: Final = re.compile(r"\nERROR: [^\n]*'\*error\*'[^\n]*\n \| [^\n]*\n \| [^\n]*")
_STATUS: Final = re.compile(r"^[A-Z_]+: ")
_NO_SUCH_KEY: Final = re.compile(r'Key not found in map : "(.*)"', re.DOTALL)


class SelectorError(Exception):
    """An expression is wrong, or cannot be evaluated for a device; the message is that of the scheduler."""


class CompileError(SelectorError):
    """It is no expression, or none that says whether a device is selected; or the package is missing."""


@dataclass(frozen=True, slots=True)
class DeviceSelector:
    """A compiled expression.

    Attributes:
        domains: those that it looks into; where a device has none of them, they are there and empty.
    """

    expression: cel.Expression
    domains: tuple[str, ...]

    def matches(self, device: DeviceView) -> bool:
        """Whether a device is one that the expression asks for.

        Raises:
            SelectorError: it cannot be evaluated, as where the device has no attribute of that name.
        """
        empty: dict[str, Any] = {domain: {} for domain in self.domains}
        seen = {**device, "attributes": empty | device["attributes"], "capacity": empty | device["capacity"]}
        value = self.expression.eval(data={"device": seen})
        kind = _type_name(value.type())
        if kind == "error":
            raise SelectorError(_runtime_error(str(value.value())))
        if kind != "bool":
            text = f"unsupported native conversion from {kind} to 'bool'"
            raise SelectorError(f"CEL result of type {kind} could not be converted to bool: {text}")
        return bool(value.value())


@lru_cache(_MOST_KEPT)
def compiled_selector(expression: str, *, knows_sharing: bool = True) -> DeviceSelector:
    """Compile an expression about ``device``, which says whether it can be shared where that is known.

    Raises:
        CompileError: it is none.
    """
    checks, evaluates = _environments(knows_sharing)
    try:
        checked = checks.compile(expression)
    except RuntimeError as error:
        raise CompileError(f"compilation failed: {_compile_error(str(error), expression)}") from None
    kind = _type_name(checked.return_type())
    if kind not in ("bool", "dyn"):
        raise CompileError(f"must evaluate to bool or the unknown type, not {kind}")
    tested = {first or second for first, second in _TESTED_DOMAIN.findall(expression)}
    domains = {first or second for first, second in _DOMAIN.findall(expression)} - tested
    return DeviceSelector(evaluates.deserialize(checked.serialize()), tuple(sorted(domains)))


def expression_refusal(expression: str, *, knows_sharing: bool = True, functions: Collection[str] = ()) -> str | None:
    """Why an API server refuses an expression, None where it takes it, or where nobody knows.

    That is so without the package, and for an expression of what the package lacks. Limits on the cost of expressions
    are not known either.

    Args:
        expression: about ``device``.
        knows_sharing: whether this has ``allowMultipleAllocations``.
        functions: of the server, which the package lacks as well as those of all minors.

    Source: pkg/apis/resource/validation/validation.go, ``validateCELSelector`` (kubernetes v1.34.4, v1.36.3).
    """
    try:
        compiled_selector(expression, knows_sharing=knows_sharing)
    except CompileError as error:
        text = str(error)
        if text == _MISSING:
            return None
        is_known = "Syntax error: " in text or not (
            _NOT_IN_THE_PACKAGE.search(expression)
            or _MIXED_NUMBERS.search(text)
            or any(re.search(rf"\b{function}\s*\(", expression) for function in functions)
        )
        return text if is_known else None
    return None


def device_view(driver: str, device: Mapping[str, Any]) -> DeviceView:
    """Return what expressions see of a device of a ResourceSlice; names without domain are in that of the driver."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in (device.get("attributes") or {}).items():
        domain, identifier = _split(name, driver)
        attributes.setdefault(domain, {})[identifier] = _attribute_value(attribute)
    capacity: dict[str, dict[str, Any]] = {}
    for name, amount in (device.get("capacity") or {}).items():
        domain, identifier = _split(name, driver)
        capacity.setdefault(domain, {})[identifier] = _quantity(amount["value"])
    allows_many = bool(device.get("allowMultipleAllocations"))
    return {
        "driver": driver,
        "allowMultipleAllocations": allows_many,
        "attributes": attributes,
        "capacity": capacity,
    }


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute_value(attribute: Mapping[str, Any]) -> Any:
    if "version" in attribute:
        return {_VERSION: attribute["version"]}
    if "versions" in attribute:
        return [{_VERSION: one} for one in attribute["versions"]]
    return next(attribute[kind] for kind in _KINDS_OF_VALUES if kind in attribute)


# Functions of the environment


def _quantity(text: str | int) -> dict[str, str]:
    try:
        return {_QUANTITY: f"{parse_quantity(text).normalize():f}"}
    except InputError:
        raise ValueError(f"error parsing {text!r}: quantities must match the regular expression") from None


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InputError:
        return False
    return True


def _version(text: str) -> dict[str, str]:
    if _SEMVER.fullmatch(text) is None:
        raise ValueError(f"parse semantic version: {text!r} is none")
    return {_VERSION: text}


def _compare(left: Mapping[str, str], right: Mapping[str, str]) -> int:
    """Source: pkg/cel/library/quantity.go, semverlib.go, ``compareTo``."""
    if left.keys() != right.keys():
        raise ValueError("no such overload")
    first, second = _ordered(left), _ordered(right)
    return (first > second) - (first < second)


def _ordered(value: Mapping[str, str]) -> tuple[Any, ...]:
    """What orders a quantity or a version among those of its type.

    Source: precedence in Semantic Versioning 2.0.0.
    """
    if _QUANTITY in value:
        return (parse_quantity(value[_QUANTITY]),)
    match = _SEMVER.fullmatch(value.get(_VERSION, ""))
    if match is None:
        raise ValueError("no such overload")
    release = tuple(int(number) for number in match.group(1, 2, 3))
    if match[4] is None:
        return *release, 1
    parts = match[4].split(".")
    return *release, 0, tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


def _number(value: Mapping[str, str]) -> float:
    return float(parse_quantity(value[_QUANTITY]))


def _is_integer(value: Mapping[str, str]) -> bool:
    number = parse_quantity(value[_QUANTITY])
    return number == number.to_integral_value() and -(2**63) <= number < 2**63


def _integer(value: Mapping[str, str]) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return int(parse_quantity(value[_QUANTITY]))


def _part(place: int) -> Any:
    return lambda value: _ordered(value)[place]


def _functions(cel: ModuleType) -> list[Any]:
    types = cel.Type
    tagged = types.Map(types.STRING, types.STRING)
    functions = [
        ("quantity", False, [types.STRING], tagged, _quantity),
        ("isQuantity", False, [types.STRING], types.BOOL, _is_quantity),
        ("semver", False, [types.STRING], tagged, _version),
        ("isSemver", False, [types.STRING], types.BOOL, lambda text: _SEMVER.fullmatch(text) is not None),
        ("compareTo", True, [tagged, tagged], types.INT, _compare),
        ("isLessThan", True, [tagged, tagged], types.BOOL, lambda left, right: _compare(left, right) < 0),
        ("isGreaterThan", True, [tagged, tagged], types.BOOL, lambda left, right: _compare(left, right) > 0),
        ("isInteger", True, [tagged], types.BOOL, _is_integer),
        ("asInteger", True, [tagged], types.INT, _integer),
        ("asApproximateFloat", True, [tagged], types.DOUBLE, _number),
        *((name, True, [tagged], types.INT, _part(place)) for place, name in enumerate(("major", "minor", "patch"))),
    ]
    return [
        cel.FunctionDecl(name, [cel.Overload(name, result, arguments, is_member=is_member, impl=implementation)])
        for name, is_member, arguments, result, implementation in functions
    ]


# The package


@lru_cache(2)
def _environments(knows_sharing: bool) -> tuple[cel.Env, cel.Env]:
    """Return the environment that checks types, and the one that evaluates what was checked."""
    try:
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings
    except ImportError:
        raise CompileError(_MISSING) from None
    extensions = [ext_strings.ExtStrings(), ext_bindings.ExtBindings(), ext_optional.ExtOptional()]
    types, functions = cel.Type, _functions(cel)
    checked = {"device": types("kubernetes.DRADevice")}
    mapping = {"device": types.Map(types.STRING, types.DYN)}
    return (
        cel.NewEnv(_device_message(knows_sharing), variables=checked, extensions=extensions, functions=functions),
        cel.NewEnv(variables=mapping, extensions=extensions, functions=functions),
    )


def _device_message(knows_sharing: bool) -> DescriptorPool:
    """Declare what ``device`` is made of; a Struct is a mapping from names to values of any type."""
    from google.protobuf import descriptor_pb2, struct_pb2
    from google.protobuf.descriptor_pool import DescriptorPool

    field = descriptor_pb2.FieldDescriptorProto
    struct = descriptor_pb2.FileDescriptorProto()
    struct_pb2.DESCRIPTOR.CopyToProto(struct)
    file = descriptor_pb2.FileDescriptorProto(name="device.proto", package="kubernetes", syntax="proto3")
    file.dependency.append(struct.name)
    message = file.message_type.add(name="DRADevice")
    message.field.add(name="driver", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    if knows_sharing:
        message.field.add(name="allowMultipleAllocations", number=2, type=field.TYPE_BOOL, label=field.LABEL_OPTIONAL)
    for number, name in enumerate(("attributes", "capacity"), 3):
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
        value = {"type": field.TYPE_MESSAGE, "type_name": ".google.protobuf.Struct"}
        entry.field.add(name="value", number=2, label=field.LABEL_OPTIONAL, **value)
        entries = {"type": field.TYPE_MESSAGE, "type_name": f".kubernetes.DRADevice.{entry.name}"}
        message.field.add(name=name, number=number, label=field.LABEL_REPEATED, **entries)
    pool = DescriptorPool()
    pool.Add(struct)
    pool.Add(file)
    return pool


def _type_name(kind: cel.Type) -> str:
    """A type in the words of cel-go."""
    return str(kind.name()).partition("<")[0].lower()


def _compile_error(text: str, expression: str) -> str:
    """The package's text in the words of cel-go, as far as the two differ in what is wrong most often."""
    text = _STATUS.sub("", text).removesuffix(" [INVALID_ARGUMENT]")
    text = text.replace(" not found in struct 'kubernetes.DRADevice'", "")
    text = text.replace("map(string, map(string, dyn))", "map(string, map(string, any))")
    # What follows from an error is none to cel-go.
    text = _OF_AN_ERROR.sub("", text)
    if not expression:
        text = text.replace("<input>:1:1:", "<input>:1:0:")
    return _UNKNOWN_NAME.sub(_first_part, text)


def _first_part(found: re.Match[str]) -> str:
    """An error about an unknown name with members: cel-go points at the name, the package at the last member's dot."""
    place, column, says, name, rest = found.groups()
    begin = int(column) - len(name)
    return f"{place}{begin}{says}{name.partition('.')[0]}{rest}{'.' * (begin - 1)}^"


def _runtime_error(text: str) -> str:
    text = _STATUS.sub("", text)
    if missing := _NO_SUCH_KEY.fullmatch(text):
        return f"no such key: {missing[1]}"
    if text.startswith("No matching overloads"):
        return "no such overload"
    return {"divide by zero": "division by zero"}.get(text, text)
