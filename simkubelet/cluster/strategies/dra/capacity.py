"""What an API server refuses in the policies by which requests take a part of a device's capacity.

Source: pkg/apis/resource/validation/validation.go, ``validateRequestPolicy`` (kubernetes v1.34.4, v1.37.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Final

from ....model.resources import canonical_quantity, parse_quantity
from ....model.version import Difference
from ...api.errors import FieldError
from ..rules import Rules
from .fields import COUNTED_FIRST, Fields, validate_set

__all__ = ["validate_capacity"]

_VALUES_AT_MOST: Final = 10
_FRACTIONS: Final = "DRAFractionalCapacityRange"
_DEFAULT_HAS_PATH: Final = Difference(
    "in the range of a capacity a default out of bounds is refused at a path of its own, a step that is not positive "
    "at all, and beside a step all that is negative",
    {"1.26": False, "1.37": True},
    "pkg/apis/resource/validation/validation.go, ``validateRequestPolicyRange`` (kubernetes v1.36.3, v1.37.2)",
)


def validate_capacity(rules: Rules, capacity: Fields, path: str, *, is_shared: bool) -> list[FieldError]:
    """What is wrong with one capacity of a device; policies are for devices that several claims may share."""
    policy, where = capacity.get("requestPolicy"), f"{path}.requestPolicy"
    if policy is None:
        return []
    if not is_shared:
        return [FieldError.forbidden(where, "allowMultipleAllocations must be true")]
    whole, default = capacity.get("value") or "0", policy.get("default")
    values, range_ = policy.get("validValues") or (), policy.get("validRange")
    if values and range_ is not None:
        both = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [FieldError.forbidden(where, both)]
    name = "validValues" if values else "validRange"
    if not values and range_ is None:
        return []
    if default is None:
        return [FieldError.required(f"{where}.default", f"required when {name} is defined")]
    if values:
        return _validate_values(rules, values, whole, default, f"{where}.validValues")
    return _validate_range(rules, range_ or {}, whole, default, f"{where}.validRange")


def _validate_values(rules: Rules, values: Sequence[str], whole: str, default: str, path: str) -> list[FieldError]:
    amounts = [parse_quantity(value) for value in values]
    errors = [
        FieldError.invalid(f"{path}[{place}]", values[place], "values must be sorted in ascending order")
        for place in range(1, len(values))
        if amounts[place - 1] > amounts[place]
    ]

    def check(value: str, at: str) -> list[FieldError]:
        if parse_quantity(value) <= parse_quantity(whole):
            return []
        return [FieldError.invalid(at, value, f"option is larger than capacity value: {whole}")]

    errors += validate_set(
        rules, values, _VALUES_AT_MOST, check, partial(_key, is_exact=_FRACTIONS in rules.gates), path
    )
    is_counted_first = rules.of(COUNTED_FIRST) and len(values) > _VALUES_AT_MOST
    if parse_quantity(default) not in amounts or is_counted_first:
        # Looked for among values that were checked.
        errors.append(FieldError.invalid(path, default, "default value is not valid according to the requestPolicy"))
    return errors


def _validate_range(rules: Rules, range_: Fields, whole: str, default: str, path: str) -> list[FieldError]:
    least, most, step = (range_.get(name) for name in ("min", "max", "step"))
    if least is None:
        return [FieldError.required(f"{path}.min", "required when validRange is defined")]
    errors = []

    def refuse_above(smaller: str, larger: str, field: str, value: str, why: str) -> None:
        if parse_quantity(smaller) > parse_quantity(larger):
            errors.append(FieldError.invalid(f"{path}.{field}", value, why))

    refuse_above(least, whole, "min", least, f"min is larger than capacity value: {whole}")
    at_default = rules.of(_DEFAULT_HAS_PATH)
    refuse_above(least, default, "default" if at_default else "min", default, f"default is less than min: {least}")
    if most is not None:
        refuse_above(least, most, "max", least, f"min is larger than max: {most}")
        refuse_above(most, whole, "max", most, f"max is larger than capacity value: {whole}")
        refuse_above(default, most, "default" if at_default else "max", default, f"default is more than max: {most}")
    given = {"default": default, "min": least, "max": most, "step": step}
    return errors + _validate_steps(
        rules, {name: text for name, text in given.items() if text is not None}, whole, path
    )


def _validate_steps(rules: Rules, given: Mapping[str, str], whole: str, path: str) -> list[FieldError]:
    """The step of a range, beside the other values that are given."""
    is_exact = _FRACTIONS in rules.gates and any(map(_has_fraction, given.values()))
    too_fine = [
        FieldError.invalid(f"{path}.{name}", value, "value cannot be represented as a milli value")
        for name, value in (given.items() if is_exact else ())
        if _has_fraction(value, 1000)
    ]
    if "step" not in given or too_fine:
        return too_fine
    step, is_strict = given["step"], rules.of(_DEFAULT_HAS_PATH)
    if is_strict and parse_quantity(step) <= 0:
        return [FieldError.invalid(f"{path}.step", step, "must be greater than zero")]
    negative = [
        FieldError.invalid(f"{path}.{name}", value, "must be greater than or equal to 0")
        for name, value in (given.items() if is_strict and not is_exact else ())
        if parse_quantity(value) < 0
    ]
    errors = [*_validate_first_step(step, given["min"], whole, f"{path}.step"), *negative]
    return errors if negative else errors + _validate_multiples(given, f"{path}.step", is_exact=is_exact)


def _validate_first_step(step: str, least: str, whole: str, path: str) -> list[FieldError]:
    added = parse_quantity(least) + parse_quantity(step)
    if added <= parse_quantity(whole):
        return []
    sum_ = _written(added, least if parse_quantity(least) else step)
    return [FieldError.invalid(path, step, f"one step {sum_} is larger than capacity value: {whole}")]


def _validate_multiples(given: Mapping[str, str], path: str, *, is_exact: bool) -> list[FieldError]:
    """Whether steps lead from the least amount to the default and to the largest one."""
    step, least = given["step"], given["min"]
    read: Callable[[str], Decimal] = parse_quantity if is_exact else _whole
    # Go panics where the step is zero, up to 1.36.
    return [
        FieldError.invalid(path, value, f"value is not a multiple of a given step ({step}) from ({least})")
        for value in (given.get("default"), given.get("max"))
        if value is not None and read(step) and (read(value) - read(least)) % read(step)
    ]


def _written(amount: Decimal, like: str) -> str:
    """An amount as a quantity with the kind of suffix that another has."""
    if like.endswith("i"):
        return canonical_quantity(f"{amount / 1024:f}Ki")
    return canonical_quantity(f"{amount:f}e0" if "e" in like else f"{amount:f}")


def _key(quantity: str, *, is_exact: bool) -> str:
    """By which amounts differ."""
    return f"{parse_quantity(quantity).normalize():f}" if is_exact else str(_whole(quantity))


def _has_fraction(quantity: str, parts: int = 1) -> bool:
    amount = parse_quantity(quantity) * parts
    return amount != amount.to_integral_value()


def _whole(quantity: str) -> Decimal:
    """A quantity as a whole number, rounded up."""
    return Decimal(math.ceil(parse_quantity(quantity)))
