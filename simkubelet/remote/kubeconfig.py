"""Kubeconfig files: where an API server is, how it is trusted, and who its client is.

Source: client-go, tools/clientcmd/client_config.go, ``ClientConfig``; tools/clientcmd/api/v1/types.go (v0.34.4).
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ..apis.documents import load_yaml, read_file
from ..model.errors import InputError
from .exec_credentials import ExecCredentials, load_certificate

__all__ = ["ServerAccess", "read_kubeconfig"]

_UNSUPPORTED: Final = ("auth-provider", "as")
_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Of a cluster: what its programs for credentials are given."""


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """How to reach one API server.

    Attributes:
        url: without a slash at its end.
        tls: None where the server talks plain HTTP.
        tls_name: the name in the server's certificate, where it is not that of the URL.
        authorization: the header; empty where a certificate or nothing shows who the client is.
        token_file: has a token that changes, which is read for each connection; None where there is no such file.
        authority: the certificates, in PEM, by which the server's is known; empty where the kubeconfig has none.
        credentials: given by a program; None where the kubeconfig has them itself.
    """

    url: str
    tls: ssl.SSLContext | None = None
    tls_name: str | None = None
    authorization: str = ""
    token_file: Path | None = None
    authority: str = ""
    credentials: ExecCredentials | None = None


def read_kubeconfig(path: Path, context: str | None = None) -> ServerAccess:
    """Return how to reach the server of a context, by default of the current one.

    Raises:
        InputError: the file cannot be read, has no such context, or needs what is not supported or not there.
    """
    try:
        document = load_yaml(read_file(path))
    except OSError as error:
        raise InputError(f"kubeconfig '{path}' cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError):
        raise InputError(f"kubeconfig '{path}' is not YAML") from None
    if not isinstance(document, dict):
        raise InputError(f"kubeconfig '{path}' is not a kubeconfig: expected a mapping with contexts and clusters")
    try:
        return _Kubeconfig(path, document).access(context or document.get("current-context"))
    except (AttributeError, KeyError, TypeError, binascii.Error) as error:
        raise InputError(f"kubeconfig '{path}' is not of the form of a kubeconfig: {error!r}") from None


class _Kubeconfig:
    """One file; paths in it are relative to its folder."""

    def __init__(self, path: Path, document: Mapping[str, Any]) -> None:
        self._path = path
        self._document = document

    def access(self, name: str | None) -> ServerAccess:
        if not name:
            raise InputError(f"kubeconfig '{self._path}' has no current-context; set one or name a context")
        context = self._named("contexts", "context", name)
        cluster = self._named("clusters", "cluster", context["cluster"])
        user = self._named("users", "user", context["user"]) if context.get("user") else {}
        if unsupported := next((one for one in _UNSUPPORTED if user.get(one)), None):
            raise InputError(
                f"kubeconfig '{self._path}': the user's '{unsupported}' is not supported; write a token into the file, "
                "such as one of 'kubectl create token'"
            )
        if cluster.get("proxy-url"):
            raise InputError(
                f"kubeconfig '{self._path}': the cluster's 'proxy-url' is not supported; use a direct address"
            )
        url = str(cluster["server"]).rstrip("/")
        is_secure = url.startswith("https:")
        authority = self._content(cluster, "certificate-authority") if is_secure else None
        trusted = (authority or b"").decode(errors="replace")
        tls = self._tls(cluster, trusted, user) if is_secure else None
        return ServerAccess(
            url,
            tls=tls,
            tls_name=cluster.get("tls-server-name") or None,
            authorization=_authorization(user),
            token_file=None if user.get("token") or not user.get("tokenFile") else self._place(user["tokenFile"]),
            authority=trusted,
            credentials=self._credentials(cluster, trusted, user, tls),
        )

    def _credentials(
        self, cluster: Mapping[str, Any], authority: str, user: Mapping[str, Any], tls: ssl.SSLContext | None
    ) -> ExecCredentials | None:
        """The program that gives credentials, where the kubeconfig has none beside it.

        Source: client-go, plugin/pkg/client/auth/exec/exec.go, ``UpdateTransportConfig``; rest/exec.go,
        ``ConfigToExecCluster`` (v0.34.4).
        """
        others = ("token", "tokenFile", "username", "client-certificate", "client-certificate-data")
        if not user.get("exec") or any(user.get(one) for one in others):
            return None
        shown = ("server", "tls-server-name", "insecure-skip-tls-verify")
        known = {name: cluster[name] for name in shown if name in cluster}
        if authority:
            known["certificate-authority-data"] = base64.b64encode(authority.encode()).decode()
        extensions = {one.get("name"): one.get("extension") for one in cluster.get("extensions") or ()}
        if _EXTENSION in extensions:
            known["config"] = extensions[_EXTENSION]
        try:
            return ExecCredentials(user["exec"], known, self._path.parent, tls)
        except InputError as error:
            raise InputError(f"kubeconfig '{self._path}': {error}") from None

    def _named(self, kinds: str, kind: str, name: str) -> Mapping[str, Any]:
        known = {one["name"]: one.get(kind) or {} for one in self._document.get(kinds) or ()}
        if name not in known:
            raise InputError(f"kubeconfig '{self._path}' has no {kind} '{name}'; it has: {', '.join(known) or 'none'}")
        found: Mapping[str, Any] = known[name]
        return found

    def _place(self, path: str) -> Path:
        return self._path.parent / path

    def _content(self, section: Mapping[str, Any], name: str) -> bytes | None:
        """What a field holds itself (``NAME-data``), or the file that it names."""
        if data := section.get(f"{name}-data"):
            return base64.b64decode("".join(data.split()), validate=True)
        if not (path := section.get(name)):
            return None
        try:
            return read_file(self._place(path))
        except OSError as error:
            raise InputError(f"kubeconfig '{self._path}': {name} '{path}' cannot be read: {error.strerror}") from None

    def _tls(self, cluster: Mapping[str, Any], authority: str, user: Mapping[str, Any]) -> ssl.SSLContext:
        certificate, key = self._content(user, "client-certificate"), self._content(user, "client-key")
        try:
            context = ssl.create_default_context(cadata=authority or None)
            if certificate is not None and key is not None:
                load_certificate(context, certificate, key)
        except (ssl.SSLError, ValueError) as error:
            raise InputError(f"kubeconfig '{self._path}': a certificate or key cannot be used: {error}") from None
        # Authorities of clusters often lack the key identifiers that Python asks for from 3.13 on.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _authorization(user: Mapping[str, Any]) -> str:
    if token := user.get("token"):
        return f"Bearer {token}"
    if name := user.get("username"):
        return "Basic " + base64.b64encode(f"{name}:{user.get('password') or ''}".encode()).decode()
    return ""
