"""What a pod of the API says of its share of a GPU, and which of several is meant; pure.

The kubelet does not say for which pod it asks a plugin. So all of these plugins guess: the pod that the scheduler
chose a GPU for earliest, of those that ask for as much as the kubelet does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from ..apiserver import JSON

__all__ = ["Pod", "amount", "oldest_first", "unsigned", "with_annotations"]

_LARGEST_UNSIGNED: Final = 2**64 - 1
_SUFFIXES: Final = {
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{
        suffix: Decimal(1000) ** power
        for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
}


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod object as the API gives it."""

    body: JSON

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    @property
    def path(self) -> str:
        """Of the object in the API."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def node(self) -> str:
        """Where it is bound; empty while it is not."""
        return str(self.body["spec"].get("nodeName", ""))

    @property
    def is_pending(self) -> bool:
        return self.status.get("phase") == "Pending"

    @property
    def is_deleting(self) -> bool:
        return "deletionTimestamp" in self.body["metadata"]

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.body["metadata"].get("annotations") or {}

    @property
    def status(self) -> Mapping[str, Any]:
        return self.body.get("status") or {}

    @property
    def containers(self) -> Sequence[Mapping[str, Any]]:
        """Without init containers."""
        return self.body["spec"]["containers"]  # type: ignore[no-any-return]  # the API's own shape

    def limits(self, resource: str) -> list[int]:
        """The limit of each container, 0 where it has none."""
        return [
            amount((container.get("resources", {}).get("limits") or {}).get(resource, "0"))
            for container in self.containers
        ]


def amount(quantity: object) -> int:
    """A quantity as a whole number, rounded up.

    Source: apimachinery/pkg/api/resource/quantity.go, ``Value`` (kubernetes v1.34.4).
    """
    text = str(quantity)
    number = text.rstrip("EGKMPTikmnu")
    return math.ceil(Decimal(number) * _SUFFIXES[text[len(number) :]])


def unsigned(text: str | None) -> int | None:
    """A number as Go's strconv.ParseUint reads it in 64 bits; None where it does not."""
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return number if (number := int(text)) <= _LARGEST_UNSIGNED else None


def oldest_first(pods: Iterable[Pod], time_of: Callable[[Pod], int]) -> list[Pod]:
    """The pods by their time; of two with the same the one that was listed later comes first.

    The originals sort with "not later than" where Go asks for "earlier than", which turns equal ones around.

    Source: sort/zsortinterface.go, ``insertionSort`` (Go 1.26), by which up to twelve are sorted.
    """
    ordered = [*pods]
    ordered.reverse()
    ordered.sort(key=time_of)
    return ordered


def with_annotations(body: JSON, **annotations: str) -> JSON:
    """An object with some annotations set; pass their names with ``**``."""
    metadata = body["metadata"]
    return {**body, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}}}
