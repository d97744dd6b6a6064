"""The control socket of a running cluster: how another process has it do something, and which cluster is meant.

A line of JSON asks for something, a line answers when it is done. A request is a step of a story,
``{"restartKubelet": {"node": "node-1"}}``; an answer ``{"done": TEXT}``, or ``{"error": TEXT, "status": EXIT STATUS}``.

The cluster is the one of ``--cluster``, else that of ``KUBECONFIG``, else the only one. A kubeconfig leads to a cluster
by the API server of its current context: its address, and the certificates by which it is trusted.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from simkubelet.apis.documents import load_json, load_yaml, read_file
from simkubelet.host import Door
from simkubelet.model.errors import HostError, InputError, PluginError, SimkubeletError

from .running import Cluster, Server, clusters

_REQUEST: Final = Door("request of another command", ValueError, SimkubeletError)
_CHOOSE: Final = "choose one with --cluster"

Perform = Callable[[object], Awaitable[str]]
"""Does a step of a story and reports it in a line; raises `SimkubeletError`."""


@asynccontextmanager
async def serving(path: Path, perform: Perform) -> AsyncIterator[None]:
    """Take requests on a socket until the end."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if line:
                writer.write(json.dumps(await _answer(line, perform)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError, asyncio.CancelledError):
            # The client does not wait for the answer, or speaks another protocol; or all ends, and asyncio of
            # Python 3.11 prints a traceback of a task here that was cancelled.
            return
        finally:
            writer.close()

    server = await asyncio.start_unix_server(answer, path)
    try:
        yield
    finally:
        server.close()


async def _answer(line: bytes, perform: Perform) -> dict[str, str | int]:
    try:
        with _REQUEST(line.decode(errors="replace").strip()) as passage:
            return {"done": await perform(load_json(line))}
    except ValueError as error:
        return {"error": f"no request: {error}", "status": InputError.exit_status}
    except SimkubeletError as error:
        return {"error": str(error), "status": error.exit_status}
    return {"error": f"this is a mistake of simkubelet: {passage.error!r}", "status": HostError.exit_status}


def ask(cluster: str | None, step: Mapping[str, object]) -> str:
    """Have a running cluster do something; what it says when it is done.

    Args:
        cluster: its name; None for that of KUBECONFIG, or for the only one where KUBECONFIG is not set.
        step: what to do, as a story has it.

    Raises:
        InputError: there is no such cluster or node, or the node is not in the state for it.
        HostError: the cluster ended meanwhile, or its machine failed.
    """
    chosen = _chosen(cluster, step)
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(chosen.socket))
            connection.sendall(json.dumps(step).encode() + b"\n")
            line = connection.makefile().readline()
        except OSError:
            line = ""
    if not line:
        raise HostError(f"cluster '{chosen.name}' ended before it answered")
    answer = json.loads(line)
    if "done" in answer:
        return str(answer["done"])
    kinds = {kind.exit_status: kind for kind in (PluginError, InputError, HostError)}
    raise kinds[answer["status"]](answer["error"])


def _chosen(name: str | None, step: Mapping[str, object]) -> Cluster:
    found = clusters()
    if name is not None and name not in found:
        others = f"; running: {', '.join(found)}" if found else ""
        raise InputError(f"no cluster '{name}' runs{others}; start it with 'simkubelet up --name {name}'")
    if name is not None:
        return found[name]
    if not found:
        raise InputError("no cluster runs; start one with 'simkubelet up' in another terminal")
    if files := os.environ.get("KUBECONFIG"):
        return _of_kubeconfig(files, found, step)
    if len(found) > 1:
        raise InputError(f"{len(found)} clusters run: choose one with KUBECONFIG or --cluster: {', '.join(found)}")
    return next(iter(found.values()))


def _of_kubeconfig(files: str, found: Mapping[str, Cluster], step: Mapping[str, object]) -> Cluster:
    """The running cluster to which a kubeconfig leads: of several at one API server the one that has the step's node.

    Raises:
        InputError: the kubeconfig leads nowhere, or to several.
    """
    server = _server(files)
    nodes = {given.get("node") for given in step.values() if isinstance(given, Mapping)}
    there = [one for one in found.values() if one.about.server.is_of(server)]
    owners = [one for one in there if nodes & set(one.about.nodes)] or there
    if not there:
        names = ", ".join(found)
        raise InputError(f"KUBECONFIG: {files} names {server.url}, which no running cluster has; {_CHOOSE}: {names}")
    if len(owners) > 1:
        names = ", ".join(one.name for one in owners)
        raise InputError(f"KUBECONFIG: {files} names {server.url}, which several run nodes of; {_CHOOSE}: {names}")
    return owners[0]


def _server(files: str) -> Server:
    """The API server of the current context of files, of which the first that has something counts.

    Source: client-go tools/clientcmd/loader.go, ``ClientConfigLoadingRules.Load`` (v0.34.4).

    Raises:
        InputError: a file cannot be read or is no kubeconfig, or they have no current context with a server.
    """
    # Imported here: YAML is slow to load, and a command with --cluster does not need it.
    import yaml

    current = ""
    contexts: dict[str, str] = {}
    servers: dict[str, tuple[Mapping[str, Any], Path]] = {}
    missing: list[str] = []
    paths = [Path(name) for name in files.split(os.pathsep) if name]
    for path in paths:
        try:
            document: Any = load_yaml(read_file(path)) or {}
            current = current or document.get("current-context") or ""
            for one in document.get("contexts") or ():
                contexts.setdefault(one["name"], one["context"]["cluster"])
            for one in document.get("clusters") or ():
                servers.setdefault(one["name"], (one["cluster"], path.parent))
        except FileNotFoundError as error:
            missing.append(str(error.filename))
        except OSError as error:
            raise InputError(f"KUBECONFIG: '{error.filename}' cannot be read: {error.strerror}; {_CHOOSE}") from None
        except (ValueError, AttributeError, KeyError, TypeError, yaml.YAMLError):
            raise InputError(f"KUBECONFIG: '{path}' is no kubeconfig; name another file, or {_CHOOSE}") from None
    if len(missing) == len(paths):
        raise InputError(f"KUBECONFIG: '{files}' does not exist; unset it, name another file, or {_CHOOSE}")
    if (named := servers.get(contexts.get(current, ""))) is None:
        problem = f"no cluster of the context '{current}'" if current else "no current-context"
        raise InputError(f"KUBECONFIG: {files} has {problem}; name another file, or {_CHOOSE}")
    try:
        return server_of(*named)
    except OSError as error:
        raise InputError(f"KUBECONFIG: '{error.filename}' cannot be read: {error.strerror}; {_CHOOSE}") from None
    except (ValueError, AttributeError, KeyError, TypeError):
        raise InputError(
            f"KUBECONFIG: {files}: the cluster of the context '{current}' has no server; {_CHOOSE}"
        ) from None


def server_of(cluster: Mapping[str, Any], folder: Path) -> Server:
    """The API server of a cluster in a kubeconfig that lies in a folder.

    Raises:
        OSError: its certificates cannot be read, or are too many.
        ValueError, KeyError, TypeError, AttributeError: it is not of the form of one.
    """
    authority = b""
    if data := cluster.get("certificate-authority-data"):
        authority = base64.b64decode(data)
    elif path := cluster.get("certificate-authority"):
        authority = read_file(folder / path)
    return Server(str(cluster["server"]).rstrip("/"), authority.decode(errors="replace"))
