"""The control socket of a running cluster: a line of JSON asks for something, a line answers when it is done.

A request is ``{"do": "restart-kubelet", "node": "node-1"}``; an answer ``{"done": TEXT}``, or ``{"error": TEXT,
"status": EXIT STATUS}``.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path

from simkubelet.model.errors import HostError, InputError, PluginError, SimkubeletError

from .place import running

__all__ = ["Verb", "ask", "serving"]


class Verb(StrEnum):
    """What can be done to a node of a running cluster."""

    RESTART_KUBELET = "restart-kubelet"
    STOP_KUBELET = "stop-kubelet"
    START_KUBELET = "start-kubelet"
    REBOOT_NODE = "reboot-node"


Perform = Callable[[Verb, str], Awaitable[str]]
"""Does something to a node and tells it in a line; raises `SimkubeletError`."""


@asynccontextmanager
async def serving(path: Path, perform: Perform) -> AsyncIterator[None]:
    """Take requests on a socket, one after the other, until the end."""
    turn = asyncio.Lock()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if line:
                async with turn:
                    said = await _answer(line, perform)
                writer.write(json.dumps(said).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            # The client does not wait for the answer, or speaks another protocol.
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
        request = json.loads(line)
        return {"done": await perform(Verb(request["do"]), str(request["node"]))}
    except (KeyError, TypeError, ValueError) as error:
        return {"error": f"no request: {error}", "status": InputError.exit_status}
    except SimkubeletError as error:
        return {"error": str(error), "status": error.exit_status}


def ask(cluster: str | None, verb: Verb, node: str) -> str:
    """Have a running cluster do something; what it says when it is done.

    Args:
        cluster: its name; may be None where only one runs.
        verb: what to do.
        node: to which node.

    Raises:
        InputError: there is no such cluster or node, or the node is not in the state for it.
        HostError: the cluster ended meanwhile, or its machine failed.
    """
    name, path = _chosen(cluster)
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps({"do": verb.value, "node": node}).encode() + b"\n")
            line = connection.makefile().readline()
        except OSError:
            line = ""
    if not line:
        raise HostError(f"cluster '{name}' ended before it answered")
    answer = json.loads(line)
    if "done" in answer:
        return str(answer["done"])
    kinds = {kind.exit_status: kind for kind in (PluginError, InputError, HostError)}
    raise kinds[answer["status"]](answer["error"])


def _chosen(cluster: str | None) -> tuple[str, Path]:
    found = running()
    if cluster is not None and cluster not in found:
        others = f"; running: {', '.join(found)}" if found else ""
        raise InputError(f"no cluster '{cluster}' runs{others}; start it with 'simkubelet up --name {cluster}'")
    if not found:
        raise InputError("no cluster runs; start one with 'simkubelet up' in another terminal")
    if cluster is None and len(found) > 1:
        raise InputError(f"{len(found)} clusters run: choose one with --cluster: {', '.join(found)}")
    name = cluster or next(iter(found))
    return name, found[name]
