"""Writes of objects, answered by the real API server's code and by ours.

`ours` answers a command as ``tests/oracle/registry`` does; `comparable` leaves out what is not compared: dates, uids,
and the order of what is wrong, which follows a Go map in part.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from simkubelet.cluster.api.decoding.decoding import Decoder
from simkubelet.cluster.api.errors import StatusError
from simkubelet.cluster.api.registry.kinds import Kind, kind_named, kind_of_version
from simkubelet.cluster.api.registry.registry import Registry, Write
from simkubelet.cluster.api.registry.served import Served
from simkubelet.cluster.api.registry.strategy import Strategy
from simkubelet.cluster.objects.objects import JSON, Objects, WallTime, copied
from simkubelet.cluster.strategies.daemonsets import DaemonSetStrategy
from simkubelet.cluster.strategies.dra.gates import gates_of
from simkubelet.cluster.strategies.dra.strategies import device_strategies
from simkubelet.cluster.strategies.nodes import NodeStrategy
from simkubelet.cluster.strategies.pod.gates import pod_gates_of
from simkubelet.cluster.strategies.pods import PodStrategy
from simkubelet.cluster.strategies.priority_classes import PRIORITY_CLASSES, PriorityClassStrategy
from simkubelet.cluster.strategies.rules import Rules
from simkubelet.cluster.strategies.table import basic_strategies
from simkubelet.model.clock import ManualClock
from simkubelet.model.version import DEFAULT, version

__all__ = ["GATES", "RELEASE", "comparable", "ours"]

RELEASE: Final = version(os.environ.get("SIMKUBELET_ORACLE_VERSION", DEFAULT))
"""Whose rules are compared: those of the oracle's minor."""
_OF_RELEASES: Final = {
    "DRAAdminAccess": ("1.34", "1.36"),
    "DRAPrioritizedList": ("1.34", "1.37"),
    "DRAResourceClaimDeviceStatus": ("1.34", "1.37"),
    "DRADeviceTaints": ("1.34", "1.37"),
    "DRAPartitionableDevices": ("1.34", ""),
    "DRAConsumableCapacity": ("1.34", ""),
    "DRADeviceBindingConditions": ("1.34", ""),
    "DRAExtendedResource": ("1.34", "1.37"),
    "DRAResourceClaimGranularStatusAuthorization": ("1.36", ""),
    "DRAListTypeAttributes": ("1.36", ""),
    "DRANodeAllocatableResources": ("1.36", ""),
    "DRAResourcePoolStatus": ("1.36", ""),
    "DRADeviceCompatibilityGroups": ("1.37", ""),
    "DRADerivedAttributes": ("1.37", ""),
    "DRAOptionalNodeOperations": ("1.37", ""),
    "DRAPartitionableDevicesType": ("1.37", ""),
    "DRAFractionalCapacityRange": ("1.37", ""),
}
"""Gate -> the minors in which it came, and from which on it is locked."""
GATES: Final = tuple(
    name
    for name, (first, locked) in _OF_RELEASES.items()
    if version(first) <= RELEASE and not (locked and version(locked) <= RELEASE)
)
"""Those that a server of the compared release can have on or off."""
_KINDS: Final = {
    kind.kind: kind
    for kind in map(
        kind_named,
        (
            "deviceclasses.resource.k8s.io",
            "resourceclaims.resource.k8s.io",
            "resourceclaimtemplates.resource.k8s.io",
            "resourceslices.resource.k8s.io",
            "clusterrolebindings.rbac.authorization.k8s.io",
            "clusterroles.rbac.authorization.k8s.io",
            "configmaps",
            "controllerrevisions.apps",
            "daemonsets.apps",
            "leases.coordination.k8s.io",
            "namespaces",
            "nodes",
            "pods",
            "priorityclasses.scheduling.k8s.io",
            "secrets",
        ),
    )
}
_ADMIN: Final = {"resource.kubernetes.io/admin-access": "true"}
_SHOWS_JSON: Final = version("1.34.0")
_SHOWN: Final = re.compile("(Duplicate|Invalid|Unsupported) value: ")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}()[\]]|: ')
_DATES: Final = ("lastTransitionTime", "lastProbeTime")
_OF_STORAGE: Final = ("uid", "creationTimestamp", "resourceVersion")


class _UnadmittedPods(PodStrategy):
    """The rules of pods without what admission plugins do."""

    def admit(self, new: JSON) -> None:
        pass

    def admit_update(self, new: JSON, old: JSON) -> None:
        pass


class _UnadmittedNodes(NodeStrategy):
    """The same of nodes."""

    def admit(self, new: JSON) -> None:
        pass


def _strategies(objects: Objects, rules: Rules) -> Mapping[str, Strategy]:
    return {
        **basic_strategies(RELEASE),
        **device_strategies(objects, rules),
        "daemonsets.apps": DaemonSetStrategy(rules),
        "nodes": _UnadmittedNodes(rules),
        "pods": _UnadmittedPods(objects, rules),
        PRIORITY_CLASSES: PriorityClassStrategy(objects),
    }


def ours(command: Mapping[str, Any]) -> JSON:
    """The answer of our API server to ``convert``, ``create`` or ``update``."""
    stored = _KINDS[command["kind"]]
    kind = kind_of_version(stored, f"{stored.group}/{command.get('version', 'v1')}")
    objects = Objects(WallTime(ManualClock()))
    for name, labels in (("default", {}), ("admin", _ADMIN)):
        objects.create(kind_named("namespaces").key("", name), {"metadata": {"labels": labels}})
    by_default = gates_of(RELEASE, {}) | pod_gates_of(RELEASE, {})
    chosen = command.get("gates", {})
    gates = {name for name in (*_OF_RELEASES, *by_default) if chosen.get(name, name in by_default)}
    write = Write()
    registry = Registry(objects, _strategies(objects, Rules(RELEASE, gates)), RELEASE)

    def decoded(form: Kind, body: JSON) -> JSON:
        decoder = Decoder.of(form, "Ignore", [], Served.by(RELEASE))
        found = {"metadata": {}, **form.to_stored(decoder.patched({"kind": kind.kind, **copied(body)}, ""))}
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
            kept = registry.create(kind, namespace, new, write)
            return {"ok": True, "object": kind.present(kept), "warnings": write.warnings}
        written = objects.create(kind.key(namespace, old["metadata"]["name"]), old)
        new["metadata"]["resourceVersion"] = written["metadata"]["resourceVersion"]
        place = kind, namespace, old["metadata"]["name"]
        kept = registry.update(*place, lambda _: new, write, subresource=command.get("subresource", ""))
        return {"ok": True, "object": kind.present(kept), "warnings": write.warnings}
    except StatusError as refused:
        status = refused.status()
        causes = (status.get("details") or {}).get("causes") or []
        found = {"ok": False, "error": status["message"], "code": status["code"], "reason": status.get("reason")}
        return {**found, "causes": causes}


def comparable(answer: Mapping[str, Any], *, without_zeros: bool = False) -> JSON:
    """What both sides' answers must have in common.

    Args:
        answer: of one side.
        without_zeros: fields that are zero, false or empty are none, which Go leaves out in part; warnings are not
            compared, which are our own.
    """
    if answer["ok"]:
        metadata = answer["object"]["metadata"]
        kept = {name: value for name, value in metadata.items() if name not in _OF_STORAGE}
        found = _plain({**answer["object"], "metadata": kept})
        if without_zeros:
            return {"object": _without_zeros(found)}
        return {"object": found, "warnings": answer.get("warnings") or []}
    if "causes" not in answer:
        # It could not be read, in words that Go's JSON has.
        return {"ok": False}
    shown = _without_empty if RELEASE >= _SHOWS_JSON else _without_value
    causes = {(cause["reason"], cause["field"], shown(cause["message"])) for cause in answer["causes"]}
    return {"code": answer["code"], "reason": answer["reason"], "causes": sorted(causes)}


def _without_empty(message: str) -> str:
    """A message in which an empty list or map, which Go keeps as one, is none; without what differs line by line."""
    return (
        message.partition("\n")[0].replace("[]", "null").replace(":{}", ":null").replace("value: {}:", "value: null:")
    )


def _without_value(message: str) -> str:
    """A message without the value that it shows, which is in Go's notation, with addresses, before 1.34."""
    found = _SHOWN.match(message)
    if found is None:
        return message.partition("\n")[0]
    depth = 0
    for token in _TOKEN.finditer(message, found.end()):
        depth += (token[0] in ("{", "[", "(")) - (token[0] in ("}", "]", ")"))
        if token[0] == ": " and depth == 0:
            return found[0] + message[token.end() :].partition("\n")[0]
    return found[0]


def _without_zeros(value: Any) -> Any:
    if isinstance(value, dict):
        found = {name: _without_zeros(inner) for name, inner in value.items() if name not in _DATES}
        return {name: inner for name, inner in found.items() if inner}
    return [_without_zeros(inner) for inner in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """A value without dates that either side makes, and without empty lists."""
    if isinstance(value, dict):
        found = {name: _plain(inner) for name, inner in value.items() if name != "timeAdded"}
        return {name: inner for name, inner in found.items() if inner not in (None, [])}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
