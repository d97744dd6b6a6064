"""Selectors of devices: expressions in CEL about one device of a ResourceSlice.

The package ``cel-expr-python`` reads expressions and finds their types; ``cluster/cel`` says what one may cost at most,
evaluates it and counts what that costs. What is missing of Kubernetes' environment is in docs/dra.md.

Source: k8s.io/dynamic-resource-allocation v0.34.4, cel/compile.go; pkg/apis/resource/types.go (kubernetes v1.34.4),
``CELSelectorExpressionMaxCost``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from ...model.errors import HostError
from ...model.version import DEFAULT, Version, version
from ..cel.environment import environment
from ..cel.estimate import estimated_cost
from ..cel.evaluation import evaluation
from ..cel.kubernetes_functions import quantity, semver
from ..cel.nesting import depth_error
from ..cel.run import Effort, Step
from ..cel.tree import Checked, read_checked
from ..cel.values import Domains, EvaluationError, ExhaustedError, LimitError, type_of

__all__ = [
    "COST_LIMIT",
    "CompileError",
    "DeviceView",
    "SelectorError",
    "check_selectors",
    "compiled_selector",
    "device_view",
    "exceeds_cost_limit",
    "expression_refusal",
]

COST_LIMIT: Final = 1_000_000
"""What a selector may cost, by the API server's estimate and for one device."""
DeviceView: TypeAlias = dict[str, Any]
"""A device as an expression sees it: ``driver``, and ``attributes`` and ``capacity`` by domain and name."""

_RELEASE: Final = version(DEFAULT)
_MOST_KEPT: Final = 128
_MISSING: Final = "CEL selectors need the package cel-expr-python: pip install cel-expr-python"
_KINDS_OF_VALUES: Final = ("int", "bool", "string", "ints", "bools", "strings")
_TESTS_CAPACITY: Final = re.compile(r"\bhas\s*\(\s*device\s*\.\s*capacity\s*\)")
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
_TOO_DEEP: Final = re.compile(r"recursion (?:limit|depth)")
_TOO_DEEP_HERE: Final = "the package cel-expr-python reads no expression whose parts are nested more than 32 deep"


class SelectorError(Exception):
    """An expression is wrong, or cannot be evaluated for a device; the message is that of the scheduler."""


class CompileError(SelectorError):
    """It is no expression, or none that says whether a device is selected; or the package is missing."""


@dataclass(frozen=True, slots=True)
class DeviceSelector:
    """A compiled expression.

    Attributes:
        greatest_cost: the API server's estimate.
        step: evaluates it.
    """

    greatest_cost: int
    step: Step

    def matches(self, device: DeviceView, effort: Effort | None = None) -> bool:
        """Whether a device is one that the expression asks for.

        Args:
            device: the device.
            effort: what a search has for all of its evaluations.

        Raises:
            SelectorError: it cannot be evaluated, as where the device has no attribute of that name.
            ExhaustedError: there is no answer yet, and no more effort for it.
        """
        try:
            value = (effort or Effort(COST_LIMIT)).evaluate(self.step, {"device": device}, COST_LIMIT)
        except ExhaustedError:
            raise
        except (EvaluationError, LimitError) as error:
            raise SelectorError(str(error)) from None
        except Exception as error:
            raise SelectorError(f"{type(error).__name__}: {error}") from error
        if not isinstance(value, bool):
            kind = type_of(value)
            text = f"unsupported native conversion from {kind} to 'bool'"
            raise SelectorError(f"CEL result of type {kind} could not be converted to bool: {text}")
        return value


@lru_cache(_MOST_KEPT)
def compiled_selector(expression: str, *, release: Version = _RELEASE, knows_sharing: bool = True) -> DeviceSelector:
    """Compile an expression about ``device``, which says whether it can be shared where that is known.

    Raises:
        CompileError: it is none.
    """
    checked = _checked(expression, knows_sharing)
    kind = checked.types[checked.expr.id].name
    if kind not in ("bool", "dyn"):
        raise CompileError(f"must evaluate to bool or the unknown type, not {kind}")
    try:
        return DeviceSelector(estimated_cost(checked, release), evaluation(checked, release))
    except EvaluationError as error:
        raise CompileError(f"program instantiation failed: {error}") from None
    except RecursionError:
        raise CompileError(f"compilation failed: {_TOO_DEEP_HERE}") from None


def _checked(expression: str, knows_sharing: bool) -> Checked:
    has_capacity = _TESTS_CAPACITY.search(expression) is None
    try:
        checked = environment(knows_sharing=knows_sharing, has_capacity=has_capacity).compile(expression)
        return read_checked(checked.serialize())
    except ImportError:
        raise CompileError(_MISSING) from None
    except RuntimeError as error:
        raise CompileError(f"compilation failed: {_compile_error(str(error), expression)}") from None


def check_selectors() -> None:
    """Make sure that expressions can be compiled here.

    Raises:
        HostError: the package is missing.
    """
    try:
        environment(knows_sharing=False)
    except ImportError:
        raise HostError(_MISSING) from None


def expression_refusal(
    expression: str,
    *,
    release: Version = _RELEASE,
    knows_sharing: bool = True,
    functions: Collection[str] = (),
) -> str | None:
    """Why an API server refuses an expression, None where it takes it, or where nobody knows.

    That is so without the package, and for an expression of what the package lacks.

    Args:
        expression: about ``device``.
        release: of the server.
        knows_sharing: whether this has ``allowMultipleAllocations``.
        functions: of the server, which the package lacks as well as those of all minors.

    Source: pkg/apis/resource/validation/validation.go, ``validateCELSelector`` (kubernetes v1.34.4, v1.36.3).
    """
    try:
        compiled_selector(expression, release=release, knows_sharing=knows_sharing)
    except CompileError as error:
        text = str(error)
        if text == _MISSING or text.endswith(_TOO_DEEP_HERE):
            return None
        is_known = (
            "Syntax error: " in text
            or "recursion" in text
            or not (
                _NOT_IN_THE_PACKAGE.search(expression)
                or _MIXED_NUMBERS.search(text)
                or any(re.search(rf"\b{function}\s*\(", expression) for function in functions)
            )
        )
        return text if is_known else None
    return None


def exceeds_cost_limit(expression: str, *, release: Version, knows_sharing: bool) -> bool:
    """Whether an API server refuses an expression that it can compile, as that may cost too much."""
    try:
        selector = compiled_selector(expression, release=release, knows_sharing=knows_sharing)
    except CompileError:
        return False
    return selector.greatest_cost > COST_LIMIT


def device_view(driver: str, device: Mapping[str, Any]) -> DeviceView:
    """Return what expressions see of a device of a ResourceSlice; names without domain are in that of the driver."""
    attributes, capacity = Domains(), Domains()
    for name, attribute in (device.get("attributes") or {}).items():
        domain, identifier = _split(name, driver)
        attributes.setdefault(domain, {})[identifier] = _attribute_value(attribute)
    for name, amount in (device.get("capacity") or {}).items():
        domain, identifier = _split(name, driver)
        capacity.setdefault(domain, {})[identifier] = quantity(amount["value"])
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
        return semver(attribute["version"])
    if "versions" in attribute:
        return [semver(one) for one in attribute["versions"]]
    return next(attribute[kind] for kind in _KINDS_OF_VALUES if kind in attribute)


def _compile_error(text: str, expression: str) -> str:
    """The package's text in the words of cel-go, as far as the two differ in what is wrong most often."""
    if _TOO_DEEP.search(text):
        return depth_error(expression) or _TOO_DEEP_HERE
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
