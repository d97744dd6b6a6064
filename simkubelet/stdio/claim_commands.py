"""Commands about the claims of pods: preparing them, what containers get of them, the health of their devices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from ..dra.claim_text import encode_info
from ..dra.pod_claims import DynamicResourcesError
from ..model.errors import InputError
from ..model.pod import Pod, PodUID, pod_from_manifest
from ..model.pod_status import ResourceStatus
from .dra_node import DraNode
from .request import Fields, RequestError
from .session import Answer, CommandFailedError, CommandTable

__all__ = ["commands"]

commands: Final = CommandTable[DraNode]()


@commands.add("pod")
async def do_prepare(node: DraNode, fields: Fields) -> Answer:
    """Have a pod's claims prepared; pod is a v1 Pod with its uid, and with the status that says which claims it has."""
    with _failing():
        await node.manager.prepare(_pod(fields))
    return {}


@commands.add("pod")
async def do_unprepare(node: DraNode, fields: Fields) -> Answer:
    """Have a pod's claims unprepared where no other pod uses them."""
    with _failing():
        await node.manager.unprepare(_pod(fields))
    return {}


@commands.add("active")
async def do_reconcile(node: DraNode, fields: Fields) -> Answer:
    """Unprepare the claims of pods other than these uids, as the manager does each minute."""
    await node.manager.reconcile(frozenset(map(PodUID, fields.texts("active"))))
    return {}


@commands.add("uid")
async def do_might_need_unprepare(node: DraNode, fields: Fields) -> Answer:
    """Whether a pod still uses a claim, so that its deletion has to wait."""
    return {"value": bool(node.manager.cache.of_pod(PodUID(fields.text("uid"))))}


@commands.add("pod", "container")
async def do_get_resources(node: DraNode, fields: Fields) -> Answer:
    """The CDI devices that a container gets of its claims."""
    pod = _pod(fields)
    with _failing():
        return {"cdi_devices": node.claims.cdi_devices(pod, _container(pod, fields))}


@commands.add("pod", "container")
async def do_claim_infos(node: DraNode, fields: Fields) -> Answer:
    """What is known of a container's claims, as in the checkpoint."""
    pod = _pod(fields)
    with _failing():
        infos = node.claims.infos(pod, _container(pod, fields))
    return {"infos": [json.loads(encode_info(info, node.version)) for info in infos]}


@commands.add("pod", "container")
async def do_dynamic_resources(node: DraNode, fields: Fields) -> Answer:
    """The devices of a container's claims, as PodResources lists them."""
    pod = _pod(fields)
    with _failing():
        listed = node.claims.dynamic_resources(pod, _container(pod, fields))
    return {
        "claims": [
            {
                "claim": info.name,
                "namespace": info.namespace,
                "devices": [
                    {"driver": one.driver, "pool": one.pool, "device": one.name, "cdi_devices": list(one.cdi_ids)}
                    for one in devices
                ],
            }
            for info, devices in listed
        ]
    }


@commands.add("pod", "status")
async def do_allocated_status(node: DraNode, fields: Fields) -> Answer:
    """A pod's status with the health of its claims' devices in allocatedResourcesStatus of its containers."""
    pod, status = _pod(fields), dict(fields.mapping("status"))
    with _failing():
        health = node.claims.health_status(pod)
        status["containerStatuses"] = [
            {"state": {}, "lastState": {}, **one, **_allocated(one, health.get(one.get("name", ""), ()))}
            for one in status.get("containerStatuses") or ()
        ]
    return {"status": status}


@commands.add("timeout_ms")
async def do_updates(node: DraNode, fields: Fields) -> Answer:
    """The next list of pods whose devices have changed their health; null where none comes in time."""
    timeout_s = fields.number("timeout_ms", 0.0) / 1000
    try:
        async with asyncio.timeout(timeout_s):
            return {"pod_uids": list(await node.manager.updates.get())}
    except TimeoutError:
        return {"pod_uids": None}


@contextmanager
def _failing() -> Iterator[None]:
    """The manager's refusal is the command's error, and so is what an object leads to that is not of its form."""
    try:
        yield
    except DynamicResourcesError as error:
        raise CommandFailedError(str(error)) from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RequestError(f"an object is not of the form of its kind: {error}") from None


def _pod(fields: Fields) -> Pod:
    manifest = fields.mapping("pod")
    metadata = Fields(Fields(manifest, "pod.").mapping("metadata"), "pod.metadata.")
    try:
        return replace(pod_from_manifest(manifest), uid=PodUID(metadata.text("uid")))
    except InputError as error:
        raise RequestError(f"pod: {error}") from None


def _container(pod: Pod, fields: Fields) -> str:
    name = fields.text("container")
    if all(container.name != name for container in pod.containers):
        raise CommandFailedError(f'the pod has no container "{name}"')
    return name


def _allocated(status: Mapping[str, Any], claims: Sequence[ResourceStatus]) -> Mapping[str, Any]:
    """The field of a container's status: what it had of other resources, and the claims."""
    known = {one["name"]: one for one in status.get("allocatedResourcesStatus") or ()}
    for claim in claims:
        resources = [{"resourceID": one.resource_id, "health": one.health} for one in claim.resources]
        known[claim.name] = {"name": claim.name, "resources": resources}
    return {"allocatedResourcesStatus": list(known.values())} if known else {}
