"""Writes of objects of resource.k8s.io, answered by the real API server's code and by ours.

`ours` answers a command as ``tests/oracle/registry`` does; `comparable` leaves out what is not compared: dates, uids,
and the order of what is wrong, which follows a Go map in part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simkubelet.cluster.api.decoding.decoding import Decoder
from simkubelet.cluster.api.errors import StatusError
from simkubelet.cluster.api.registry.kinds import Kind, kind_named, kind_of_version
from simkubelet.cluster.api.registry.registry import Registry
from simkubelet.cluster.objects.objects import JSON, Objects, WallTime, copied
from simkubelet.cluster.strategies.dra.gates import gates_of
from simkubelet.cluster.strategies.dra.strategies import device_strategies
from simkubelet.model.clock import ManualClock
from simkubelet.model.version import DEFAULT, version

__all__ = ["GATES", "comparable", "ours"]

GATES: Final = (
    "DRAAdminAccess",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
    "DRADeviceTaints",
    "DRAPartitionableDevices",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRAExtendedResource",
)
_KINDS: Final = {
    kind.kind: kind
    for kind in (
        kind_named(f"{plural}.resource.k8s.io")
        for plural in ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices")
    )
}
_ADMIN: Final = {"resource.kubernetes.io/admin-access": "true"}
_OF_STORAGE: Final = ("uid", "creationTimestamp", "resourceVersion")


def ours(command: Mapping[str, Any]) -> JSON:
    """The answer of our API server to ``convert``, ``create`` or ``update``."""
    stored = _KINDS[command["kind"]]
    kind = kind_of_version(stored, f"{stored.group}/{command.get('version', 'v1')}")
    objects = Objects(WallTime(ManualClock()))
    for name, labels in (("default", {}), ("admin", _ADMIN)):
        objects.create(kind_named("namespaces").key("", name), {"metadata": {"labels": labels}})
    gates = {name for name in GATES if command.get("gates", {}).get(name, name in gates_of(version(DEFAULT), {}))}
    registry = Registry(objects, device_strategies(objects, gates, version(DEFAULT)))

    def decoded(form: Kind, body: JSON) -> JSON:
        found = form.to_stored(Decoder.of(form, "Ignore", []).patched({"kind": kind.kind, **copied(body)}, ""))
        registry.strategy(form).default(found)
        return found

    try:
        new, old = decoded(kind, command["object"]), decoded(stored, command.get("old", {}))
    except StatusError as unreadable:
        return {"ok": False, "error": str(unreadable)}
    try:
        namespace = new["metadata"].get("namespace", "")
        if command["cmd"] == "convert":
            return {"ok": True, "object": stored.present(new)}
        if command["cmd"] == "create":
            return {"ok": True, "object": kind.present(registry.create(kind, namespace, new))}
        new["metadata"].pop("resourceVersion", None)
        objects.create(kind.key(namespace, old["metadata"]["name"]), old)
        kept = registry.update(
            kind, namespace, old["metadata"]["name"], lambda _: new, status=command.get("status", False)
        )
        return {"ok": True, "object": kind.present(kept)}
    except StatusError as refused:
        status = refused.status()
        causes = (status.get("details") or {}).get("causes") or []
        found = {"ok": False, "error": status["message"], "code": status["code"], "reason": status.get("reason")}
        return {**found, "causes": causes}


def comparable(answer: Mapping[str, Any]) -> JSON:
    """What both sides' answers must have in common."""
    if answer["ok"]:
        metadata = answer["object"]["metadata"]
        kept = {name: value for name, value in metadata.items() if name not in _OF_STORAGE}
        return {"object": _plain({**answer["object"], "metadata": kept})}
    if "causes" not in answer:
        # It could not be read, in words that Go's JSON has.
        return {"ok": False}
    causes = {(cause["reason"], cause["field"], _without_empty(cause["message"])) for cause in answer["causes"]}
    return {"code": answer["code"], "reason": answer["reason"], "causes": sorted(causes)}


def _without_empty(message: str) -> str:
    """A message in which an empty list or map, which Go keeps as one, is none."""
    return message.replace("[]", "null").replace(":{}", ":null")


def _plain(value: Any) -> Any:
    """A value without dates that either side makes, and without empty lists."""
    if isinstance(value, dict):
        found = {name: _plain(inner) for name, inner in value.items() if name != "timeAdded"}
        return {name: inner for name, inner in found.items() if inner not in (None, [])}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
