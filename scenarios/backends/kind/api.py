"""The cluster's API through kr8s: a few calls, and what is kept up to date by watches."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import kr8s
from kr8s.asyncio import api as connect

from simkubelet.errors import HostError, InputError

Object = Mapping[str, Any]
OnChange = Callable[[str, Object, bool], None]
"""Told of a kind's object and whether it is still there."""

_RETRY_S: Final = 0.5
_WATCH_S: Final = 20
"""How long a watch lasts before the next: a connection that died without a word is noticed."""
_UNREACHABLE = (httpx.HTTPError, kr8s.APITimeoutError, kr8s.ConnectionClosedError, OSError)


class ClusterApi:
    """Calls to one API server.

    Raises:
        HostError: It cannot be reached, or answers with an error that the caller did not ask for.
    """

    def __init__(self, api: Any) -> None:
        self._api = api
        self._lost: dict[str, float] = {}

    @property
    def lost_s(self) -> float:
        """For how long a watch has been without its server."""
        return max((time.monotonic() - since for since in self._lost.values()), default=0.0)

    @classmethod
    async def connected(cls, kubeconfig: Path) -> ClusterApi:
        """The API server of a kubeconfig."""
        try:
            return cls(await connect(kubeconfig=str(kubeconfig)))
        except (*_UNREACHABLE, ValueError) as error:
            raise HostError(f"the cluster's API server cannot be reached: {error}") from None

    async def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        # kr8s has no word for it, but looks whether its session is closed.
        if self._api._session is not None:
            await self._api._session.aclose()

    async def call(
        self,
        method: str,
        url: str,
        body: object = None,
        *,
        base: str = "",
        group: str = "v1",
        patch: str = "strategic-merge-patch",
        within_s: float = 30.0,
    ) -> dict[str, Any]:
        """One call; the object that it answers, empty where there is none of that name.

        Raises:
            InputError: The server refuses what it was given.
        """
        given = {} if body is None else {"content": json.dumps(body)}
        kind = f"application/{patch}+json" if method == "PATCH" else "application/json"
        try:
            async with self._api.call_api(
                method, version=group, url=url, headers={"Content-Type": kind}, timeout=within_s, **given
            ) as response:
                answer: dict[str, Any] = response.json()
                return answer
        except kr8s.ServerError as error:
            status = error.response.status_code if error.response is not None else 0
            if status == 404:
                return {}
            kind_of = InputError if status in (400, 409, 422) else HostError
            raise kind_of(f"the API server refuses: {error}") from None
        except _UNREACHABLE as error:
            raise HostError(
                f"the cluster's API server does not answer: {type(error).__name__} {error}".rstrip()
            ) from None

    async def watch(self, kind: str, on_change: OnChange, url: str) -> None:
        """Tell of every object of a kind, then of each change; until cancelled, over lost connections."""
        known: dict[str, Object] = {}
        while True:
            try:
                listed = await self.call("GET", url)
                now = {item["metadata"]["uid"]: item for item in listed.get("items", ())}
                for uid in known.keys() - now.keys():
                    on_change(kind, known[uid], False)
                for item in now.values():
                    on_change(kind, item, True)
                known = now
                self._lost.pop(kind, None)
                await self._follow(kind, on_change, url, listed["metadata"]["resourceVersion"], known)
            except (HostError, InputError, kr8s.ServerError, *_UNREACHABLE):
                self._lost.setdefault(kind, time.monotonic())
            await asyncio.sleep(_RETRY_S)

    async def _follow(self, kind: str, on_change: OnChange, url: str, version: str, known: dict[str, Object]) -> None:
        params = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(_WATCH_S)}
        async with self._api.call_api("GET", url=url, stream=True, params=params, timeout=_WATCH_S + 5) as response:
            async for line in response.aiter_lines():
                event = json.loads(line)
                if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
                    return
                item, is_there = event["object"], event["type"] != "DELETED"
                uid = item["metadata"]["uid"]
                if is_there:
                    known[uid] = item
                else:
                    known.pop(uid, None)
                on_change(kind, item, is_there)
