"""Kubernetes versions in a story: those that it is played on, and conditions on them.

``<1.26.5 || >=1.27, <1.27.2`` holds before 1.26.5, and in 1.27 before 1.27.2. A story that is played on ``1.34`` is
played on the patch of it that the simulated kubelet follows. A condition that names a minor looks at nothing but the
minor: 1.34.4 meets ``<=1.34``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StrictStr, WithJsonSchema
from pydantic_core import PydanticCustomError

from simkubelet.model.version import Version, version

_NUMBER: Final = r"1\.[0-9]+(?:\.[0-9]+)?"
_COMPARISON: Final = rf"(?:<=|>=|<|>) ?{_NUMBER}"
_ALL_OF: Final = rf"{_COMPARISON}(?:, ?{_COMPARISON})*"
_CONDITION: Final = rf"^{_ALL_OF}(?: ?\|\| ?{_ALL_OF})*$"
_COMPARE: Final[dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _condition(text: str) -> str:
    if re.match(_CONDITION, text, re.ASCII):
        return text
    raise PydanticCustomError(
        "condition", "expected a condition on the version, such as '>=1.37' or '<1.26.5 || >=1.27, <1.28'"
    )


KubernetesVersion = Annotated[StrictStr, Field(pattern=rf"^{_NUMBER}$")]
"""A minor or one of its patches."""

KubernetesCondition = Annotated[
    StrictStr, AfterValidator(_condition), WithJsonSchema({"type": "string", "pattern": _CONDITION})
]
"""Comparisons with versions: all must hold, or where ``||`` parts them all on one side of it."""


def is_met(condition: str, kubernetes: str) -> bool:
    """Whether a version is as a condition wants it.

    Raises:
        InputError: The version is not simulated.
    """
    here = version(kubernetes)
    return any(_holds(side, here) for side in condition.split("||"))


def _holds(comparisons: str, here: Version) -> bool:
    found = re.findall(rf"([<>]=?) ?({_NUMBER})", comparisons, re.ASCII)
    wanted = [(_COMPARE[sign], _minor_and_patch(number)) for sign, number in found]
    return all(compare(here[: len(there)], there) for compare, there in wanted)


def versions_in(condition: str) -> tuple[str, ...]:
    """The versions that a condition compares with."""
    return tuple(re.findall(_NUMBER, condition, re.ASCII))


def _minor_and_patch(number: str) -> tuple[int, ...]:
    """The minor, and the patch where one is named."""
    return tuple(int(part) for part in number.split(".")[1:])
