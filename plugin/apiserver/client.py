"""Calls to the API server: one object, a list, a write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import aiohttp

from .access import ServerAccess

__all__ = ["JSON", "ApiClient", "ApiError"]

JSON: TypeAlias = dict[str, Any]

_STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"


class ApiError(Exception):
    """A call failed; the message is the server's.

    Attributes:
        status: What the server answered, None where it was not reached.
    """

    def __init__(self, message: str, status: int | None) -> None:
        super().__init__(message)
        self.status = status


class ApiClient:
    """Calls to one server, inside an ``async with``. Each raises `ApiError`.

    Paths begin with a slash: ``/api/v1/nodes/node-1``.
    """

    def __init__(self, access: ServerAccess) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._access.timeout_s),
            connector=aiohttp.TCPConnector(ssl=self._access.tls or True),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, **query: str) -> JSON:
        """One object, or a list of those that `query` selects."""
        return await self._call("GET", path, query=query)

    async def put(self, path: str, body: JSON) -> JSON:
        """Replace an object; one that has changed since it was read is a conflict, 409."""
        return await self._call("PUT", path, body=body)

    async def patch(self, path: str, body: JSON) -> JSON:
        """Merge into an object, as Kubernetes' types say."""
        return await self._call("PATCH", path, body=body, content_type=_STRATEGIC_MERGE_PATCH)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JSON | None = None,
        content_type: str = "application/json",
    ) -> JSON:
        if self._session is None:
            raise RuntimeError("a client is used inside 'async with' only")
        url = self._access.url + path
        try:
            headers = {**self._access.headers(), "Accept": "application/json", "Content-Type": content_type}
            data = None if body is None else json.dumps(body)
            async with self._session.request(method, url, params=query or {}, data=data, headers=headers) as response:
                text = await response.text()
                status = response.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ApiError(f'{method.capitalize()} "{url}": {error or type(error).__name__}', None) from error
        return _answer(status, text)


def _answer(status: int, text: str) -> JSON:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ApiError(f"the server answers {status} without an object", status)
    if status >= 400:
        raise ApiError(str(answer.get("message") or f"the server answers {status}"), status)
    return answer
