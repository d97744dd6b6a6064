"""Quantities in the objects of a request.

Source: apimachinery/pkg/api/resource/quantity.go, ``ErrFormatWrong`` (v0.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...model.errors import InputError
from ...model.resources import canonical_quantity
from ..api.errors import StatusError

__all__ = ["canonical_amounts"]

_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def canonical_amounts(amounts: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Resource -> quantity, each as it is written back.

    Args:
        amounts: what the author wrote.
        kind: of the object, for the error.

    Raises:
        StatusError: one is no quantity.
    """
    try:
        return {name: canonical_quantity(text) for name, text in amounts.items()}
    except InputError:
        raise StatusError.bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {_RULE}') from None
