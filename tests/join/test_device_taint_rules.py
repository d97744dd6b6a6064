"""The real API server keeps and refuses the DeviceTaintRules that the simulated one keeps and refuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from simkubelet import ManualClock
from simkubelet.cluster.api.errors import StatusError
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import Registry
from simkubelet.cluster.objects.objects import JSON, Objects, WallTime
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.version import version
from simkubelet.remote import ApiClient, ApiError

RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
DATE = "2026-01-01T00:00:00Z"
TAINT = {"key": "example.com/broken", "effect": "NoExecute", "timeAdded": DATE}
CONDITION = {"type": "Seen", "status": "True", "reason": "Seen", "message": "", "lastTransitionTime": DATE}


def rule(**parts: Any) -> JSON:
    spec = {"taint": {**TAINT, **parts.pop("taint", {})}, **parts}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "rule"}, "spec": spec}


WRITES: tuple[tuple[str, JSON], ...] = (
    ("create", rule(taint={"key": ""})),
    ("create", rule(taint={"key": "a b"})),
    ("create", rule(taint={"key": f"{'a' * 254}/b"})),
    ("create", rule(taint={"value": "no value"})),
    ("create", rule(taint={"value": "v" * 64})),
    ("create", rule(taint={"effect": ""})),
    ("create", rule(taint={"effect": "Other"})),
    ("create", rule(deviceSelector={"driver": "Not.A Driver", "pool": "/", "device": "Not_A_Device"})),
    ("create", rule(deviceSelector={"pool": ""})),
    ("create", rule(deviceSelector={"driver": ""})),
    ("create", rule(deviceSelector={"driver": "d" * 64})),
    ("create", rule(deviceSelector={"device": ""})),
    ("create", {**rule(deviceSelector={"pool": "a/b"}), "status": {"conditions": [CONDITION]}}),
    ("create", rule()),
    ("update", rule(taint={"value": "x"})),
    ("update", rule(taint={"effect": "None"}, deviceSelector={})),
    ("update", {**rule(taint={"effect": "None"}), "status": {"conditions": [CONDITION]}}),
    ("status", {**rule(), "status": {"conditions": [CONDITION]}}),
    ("status", {**rule(), "status": {"conditions": [{**CONDITION, "type": "a b", "status": "Yes", "reason": ""}]}}),
    ("status", {**rule(), "status": {"conditions": [{**CONDITION, "type": "", "status": ""}]}}),
    ("status", {**rule(), "status": {"conditions": [CONDITION, CONDITION]}}),
    ("status", {**rule(), "status": {"conditions": [{**CONDITION, "type": f"c{n}"} for n in range(9)]}}),
    ("unconditional", rule()),
)


def told(found: JSON) -> JSON:
    """What a server keeps of a rule, without what is another each time, and what the real controller adds."""
    added, status = found["spec"]["taint"]["timeAdded"] == DATE, found.get("status", {})
    return {
        "generation": found["metadata"]["generation"],
        "spec": {**found["spec"], "taint": {**found["spec"]["taint"], "timeAdded": added}},
        "conditions": [one for one in status.get("conditions", []) if one["type"] != "EvictionInProgress"],
    }


async def answers(write: Callable[[str, JSON], Awaitable[JSON]]) -> list[JSON | str]:
    found: list[JSON | str] = []
    for verb, body in WRITES:
        try:
            found.append(told(await write(verb, body)))
        except (ApiError, StatusError) as error:
            found.append(str(error))
    return found


async def test_rules_are_kept_and_refused_alike(client: ApiClient) -> None:
    release = await client.get("/version")
    if int(release["minor"]) < 37:
        pytest.skip("v1 has DeviceTaintRules from 1.37 on: nox -s join -- --kubernetes 1.37")
    objects = Objects(WallTime(ManualClock()))
    registry = Registry(objects, all_strategies(objects, version(release["gitVersion"].removeprefix("v")), {}))
    kind = kind_named("devicetaintrules.resource.k8s.io")

    async def ours(verb: str, body: JSON) -> JSON:
        if verb == "create":
            return registry.create(kind, "", body)

        def changed(stored: JSON) -> JSON:
            given = "" if verb == "unconditional" else stored["metadata"]["resourceVersion"]
            return {**stored, **body, "metadata": {**stored["metadata"], "resourceVersion": given}}

        return registry.update(kind, "", "rule", changed, status=verb == "status")

    async def real(verb: str, body: JSON) -> JSON:
        if verb == "create":
            return await client.call("POST", RULES, body)
        path = f"{RULES}/rule/status" if verb == "status" else f"{RULES}/rule"
        while True:
            known = await client.get(path)
            given = None if verb == "unconditional" else known["metadata"]["resourceVersion"]
            try:
                return await client.call("PUT", path, {**body, "metadata": {"name": "rule", "resourceVersion": given}})
            except ApiError as error:
                # The controller has changed the status in between.
                if "has been modified" not in str(error):
                    raise

    try:
        assert await answers(ours) == await answers(real)
    finally:
        await client.call("DELETE", f"{RULES}/rule")
