"""The cluster's API through kr8s: a few calls, and what is kept up to date by watches."""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import kr8s
from kr8s.asyncio import api as connect

from simkubelet.model.errors import HostError, InputError

Object = Mapping[str, Any]
OnChange = Callable[[str, Object, bool], None]
"""Called with the kind, the object and whether the object still exists."""

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
            with warnings.catch_warnings():
                # kr8s warns of each Kubernetes version that is newer than itself.
                warnings.simplefilter("ignore", UserWarning)
                return cls(await connect(kubeconfig=str(kubeconfig)))
        except (*_UNREACHABLE, ValueError) as error:
            raise HostError(f"the cluster's API server cannot be reached: {error or type(error).__name__}") from None

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
        headers = {"Content-Type": kind}
        try:
            async with self._called(method, group, url, headers=headers, timeout=within_s, **given) as response:
                status = response.status_code
                if status == 404:
                    return {}
                if response.is_error:
                    kind_of = InputError if status in (400, 409, 422) else HostError
                    raise kind_of(f"the API server refuses: {_reason(response)}")
                answer: dict[str, Any] = response.json()
                return answer
        except _UNREACHABLE as error:
            raise HostError(
                f"the cluster's API server does not answer: {type(error).__name__} {error}".rstrip()
            ) from None

    async def watch(self, kind: str, on_change: OnChange, url: str, *, group: str = "v1") -> None:
        """Report every object of a kind, then each change, until cancelled; reconnect when a connection is lost."""
        known = _Known(group)
        while True:
            try:
                if not known.version:
                    await self._list(kind, on_change, url, known)
                await self._follow(kind, on_change, url, known)
            except (HostError, InputError, *_UNREACHABLE):
                self._lost.setdefault(kind, time.monotonic())
                await asyncio.sleep(_RETRY_S)

    async def _list(self, kind: str, on_change: OnChange, url: str, known: _Known) -> None:
        listed = await self.call("GET", url, group=known.group)
        now = {item["metadata"]["uid"]: item for item in listed.get("items", ())}
        for uid in known.items.keys() - now.keys():
            on_change(kind, known.items[uid], False)
        for item in now.values():
            on_change(kind, item, True)
        known.items, known.version = now, listed["metadata"]["resourceVersion"]

    async def _follow(self, kind: str, on_change: OnChange, url: str, known: _Known) -> None:
        """Take changes until the server ends the watch; the next watch continues where this one ended."""
        params = {"watch": "1", "resourceVersion": known.version, "timeoutSeconds": str(_WATCH_S)}
        async with self._called("GET", known.group, url, stream=True, params=params, timeout=_WATCH_S + 5) as response:
            if response.is_error:
                known.version = ""
                raise HostError(f"the API server refuses to be watched: {response.status_code}")
            self._lost.pop(kind, None)
            async for line in response.aiter_lines():
                event = json.loads(line)
                if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
                    known.version = ""
                    return
                item, is_there = event["object"], event["type"] != "DELETED"
                known.update(item, is_there)
                on_change(kind, item, is_there)

    def _called(self, method: str, group: str, url: str, **options: Any) -> Any:
        # An answer that kr8s looks at itself lets it renew its session, under the hands of all other calls: an API
        # server that has just started refuses everything for a moment, and then all watches would do so at once.
        return self._api.call_api(method, version=group, url=url, raise_for_status=False, **options)


@dataclass(slots=True)
class _Known:
    """What a watch has reported: the objects by uid, and the version to continue from; empty to list all objects."""

    group: str
    items: dict[str, Object] = field(default_factory=dict)
    version: str = ""

    def update(self, item: Object, is_there: bool) -> None:
        uid, self.version = item["metadata"]["uid"], item["metadata"]["resourceVersion"]
        if is_there:
            self.items[uid] = item
        else:
            self.items.pop(uid, None)


def _reason(response: httpx.Response) -> str:
    """What the server says of an error."""
    try:
        answer = response.json()
    except ValueError:
        return response.text
    return str(answer.get("message", response.text)) if isinstance(answer, dict) else response.text
