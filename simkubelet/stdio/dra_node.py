"""What a session's commands about the DRA manager work on: one folder, the objects of a cluster, one manager.

Settings are those of one run of the manager, as ``start`` and ``restart`` give them; what a command leaves out stays.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..apis.dra import DRA_PLUGIN_TYPE
from ..apis.pluginregistration import PLUGINS_REGISTRY
from ..dra.container_claims import ContainerClaims
from ..dra.manager import DraManager
from ..dra.slice_wipes import SliceWipes
from ..model.clock import Clock, RealClock
from ..model.pod import PodUID
from ..model.version import EXTENDED_CLAIMS, FEATURE_GATES, Version
from ..registration.plugin_manager import PluginManager
from .request import Fields, RequestError

__all__ = ["CLAIMS", "SLICES", "DraNode", "ObjectBook"]

CLAIMS: Final = "ResourceClaim"
SLICES: Final = "ResourceSlice"


@dataclass(slots=True)
class ObjectBook:
    """The cluster of a `DraNode`: claims and slices as ``put`` and ``delete`` have left them.

    Attributes:
        objects: kind -> (namespace, name) -> object.
        wipes: the field selectors with which slices were deleted.
    """

    objects: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = field(
        default_factory=lambda: {CLAIMS: {}, SLICES: {}}
    )
    wipes: list[str] = field(default_factory=list)

    async def resource_claim(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self.objects[CLAIMS].get((namespace, name))

    async def delete_resource_slices(self, selector: Mapping[str, str]) -> bool:
        self.wipes.append(",".join(f"{name}={selector[name]}" for name in sorted(selector)))
        slices = self.objects[SLICES]
        for key, one in list(slices.items()):
            spec = one.get("spec") or {}
            fields = {"spec.driver": spec.get("driver", ""), "spec.nodeName": spec.get("nodeName", "")}
            if all(fields[name] == value for name, value in selector.items()):
                del slices[key]
        return True


class DraNode:
    """A node that has nothing but a DRA manager.

    Args:
        directory: the manager's folder.
        version: the Kubernetes minor to behave as.
        tasks: owns connections and loops.
        clock: the node's time.
        unix_time: its date, in seconds since 1970.
    """

    def __init__(
        self,
        directory: Path,
        version: Version,
        tasks: asyncio.TaskGroup,
        clock: Clock | None = None,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        self.directory = directory
        self.version = version
        self.clock = clock or RealClock()
        self.cluster = ObjectBook()
        self.gates: dict[str, bool] = {}
        self._unix_time = unix_time
        self._tasks = tasks
        self._node, self._wiping_ms, self._watches = "node-1", 0, False
        self._manager: DraManager | None = None
        self._watcher: PluginManager | None = None

    @property
    def manager(self) -> DraManager:
        """The manager that runs.

        Raises:
            RequestError: none does.
        """
        if self._manager is None:
            raise RequestError("no manager runs: start it first")
        return self._manager

    @property
    def is_running(self) -> bool:
        return self._manager is not None

    @property
    def claims(self) -> ContainerClaims:
        """What containers get of the claims of the manager that runs."""
        return self.manager.claims

    def change(self, fields: Fields) -> None:
        """Take the settings of the next start."""
        self._node = fields.text("node", self._node)
        self._wiping_ms = fields.whole("wiping_ms", self._wiping_ms)
        self._watches = fields.flag("watch", self._watches)

    def start(self) -> None:
        """Make a manager on what the folder holds.

        Raises:
            BadCheckpointError: it does not start on that.
            HostError: plugins cannot be watched for.
        """
        manager = DraManager(
            self.directory,
            self.cluster,
            self.version,
            clock=self.clock,
            tasks=self._tasks,
            # Pods are reconciled when a command says which are active.
            active_pods=_no_pods_yet,
            unix_time=self._unix_time,
            follows_health=FEATURE_GATES["ResourceHealthStatus"].is_on(self.version, self.gates),
            serves_extended=FEATURE_GATES[EXTENDED_CLAIMS].is_on(self.version, self.gates),
            wipes=SliceWipes(
                self._node,
                self.cluster,
                self.version,
                clock=self.clock,
                tasks=self._tasks,
                delay_s=self._wiping_ms / 1000 or None,
            ),
        )
        if self._watches:
            self._watcher = PluginManager(
                self.directory / PLUGINS_REGISTRY,
                {DRA_PLUGIN_TYPE: manager.plugins},
                version=self.version,
                clock=self.clock,
                tasks=self._tasks,
                on_found=lambda socket: None,
            )
            self._watcher.start()
        manager.start()
        self._manager = manager

    async def stop(self) -> None:
        """Stop the manager as a kubelet does at its end; may be called twice and from any state."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            await watcher.stop()
        manager, self._manager = self._manager, None
        if manager is not None:
            await manager.stop()

    async def abandon(self) -> None:
        """End the manager as a killed kubelet ends, which leaves nothing else behind than `stop`."""
        await self.stop()


def _no_pods_yet() -> Collection[PodUID] | None:
    return None
