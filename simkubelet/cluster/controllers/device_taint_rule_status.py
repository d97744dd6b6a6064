"""The status of DeviceTaintRules: whether pods still have to go for them, in the condition EvictionInProgress.

A rule's status is written when the rule is new or has changed, and ten seconds after a pod went for it or was found to
have to; while the condition is younger than ten seconds, once it is as old.

Source: pkg/controller/devicetainteviction/device_taint_eviction.go, ``maybeUpdateRuleStatus`` (kubernetes v1.37.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from ..._internal.change import Change, first_done
from ..._internal.doors import Door
from ...dra.pod_claims import allocation_results
from ...model.clock import Clock
from ...model.pod import Pod
from ..objects.device_taint_rules import TAINT_RULES, is_selected
from ..objects.objects import JSON, Key, Objects

__all__ = ["RULE_STATUS_PERIOD_S", "STATUS_OF_RULE", "RuleStatuses"]

RULE_STATUS_PERIOD_S: Final = 10.0
STATUS_OF_RULE: Final = Door("status of a DeviceTaintRule")
_TYPE: Final = "EvictionInProgress"
_ONLY_NO_EXECUTE: Final = "Eviction only happens for the NoExecute effect."
_IF_IT_WERE: Final = (
    "if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger "
    "an update."
)


class RuleStatuses:
    """Writes the status of rules.

    Args:
        objects: the cluster's.
        clock: its time.
        affected: the pods that have to go for a rule, or would if its effect was NoExecute.
        published: all devices that drivers publish, each by ``driver``, ``pool`` and ``device``.
    """

    def __init__(
        self,
        objects: Objects,
        clock: Clock,
        affected: Callable[[JSON], Sequence[Pod]],
        published: Callable[[], Iterable[dict[str, str]]],
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._affected = affected
        self._published = published
        self._evicted: Counter[str] = Counter()
        self._due: dict[str, float] = {}
        self._change = Change()

    def count_eviction(self, name: str) -> None:
        """A pod goes for a rule."""
        rule = self._rule(name)
        if rule is not None:
            self._evicted[rule["metadata"]["uid"]] += 1
            self.plan(name, RULE_STATUS_PERIOD_S)

    def plan(self, name: str, delay_s: float) -> None:
        """Look at a rule after some seconds, or earlier where that is planned."""
        due_at = self._clock.now() + delay_s
        self._due[name] = min(due_at, self._due.get(name, due_at))
        self._change.notify()

    async def run(self) -> None:
        """Write what is due until cancelled."""
        while True:
            seen = self._change.count
            now = self._clock.now()
            for name in [name for name, due_at in self._due.items() if due_at <= now]:
                with STATUS_OF_RULE(name, partial(self.record_failure, name)):
                    self.update(name)
            waits: list[Awaitable[object]] = [self._change.wait(seen)]
            if self._due:
                waits.append(self._clock.sleep(min(self._due.values()) - now))
            await first_done(*waits)

    def record_failure(self, name: str, error: str) -> None:
        """Record that a rule's status cannot be written; nothing happens where the rule is gone."""
        if (rule := self._rule(name)) is not None:
            self._objects.record_failure(Key(TAINT_RULES, "", name), rule, error)

    def update(self, name: str) -> None:
        """Write a rule's condition where it is another one now; nothing happens where the rule is gone."""
        self._due.pop(name, None)
        rule = self._rule(name)
        if rule is None:
            return
        conditions = (rule.get("status") or {}).get("conditions") or []
        known = next((one for one in conditions if one["type"] == _TYPE), None)
        generation = rule["metadata"].get("generation", 0)
        if known is not None and known.get("observedGeneration", 0) == generation:
            age_s = self._clock.now() - self._objects.wall_time.seconds(known["lastTransitionTime"])
            if age_s < RULE_STATUS_PERIOD_S:
                self.plan(name, RULE_STATUS_PERIOD_S - age_s)
                return
        new = {"type": _TYPE, "observedGeneration": generation, **self._condition(rule)}
        if known is not None and new == {part: known.get(part) for part in new}:
            return
        others = [one for one in conditions if one["type"] != _TYPE]
        status = {"conditions": [*others, {**new, "lastTransitionTime": self._objects.wall_time.now()}]}
        self._objects.replace(Key(TAINT_RULES, "", name), {**rule, "status": status})

    def _rule(self, name: str) -> JSON | None:
        return self._objects.get(Key(TAINT_RULES, "", name))

    def _condition(self, rule: JSON) -> dict[str, Any]:
        evicted = self._evicted[rule["metadata"]["uid"]]
        is_pending, message = False, ""
        match rule["spec"]["taint"]["effect"]:
            case "NoExecute":
                pods = self._affected(rule)
                is_pending = bool(pods)
                reason = "PodsPendingEviction" if pods else "Completed" if evicted else "NotStarted"
                if pods:
                    need = "pod needs" if len(pods) == 1 else "pods need"
                    message = f"{len(pods)} {need} to be evicted in {_namespaces(pods)}."
            case "None":
                reason, message = "NoEffect", self._preview(rule)
            case _:
                reason, message = "OtherEffect", _ONLY_NO_EXECUTE
        if evicted:
            message = f"{message} {_counted(evicted, 'pod')} evicted since starting the controller.".lstrip()
        return {"status": str(is_pending), "reason": reason, "message": message}

    def _preview(self, rule: JSON) -> str:
        """What a rule would do."""
        claims = self._objects.all_of("resourceclaims.resource.k8s.io")
        allocated = (
            {part: result[part] for part in ("driver", "pool", "device")}
            for claim in claims
            for result in allocation_results(claim)
        )
        published_count, allocated_count = (
            sum(is_selected(rule, device) for device in devices) for devices in (self._published(), allocated)
        )
        pods = self._affected(rule)
        return (
            f"{_counted(published_count, 'published device')} selected. "
            f"{_counted(allocated_count, 'allocated device')} selected. "
            f"{_counted(len(pods), 'pod')} would be evicted in {_namespaces(pods)} {_IF_IT_WERE}"
        )


def _namespaces(pods: Sequence[Pod]) -> str:
    count = len({pod.namespace for pod in pods})
    return "1 namespace" if count == 1 else f"{count} different namespaces"


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"
