"""A plugin's own node in the API: what it writes into the status, and the schedulers' locks in the annotations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ..apiserver import JSON, ApiClient, ApiError

__all__ = ["Node"]

_log = logging.getLogger(__name__)

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
