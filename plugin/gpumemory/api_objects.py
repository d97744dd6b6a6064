"""A plugin's node and pods as the API server has them.

On the node a plugin writes amounts into the status, and annotations, some of which are the schedulers' locks. A pod
says which share of a GPU it is to have. The kubelet does not say for which pod it asks a plugin, so all of these
plugins guess: the pod that the scheduler chose a GPU for earliest, of those that ask for as much as the kubelet does.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from ..apiserver import JSON, ApiClient, ApiError

__all__ = ["Node", "Pod", "amount", "oldest_first", "polled", "unsigned"]

_log = logging.getLogger(__name__)

_LARGEST_UNSIGNED: Final = 2**64 - 1
_MOST_DIGITS: Final = 21
"""A number of as many is too large."""
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
    text = text.lstrip("0")[:_MOST_DIGITS] or "0"
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


_LOCK_RETRIES: Final = 5
_LOCK_RETRY_S: Final = 0.1
_POLLS: Final = 10
_POLL_S: Final = 1.0


class Node:
    """The node of a name. Every method raises `ApiError` unless it says otherwise."""

    def __init__(self, api: ApiClient, name: str) -> None:
        self._api = api
        self.name = name
        self._path = f"/api/v1/nodes/{name}"

    async def get(self) -> JSON:
        """The object."""
        return await self._api.get(self._path)

    async def replace_amounts(self, amounts: Mapping[str, int]) -> None:
        """Say how much of some resources there is, by a PUT of the whole object: what others wrote meanwhile wins."""
        body = await self.get()
        status = body.get("status") or {}
        parts = {part: {**(status.get(part) or {}), **_texts(amounts)} for part in ("capacity", "allocatable")}
        await self._api.put(f"{self._path}/status", {**body, "status": {**status, **parts}})

    async def merge_amounts(self, amounts: Mapping[str, int]) -> None:
        """Say how much of some resources there is, by a PATCH of these alone."""
        body = {"status": dict.fromkeys(("capacity", "allocatable"), _texts(amounts))}
        await self._api.patch(f"{self._path}/status", body)

    async def annotate(self, annotations: Mapping[str, str | None], *, with_status: bool = False) -> None:
        """Set annotations, None takes one away; `with_status` says through which of the two paths of a node."""
        path = f"{self._path}/status" if with_status else self._path
        await self._api.patch(path, {"metadata": {"annotations": dict(annotations)}})

    async def release(self, lock: str) -> None:
        """Take a scheduler's lock away, where there is one; what fails is logged and the lock stays.

        Source: pkg/util/nodelock.go, ``ReleaseNodeLock`` (volcano-sh/devices 95b591b).
        """
        for attempt in range(_LOCK_RETRIES + 1):
            if attempt:
                await asyncio.sleep(_LOCK_RETRY_S)
            try:
                body = await self.get()
                annotations = dict(body["metadata"].get("annotations") or {})
                if annotations.pop(lock, None) is None:
                    return
                await self._api.put(self._path, {**body, "metadata": {**body["metadata"], "annotations": annotations}})
            except ApiError as error:
                _log.error("Failed to update node %s, retry %d: %s", self.name, attempt, error)
            else:
                return
        _log.error("failed to release lock releaseNodeLock exceeds retry count %d", _LOCK_RETRIES)


async def polled(call: Callable[[], Awaitable[None]]) -> None:
    """Do something once a second until it succeeds, for ten seconds at most.

    Raises:
        ApiError: it failed each time; this is the last failure.
    """
    for _ in range(_POLLS):
        try:
            return await call()
        except ApiError as error:
            _log.info("%s", error)
            await asyncio.sleep(_POLL_S)
    return await call()


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {resource: str(amount) for resource, amount in amounts.items()}
