"""What an API server refuses in the policies by which requests take a part of a device's capacity.

Source: pkg/apis/resource/validation/validation.go, ``validateRequestPolicy`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from ....model.resources import canonical_quantity, parse_quantity
from ...api.errors import FieldError
from .fields import COUNTED_FIRST, Fields, validate_set
from .rules import Rules

__all__ = ["validate_capacity"]

_VALUES_AT_MOST: Final = 10


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
    return _validate_range(range_ or {}, whole, default, f"{where}.validRange")


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

    errors += validate_set(rules, values, _VALUES_AT_MOST, check, lambda value: str(_whole(value)), path)
    is_counted_first = rules.of(COUNTED_FIRST) and len(values) > _VALUES_AT_MOST
    if parse_quantity(default) not in amounts or is_counted_first:
        # Looked for among values that were checked.
        errors.append(FieldError.invalid(path, default, "default value is not valid according to the requestPolicy"))
    return errors


def _validate_range(range_: Fields, whole: str, default: str, path: str) -> list[FieldError]:
    least, most, step = (range_.get(name) for name in ("min", "max", "step"))
    if least is None:
        return [FieldError.required(f"{path}.min", "required when validRange is defined")]
    errors = []

    def refuse_above(smaller: str, larger: str, field: str, value: str, why: str) -> None:
        if parse_quantity(smaller) > parse_quantity(larger):
            errors.append(FieldError.invalid(f"{path}.{field}", value, why))

    refuse_above(least, whole, "min", least, f"min is larger than capacity value: {whole}")
    refuse_above(least, default, "min", default, f"default is less than min: {least}")
    if most is not None:
        refuse_above(least, most, "max", least, f"min is larger than max: {most}")
        refuse_above(most, whole, "max", most, f"max is larger than capacity value: {whole}")
        refuse_above(default, most, "max", default, f"default is more than max: {most}")
    if step is not None:
        errors += _validate_step(step, least, most, whole, default, f"{path}.step")
    return errors


def _validate_step(step: str, least: str, most: str | None, whole: str, default: str, path: str) -> list[FieldError]:
    errors = []
    added = parse_quantity(least) + parse_quantity(step)
    if added > parse_quantity(whole):
        sum_ = _written(added, least if parse_quantity(least) else step)
        why = f"one step {sum_} is larger than capacity value: {whole}"
        errors.append(FieldError.invalid(path, step, why))
    for value in (default, *(() if most is None else (most,))):
        # Go panics where the step is zero.
        if _whole(step) and (_whole(value) - _whole(least)) % _whole(step):
            why = f"value is not a multiple of a given step ({step}) from ({least})"
            errors.append(FieldError.invalid(path, value, why))
    return errors


def _written(amount: Decimal, like: str) -> str:
    """An amount as a quantity with the kind of suffix that another has."""
    if like.endswith("i"):
        return canonical_quantity(f"{amount / 1024:f}Ki")
    return canonical_quantity(f"{amount:f}e0" if "e" in like else f"{amount:f}")


def _whole(quantity: str) -> int:
    """A quantity as a whole number, rounded up."""
    return math.ceil(parse_quantity(quantity))
