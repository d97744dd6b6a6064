"""The API server, for plugins that talk to it: where it is, and calls to it.

Its place is in a kubeconfig, or in what a pod with a service account finds.

Source: tools/clientcmd/client_config.go, ``BuildConfigFromFlags``, and rest/config.go, ``InClusterConfig`` (client-go
v0.34.4).
"""

from __future__ import annotations

import base64
import binascii
import json
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import aiohttp

from simkubelet.apis.documents import load_json, load_yaml, read_file

__all__ = [
    "JSON",
    "SERVICE_ACCOUNT",
    "AccessError",
    "ApiClient",
    "ApiError",
    "ServerAccess",
    "access_from_environment",
    "unverified",
]

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account's token and the cluster's certificate."""


class AccessError(Exception):
    """There is no way to the API server: no such file, or a file that does not say what it must."""


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """How to call one API server.

    Attributes:
        url: Without a slash at its end.
        token: Sent with every call; empty for none.
        token_file: Read at every call instead of `token`, as a service account's token is replaced from time to time.
        tls: None for plain HTTP.
        timeout_s: How long one call may take.
    """

    url: str
    token: str = ""
    token_file: Path | None = None
    tls: ssl.SSLContext | None = None
    timeout_s: float = 30.0

    def headers(self) -> dict[str, str]:
        """What a call must carry.

        Raises:
            OSError: The token's file cannot be read.
        """
        token = self.token if self.token_file is None else self.token_file.read_text().strip()
        return {"Authorization": f"Bearer {token}"} if token else {}


def unverified(url: str, token: str, certificate: str = "", key: str = "", timeout_s: float = 30.0) -> ServerAccess:
    """Return access to a server without verifying its certificate; `certificate` and `key` name files.

    Raises:
        OSError: A file cannot be read.
    """
    context = _context(url, None, verifies=False)
    if context is not None and certificate:
        context.load_cert_chain(certificate, key or None)
    return ServerAccess(url.rstrip("/"), token, tls=context, timeout_s=timeout_s)


def access_from_environment(environment: Mapping[str, str]) -> ServerAccess:
    """Return access to the cluster of the file that KUBECONFIG names, by default to the cluster of this pod.

    Raises:
        AccessError: Neither is there, or it cannot be used.
    """
    if path := environment.get("KUBECONFIG"):
        return _from_kubeconfig(Path(path))
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise AccessError(
            "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be "
            "defined; outside a cluster name a file with KUBECONFIG"
        )
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    authority = SERVICE_ACCOUNT / "ca.crt"
    try:
        context = _context(url, authority.read_text())
        (SERVICE_ACCOUNT / "token").read_text()
    except OSError as error:
        raise AccessError(f"open {error.filename}: {error.strerror}; give the pod a service account") from None
    return ServerAccess(url, token_file=SERVICE_ACCOUNT / "token", tls=context)


def _from_kubeconfig(path: Path) -> ServerAccess:
    import yaml

    try:
        config = load_yaml(read_file(path))
    except OSError as error:
        raise AccessError(f"stat {path}: {error.strerror}; KUBECONFIG must name a kubeconfig") from None
    except (yaml.YAMLError, ValueError) as error:
        raise AccessError(f"{path}: no kubeconfig: {' '.join(str(error).split())}") from None
    try:
        context = _named(config, "contexts", "context", config["current-context"])
        cluster = _named(config, "clusters", "cluster", context["cluster"])
        user = _named(config, "users", "user", context["user"]) if context.get("user") else {}
        return _access(path.parent, cluster, user)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AccessError(f"{path}: invalid configuration: no {error}") from None
    except (OSError, binascii.Error) as error:
        raise AccessError(f"{path}: invalid configuration: {error}") from None


def _named(config: Mapping[str, Any], table: str, key: str, name: str) -> Mapping[str, Any]:
    for entry in config.get(table) or ():
        if entry["name"] == name:
            return entry[key] or {}
    raise KeyError(f"{key} {name!r}")


def _access(folder: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ServerAccess:
    url = str(cluster["server"]).rstrip("/")
    verifies = not cluster.get("insecure-skip-tls-verify", False)
    context = _context(url, _content(folder, cluster, "certificate-authority"), verifies=verifies)
    certificate, key = _content(folder, user, "client-certificate"), _content(folder, user, "client-key")
    if context is not None and certificate and key:
        # The interface takes files only.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(certificate + "\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    token_file = folder / user["tokenFile"] if user.get("tokenFile") else None
    return ServerAccess(url, str(user.get("token") or ""), token_file, context)


def _content(folder: Path, part: Mapping[str, Any], key: str) -> str | None:
    """What a key with or without ``-data`` gives, data first as in client-go."""
    if part.get(f"{key}-data"):
        return base64.b64decode(part[f"{key}-data"]).decode()
    return read_file(folder / part[key]).decode() if part.get(key) else None


def _context(url: str, authority: str | None, *, verifies: bool = True) -> ssl.SSLContext | None:
    if not url.startswith("https://"):
        return None
    if not verifies:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    return ssl.create_default_context(cadata=authority or None)


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
        answer = load_json(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ApiError(f"the server answers {status} without an object", status)
    if status >= 400:
        raise ApiError(str(answer.get("message") or f"the server answers {status}"), status)
    return answer
