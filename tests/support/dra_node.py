"""A DRA manager and a driver inside a test, on a clock that the test advances."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from simkubelet.model.clock import ManualClock
from simkubelet.model.version import DEFAULT, version
from simkubelet.stdio.__main__ import DRA_COMMANDS
from simkubelet.stdio.dra_node import DraNode
from simkubelet.stdio.session import Session
from tests.support.dra_driver import DraDriver, lines_of
from tests.support.patience import until

Answer = dict[str, Any]
DRIVER = "drv.example.com"
BEGIN = 1_700_000_000.0
"""The date of the node when the clock is made, in seconds since 1970."""


class DraWorld:
    """One node with a DRA manager, and one driver."""

    def __init__(self, folder: Path, tasks: asyncio.TaskGroup, minor: str = DEFAULT) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.driver = DraDriver(folder)
        self.node = DraNode(folder, version(minor), tasks, self.clock, lambda: BEGIN + self.clock.now())
        self._sessions: dict[str, Session[Any]] = {
            "manager": Session(self.node, DRA_COMMANDS, tasks),
            "driver": lines_of(self.driver, tasks),
        }

    async def ask(self, to: str, command: Answer) -> Answer:
        """Send a command; what registers is connected when this returns, and a ``sleep`` lets the clock pass."""
        if command["cmd"] == "sleep":
            await self.clock.advance(command["timeout_ms"] / 1000)
            return {"ok": True}
        answer: Answer = json.loads(await self._sessions[to].answer(json.dumps(command).encode()))
        if command["cmd"] == "register" and answer["ok"] and self.driver.serves(command["endpoint"]):
            await self.until_connected(command["driver"], command["endpoint"])
        return answer

    async def manager(self, cmd: str, **fields: Any) -> Answer:
        return await self.ask("manager", {"cmd": cmd, **fields})

    async def drive(self, cmd: str, **fields: Any) -> Answer:
        return await self.ask("driver", {"cmd": cmd, **fields})

    async def until_connected(self, driver: str, endpoint: str, is_connected: bool = True) -> None:
        """Wait until there is a connection to an endpoint, or none."""
        plugins = self.node.manager.plugins
        await until(
            lambda: any(
                one.endpoint == endpoint and one.is_connected is is_connected for one in plugins.of_driver(driver)
            )
        )

    async def close(self) -> None:
        await self.node.stop()
        await self.driver.stop()

    # The usual objects

    async def serve(self, endpoint: str = "dra.sock", *services: str) -> None:
        """Have the driver's plugin serve, and register it."""
        await self.drive("serve", endpoint=endpoint, serve=list(services or ("v1", "v1beta1")))
        await self.register(endpoint)

    async def register(self, endpoint: str = "dra.sock", *services: str) -> Answer:
        path = str(self.folder / endpoint)
        return await self.manager("register", driver=DRIVER, endpoint=path, services=services or ["v1.DRAPlugin"])

    async def put_claim(self, name: str, *pods: str, **claim: Any) -> None:
        await self.manager("put", kind="ResourceClaim", object=claim_object(name, *pods, **claim))


def claim_object(
    name: str, *pods: str, uid: str = "", owner: str = "", drivers: tuple[str, ...] | None = (DRIVER,)
) -> Answer:
    """A ResourceClaim that is reserved for pods (by uid), with a device of each driver; not allocated for None."""
    metadata: Answer = {"name": name, "namespace": "default", "uid": uid or f"{name}-uid"}
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": f"pod-{owner}", "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    status: Answer = {"reservedFor": [{"resource": "pods", "name": f"pod-{pod}", "uid": pod} for pod in pods]}
    if drivers is not None:
        results = [{"request": "req", "driver": driver, "pool": "pool", "device": "dev-0"} for driver in drivers]
        status["allocation"] = {"devices": {"results": results}}
    return {"metadata": metadata, "spec": {}, "status": status}


def pod_object(uid: str, *claims: str, **generated: str | None) -> Answer:
    """A pod whose container ``c`` uses these claims, and entries of templates: entry -> claim, "" for not made yet."""
    entries: list[Answer] = [{"name": name, "resourceClaimName": name} for name in claims]
    entries += [{"name": name, "resourceClaimTemplateName": "t"} for name in generated]
    statuses = [
        {"name": name, **({} if claim is None else {"resourceClaimName": claim})}
        for name, claim in generated.items()
        if claim != ""
    ]
    used = [{"name": name} for name in (*claims, *generated)]
    return {
        "metadata": {"name": f"pod-{uid}", "namespace": "default", "uid": uid},
        "spec": {
            "containers": [{"name": "c", "image": "x", "resources": {"claims": used}}, {"name": "without"}],
            "resourceClaims": entries,
        },
        "status": {"resourceClaimStatuses": statuses} if statuses else {},
    }
