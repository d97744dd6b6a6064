"""Commands about pods: their coming and going, and the devices that they are given."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from ..devices.health_updates import HEALTH_UPDATE_QUEUE
from ..devices.pod_devices import DeviceRunOptions
from ..model.config import PolicyName
from ..model.errors import AllocationError
from ..model.pod import Container, Pod
from ..model.pod_status import ResourceStatus
from ..model.resources import ResourceName
from .node import Node
from .request import Fields
from .session import Answer, CommandFailedError, CommandTable

__all__ = ["commands"]

commands: Final = CommandTable[Node]()


@commands.add("uid", "name", "namespace", "init_containers", "containers", needs_manager=False)
async def do_add_pod(node: Node, fields: Fields) -> Answer:
    """Add a pod, active from now on; containers are {name, limits}, init containers also {restartable}."""
    node.pods.add(fields)
    return {}


@commands.add("pod", needs_manager=False)
async def do_remove_pod(node: Node, fields: Fields) -> Answer:
    """End a pod: it is no longer active, and its devices can be given to others."""
    node.pods.remove(fields.text("pod"))
    return {}


@commands.add("pod", needs_manager=False)
async def do_forget_pod(node: Node, fields: Fields) -> Answer:
    """End a pod and forget its object."""
    node.pods.forget(fields.text("pod"))
    return {}


@commands.add("pod", "container")
async def do_allocate(node: Node, fields: Fields) -> Answer:
    """Give one container its devices."""
    pod, container = node.pods.container(fields.text("pod"), fields.text("container"))
    await node.manager.allocator.allocate(pod, container)
    return {}


@commands.add("pod")
async def do_admit(node: Node, fields: Fields) -> Answer:
    """Admit a pod under the topology policy: give each container its devices, init containers first."""
    manager, failed = node.manager, dict[str, str]()

    async def allocate(pod: Pod, container: Container) -> None:
        node.apply_affinity(pod.uid, container.name)
        try:
            await manager.allocator.allocate(pod, container)
        except AllocationError as error:
            failed.update(container=container.name, error=str(error))
            raise

    rejection = await manager.topology.admit(node.pods.pod(fields.text("pod")), allocate)
    if rejection is None:
        return {}
    reasons = {"reason": rejection.reason, "message": rejection.message}
    is_aligned = node.settings.topology.policy != PolicyName.NONE
    error = rejection.message if is_aligned else failed.pop("error")
    raise CommandFailedError(error, **reasons, **{name: text for name, text in failed.items() if name != "error"})


@commands.add("pod", "container")
async def do_run_options(node: Node, fields: Fields) -> Answer:
    """What a container's devices add to its creation; null where it holds none. Calls PreStartContainer."""
    pod, container = node.pods.container(fields.text("pod"), fields.text("container"))
    options = await node.manager.allocator.run_options(pod, container)
    holds_devices = node.manager.devices.pod_devices.container(pod.uid, container.name)
    return {"options": _options(options) if holds_devices else None}


@commands.add()
async def do_update_allocated(node: Node, fields: Fields) -> Answer:
    """Take back the devices of pods that are no longer active."""
    node.manager.allocator.release_inactive()
    return {}


@commands.add("pod", "node_allocatable")
async def do_update_plugin_resources(node: Node, fields: Fields) -> Answer:
    """What a node's allocatable (resource -> devices) counts as at the admission of a pod that has devices already."""
    pod = node.pods.pod(fields.text("pod"))
    allocatable = {ResourceName(name): amount for name, amount in fields.counts("node_allocatable").items()}
    return {"node_allocatable": dict(node.manager.update_plugin_resources(pod.uid, allocatable))}


@commands.add("pod")
async def do_allocated_status(node: Node, fields: Fields) -> Answer:
    """The health of each device that a pod's containers hold."""
    _check_reports_health(node)
    status = node.manager.allocated_resources_status(node.pods.pod(fields.text("pod")))
    return {"status": {container: [_status(each) for each in resources] for container, resources in status.items()}}


@commands.add("timeout_ms", "want")
async def do_updates(node: Node, fields: Fields) -> Answer:
    """Lists of pods whose devices changed their health; waits while fewer than want have come."""
    _check_reports_health(node)
    want, timeout_s = fields.whole("want", 0), fields.number("timeout_ms", 0.0) / 1000
    waiting, found = node.manager.health_updates, list[Sequence[str]]()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s if len(waiting) < want else None):
            while len(waiting) or len(found) < want:
                found.append(await waiting.get())
    return {"updates": found}


def _check_reports_health(node: Node) -> None:
    if HEALTH_UPDATE_QUEUE.at(node.version) is None:
        raise CommandFailedError("this Kubernetes tells no device health: ResourceHealthStatus came in 1.31")


def _status(status: ResourceStatus) -> Answer:
    resources = [{"id": each.resource_id, "health": each.health} for each in status.resources]
    return {"name": status.name, "resources": resources}


def _options(options: DeviceRunOptions) -> Answer:
    return {
        "envs": dict(options.envs),
        "annotations": dict(options.annotations),
        "cdi_devices": sorted(options.cdi_devices),
        "mounts": sorted(
            (
                {
                    "name": mount.container_path,
                    "container_path": mount.container_path,
                    "host_path": mount.host_path,
                    "read_only": mount.read_only,
                }
                for mount in options.mounts
            ),
            key=lambda mount: str(mount["container_path"]),
        ),
        "devices": sorted(
            (
                {
                    "container_path": device.container_path,
                    "host_path": device.host_path,
                    "permissions": device.permissions,
                }
                for device in options.devices
            ),
            key=lambda device: device["container_path"],
        ),
    }
