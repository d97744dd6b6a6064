"""Credentials that a program of the kubeconfig's user gives (`exec`), as those of cloud providers do.

The program is run before the first call, again once what it gave has expired, and after an answer that the user is not
known. It asks nobody: standard input is closed.

Source: client-go, plugin/pkg/client/auth/exec/exec.go, ``refreshCredsLocked``, ``roundTrip``;
tools/clientcmd/api/types.go, ``ExecConfig`` (v0.34.4).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from .._internal.other_program import run_program
from ..apis.documents import load_json
from ..model.errors import InputError

__all__ = ["CredentialError", "ExecCredentials", "load_certificate"]

_GROUP: Final = "client.authentication.k8s.io"
_VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_MODES: Final = ("Never", "IfAvailable", "Always")
_LONGEST: Final = 1 << 20
"""Bytes of what the program writes; an HTTP request of an API server has no longer token."""


class CredentialError(Exception):
    """The program gives no credentials; one line says why."""


class ExecCredentials:
    """The latest credentials of a program.

    Args:
        config: ``exec`` of a user.
        cluster: What the program may know of the cluster, where the user wants it to.
        folder: The kubeconfig's, to which a command with a slash is relative.
        tls: Of the connections; gets the certificate that the program gives.

    Raises:
        InputError: The program cannot be run.
    """

    def __init__(
        self, config: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path, tls: ssl.SSLContext | None
    ) -> None:
        self._version = str(config.get("apiVersion") or "")
        if self._version not in _VERSIONS:
            raise InputError(f"exec: apiVersion '{self._version}' is not supported; use {_VERSIONS[0]}")
        # Needed by v1; the older version has a default.
        mode = str(config.get("interactiveMode") or ("" if self._version == _VERSIONS[0] else "IfAvailable"))
        if mode not in _MODES:
            raise InputError(f"exec: interactiveMode '{mode}' is none; use one of {', '.join(_MODES)}")
        if mode == "Always":
            raise InputError("exec: the program needs a terminal (interactiveMode: Always); use IfAvailable or Never")
        self._argv = (_program(config, folder), *map(str, config.get("args") or ()))
        self._env = {str(one["name"]): str(one["value"]) for one in config.get("env") or ()}
        self._spec = {"interactive": False, **({"cluster": dict(cluster)} if config.get("provideClusterInfo") else {})}
        self._tls = tls
        self._token: str | None = None
        self._expires: datetime | None = None
        self._turn = asyncio.Lock()

    async def authorization(self) -> str:
        """Return the header of a call, empty where a certificate shows who the client is.

        Raises:
            CredentialError: The program fails, or what it writes is no credential.
        """
        async with self._turn:
            if self._token is None or (self._expires is not None and datetime.now(UTC) > self._expires):
                self._take(await self._run())
            return f"Bearer {self._token}" if self._token else ""

    def forget(self, authorization: str) -> None:
        """Have the program run again at the next call, unless it was since that header was given."""
        if authorization == (f"Bearer {self._token}" if self._token else ""):
            self._token = None

    async def _run(self) -> bytes:
        info = {"kind": "ExecCredential", "apiVersion": self._version, "spec": self._spec}
        env = {**os.environ, **self._env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            ended = await run_program(self._argv, env=env, most_written=_LONGEST)
        except OSError as error:
            raise CredentialError(f"exec: {self._argv[0]} cannot be run: {error.strerror}") from None
        except ValueError as error:
            raise CredentialError(f"exec: {self._argv[0]}: {error}") from None
        if ended.status:
            raise CredentialError(f"exec: {self._argv[0]} ended with status {ended.status}: {ended.last_line}")
        return ended.written

    def _take(self, written: bytes) -> None:
        try:
            credential = load_json(written)
            version, status = credential["apiVersion"], credential.get("status") or {}
            token = str(status.get("token") or "")
            pair = [str(status.get(name) or "") for name in ("clientCertificateData", "clientKeyData")]
            expires = _time(date) if (date := status.get("expirationTimestamp")) else None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise CredentialError(f"exec: {self._argv[0]} wrote no ExecCredential of {self._version}") from None
        if version != self._version:
            raise CredentialError(f"exec: {self._argv[0]} is to write {self._version}, it wrote {version}")
        if not token and not any(pair):
            raise CredentialError(f"exec: {self._argv[0]} wrote neither a token nor a certificate with its key")
        if any(pair):
            self._load(*pair)
        self._token, self._expires = token, expires

    def _load(self, certificate: str, key: str) -> None:
        if not (certificate and key):
            raise CredentialError(f"exec: {self._argv[0]} wrote only a certificate or a key, not both")
        try:
            if self._tls is not None:
                load_certificate(self._tls, certificate.encode(), key.encode())
        except (ssl.SSLError, ValueError) as error:
            raise CredentialError(f"exec: the certificate of {self._argv[0]} cannot be used: {error}") from None


def load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Let new connections show a certificate, both in PEM.

    Raises:
        ssl.SSLError: It cannot be used, or the key is another's.
    """
    # The library reads certificates from files only.
    with tempfile.NamedTemporaryFile(prefix="simkubelet-") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _time(date: str) -> datetime:
    time = datetime.fromisoformat(date)
    if time.tzinfo is None:
        raise ValueError(f"{date} has no time zone, which RFC 3339 wants")
    return time


def _program(config: Mapping[str, Any], folder: Path) -> str:
    command = str(config.get("command") or "")
    # A path without a slash would be looked up on the PATH.
    found = shutil.which(folder.absolute() / command if "/" in command else command) if command else None
    if found is None:
        hint = " ".join(str(config.get("installHint") or "").split())
        raise InputError(f"exec: there is no program '{command}'" + (f"; {hint}" if hint else ""))
    return found
