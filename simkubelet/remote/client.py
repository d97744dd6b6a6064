"""Calls to the API server of a cluster, over HTTP(S) with aiohttp, which the simulated API server uses as well."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import aiohttp

from ..apis.documents import load_json, read_file
from ..apis.integers import parse_int
from .exec_credentials import CredentialError
from .kubeconfig import ServerAccess

__all__ = ["JSON", "ApiClient", "ApiError", "if_there", "is_older", "items_of", "object_of"]

JSON: TypeAlias = dict[str, Any]

_CALL_S: Final = 30.0
_SLACK_S: Final = 15.0
_LONGEST_PAUSE_S: Final = 300.0
_LARGEST_ANSWER: Final = 64 << 20
_LARGEST_EVENT: Final = 16 << 20
"""Bytes; etcd stores objects of 1.5 MiB, which JSON may make six times as long. Go's client takes any number."""
_RETRIED: Final = frozenset({0, 401, 403, 408, 429})
_KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A server that is gone without a word is noticed within a minute, as Go's client notices it by HTTP/2 pings."""


class ApiError(Exception):
    """The server refuses a call, or cannot be reached.

    Attributes:
        status: of the answer; 0 where there was none.
        reason: the API's word for it, such as ``Conflict``; ``Unreachable`` where there was no answer.
        retry_after_s: the pause that the server asks for; 0 where it asks for none.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message or reason or f"status {status}")
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def may_pass(self) -> bool:
        """Whether the same call may succeed later: also a right or a token may be given later."""
        return self.status in _RETRIED or self.status >= 500


class ApiClient:
    """A client of one API server, from `__aenter__` to `__aexit__`.

    Args:
        access: where the server is, and who the client is.
        agent: how the client names itself to the server.
        on_change: called with the reason when the server has stopped to answer, and with None when it answers again.
    """

    def __init__(
        self,
        access: ServerAccess,
        agent: str = "simkubelet",
        on_change: Callable[[str | None], None] = lambda reason: None,
    ) -> None:
        self._access = access
        self._agent = agent
        self._on_change = on_change
        self._is_away = False
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # A watch occupies a connection, so their number is that of the watches and of the calls in flight.
        connector = aiohttp.TCPConnector(limit=0, ssl=self._access.tls or True)
        # As Go's client, it keeps no cookies: a server could send new ones without end.
        cookies = aiohttp.DummyCookieJar()
        headers = {"User-Agent": self._agent}
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, cookie_jar=cookies)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> JSON:
        """Return an object or a list.

        Raises:
            ApiError: there is none, or it cannot be had.
        """
        return await self.call("GET", path, query=query)

    async def find(self, path: str) -> JSON | None:
        """Return an object, None where there is none.

        Raises:
            ApiError: it cannot be had.
        """
        try:
            return object_of(await self.get(path))
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def patch(self, path: str, patch: Mapping[str, Any]) -> JSON:
        """Send a strategic merge patch and return the object after it.

        Raises:
            ApiError: it is refused.
        """
        return object_of(await self.call("PATCH", path, patch, content_type="application/strategic-merge-patch+json"))

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> JSON:
        """Return the answer to a call.

        Raises:
            ApiError: it is an error, or none came.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": content_type}
        async with self._answered(method, path, query, headers, data, _CALL_S) as response:
            return _as_object(await _read(response))

    async def watch(self, path: str, query: Mapping[str, str], within_s: float) -> AsyncGenerator[JSON, None]:
        """Return the events of a watch as they come, until the server ends it.

        Args:
            path: of a list.
            query: what the watch asks for, beside being one.
            within_s: when the server ends the watch.

        Raises:
            ApiError: the watch is refused, or the connection is lost.
        """
        asked = {**query, "watch": "1", "timeoutSeconds": str(int(within_s))}
        async with self._answered("GET", path, asked, {}, None, within_s + _SLACK_S) as response:
            _keep_alive(response)
            line = bytearray()
            async for chunk in response.content.iter_any():
                part, *others = chunk.split(b"\n")
                line += part
                for other in others:
                    yield _as_object(bytes(line))
                    line = bytearray(other)
                if len(line) > _LARGEST_EVENT:
                    raise ValueError(f"an event of a watch is larger than {_LARGEST_EVENT >> 20} MiB")

    @contextlib.asynccontextmanager
    async def _answered(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str],
        data: bytes | None,
        within_s: float,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            raise RuntimeError("the client is not open")
        try:
            authorization = await self._authorization()
            async with self._session.request(
                method,
                self._access.url + path,
                params=query,
                headers={**headers, "Accept": "application/json", **authorization},
                data=data,
                timeout=aiohttp.ClientTimeout(total=within_s, connect=_CALL_S),
                server_hostname=self._access.tls_name,
            ) as response:
                self._note(None)
                if response.status == 401 and self._access.credentials is not None:
                    self._access.credentials.forget(authorization.get("Authorization", ""))
                if response.status >= 400:
                    raise await _refusal(response)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            self._note(reason)
            raise ApiError(0, "Unreachable", reason) from None

    def _note(self, reason: str | None) -> None:
        if self._is_away != (reason is not None):
            self._is_away = reason is not None
            self._on_change(reason)

    async def _authorization(self) -> dict[str, str]:
        value = self._access.authorization
        if self._access.credentials is not None:
            try:
                value = await self._access.credentials.authorization()
            except CredentialError as error:
                raise ApiError(401, "Unauthorized", str(error)) from None
        if self._access.token_file is not None:
            value = f"Bearer {read_file(self._access.token_file, within_s=0).decode(errors='replace').strip()}"
        if any(char < " " or char == "\x7f" for char in value):
            raise ApiError(401, "Unauthorized", "the user's token has a control character, which no header may have")
        return {"Authorization": value} if value else {}


async def if_there(call: Awaitable[object]) -> None:
    """Wait for a call on an object; one that is gone, or another by now, needs it no more.

    Raises:
        ApiError: the call fails in another way.
    """
    try:
        await call
    except ApiError as error:
        if error.status not in (404, 409):
            raise


def is_older(item: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether an object of a watch is older than a known state of it, as the answer to a later write.

    Versions of one server compare as numbers; where they are others, an object is taken as it comes.
    """
    try:
        version, other = (parse_int(str(one["metadata"].get("resourceVersion"))) for one in (item, known))
    except ValueError:
        return False
    return version < other


def object_of(answer: JSON) -> JSON:
    """An answer that is an object with a name.

    Raises:
        ApiError: it is none; what was asked may be asked again.
    """
    if not _has_name(answer):
        raise ApiError(500, "InternalError", "the server's answer is no object")
    return answer


def items_of(answer: JSON) -> list[JSON]:
    """The objects of a list, all of which have a name.

    Raises:
        ApiError: it is no list of objects.
    """
    items = answer.get("items") or []
    if not isinstance(items, list) or not all(map(_has_name, items)):
        raise ApiError(500, "InternalError", "the server's answer is no list of objects")
    return items


def _has_name(item: object) -> bool:
    match item:
        case {"metadata": {"name": str()}}:
            return True
    return False


async def _read(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > _LARGEST_ANSWER:
            raise ValueError(f"an answer is larger than {_LARGEST_ANSWER >> 20} MiB")
    return bytes(content)


def _as_object(text: bytes) -> JSON:
    value = load_json(text)
    if not isinstance(value, dict):
        raise ValueError("an answer is no JSON object")  # as for a text that is no JSON
    return value


async def _refusal(response: aiohttp.ClientResponse) -> ApiError:
    text = (await _read(response)).decode(errors="replace")
    try:
        status = load_json(text)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        status = {"message": text.strip() or response.reason}
    pause = response.headers.get("Retry-After", "")
    message = str(status.get("message") or response.reason)
    try:
        pause_s = min(max(0.0, float(parse_int(pause))), _LONGEST_PAUSE_S)
    except ValueError:
        pause_s = 0.0
    return ApiError(response.status, str(status.get("reason") or ""), message, pause_s)


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    transport = None if response.connection is None else response.connection.transport
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is None:
        return
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE.items():
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
