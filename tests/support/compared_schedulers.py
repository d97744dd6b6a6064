"""The real scheduler and ours over one cluster: both get every write, and each attempt to schedule a pod is compared.

The real one is a program (``tests/oracle/scheduler``) that never writes: what it would write is compared with what
ours wrote, and then sent to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simkubelet.cluster.objects.objects import JSON, Key, Objects, Verb, WallTime, Written
from simkubelet.cluster.scheduler.cycle import Assignment, Failure
from simkubelet.cluster.scheduler.scheduler import Scheduler
from simkubelet.cluster.store import Store
from simkubelet.model.pod import Pod
from simkubelet.model.version import version
from tests.support.kubelet_sides import LineProgram
from tests.support.scheduled_cluster import StepClock

MEASURED = ("cmd", "ok", "us", "t")

Outcome = dict[str, Any]


@dataclass
class ComparedSchedulers:
    """One cluster whose pods both schedulers try.

    Attributes:
        oracle: the real scheduler's program.
        outcomes: what came of each try, oldest first.
    """

    oracle: LineProgram
    outcomes: list[Outcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._clock = StepClock()
        self._objects = Objects(WallTime(self._clock))
        self._store = _EventStore(self._objects)
        self._scheduler = Scheduler(self._store, self._clock, version("1.34"))
        self._ask("start")
        self._written: list[Written] = []
        self._started = self._created = 0
        for kind in ("nodes", "pods"):
            self._objects.subscribe(kind, self._written.append)

    def find(self, kind: str, name: str) -> JSON | None:
        """The object of this name; None where there is none."""
        return self._objects.get(Key(kind, "default" if kind == "pods" else "", name))

    def names(self, kind: str) -> list[str]:
        """The names of all objects of a kind."""
        return [each["metadata"]["name"] for each in self._objects.all_of(kind)]

    def create_pod(self, name: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> None:
        """Write a new pod; its containers are named here."""
        named = {
            kind: [{"name": f"{kind}-{number}".lower(), **each} for number, each in enumerate(spec[kind])]
            for kind in ("initContainers", "containers")
            if kind in spec
        }
        self._created += 1
        metadata = {"name": name, "namespace": "default", "uid": f"{name}-{self._created}", "labels": labels}
        spec = {"schedulerName": "default-scheduler", **spec, **named}
        self.put("pods", {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
        if "nodeName" in spec:
            self._start(name)

    def end_pod(self, name: str, phase: str) -> None:
        """Write that a pod has ended, where it runs."""
        pod = self.find("pods", name)
        if pod is not None and pod["spec"].get("nodeName"):
            self.put("pods", {**pod, "status": {**pod["status"], "phase": phase}})

    def put(self, kind: str, body: JSON) -> None:
        """Write an object, as users, kubelets and controllers do; no two pods come at the same time."""
        self.advance(1)
        key = Key(kind, "default" if kind == "pods" else "", body["metadata"]["name"])
        known = self._objects.get(key)
        if known is None:
            self._objects.create(key, {**body, "metadata": {"generation": 1, **body["metadata"]}})
        else:
            self._objects.replace(key, {**body, "metadata": {**known["metadata"], **body["metadata"]}})
        self._tell()

    def remove(self, kind: str, name: str) -> None:
        """Drop an object for good; nothing happens where there is none."""
        key = Key(kind, "default" if kind == "pods" else "", name)
        if self._objects.get(key) is not None:
            self._objects.remove(key)
        self._tell()

    def remove_deleting_pods(self) -> None:
        """Drop the pods that were asked to end."""
        for pod in self._objects.all_of("pods"):
            if _is_deleting(pod):
                self.remove("pods", pod["metadata"]["name"])

    def advance(self, ms: int) -> None:
        """Let time pass for both."""
        self._clock.ms += ms
        self._ask("advance", ms=ms)
        self._scheduler.queue.flush()
        self._compare_queues()

    def try_all(self) -> None:
        """Try pods until none is to be tried now, and compare each try."""
        while self.try_next():
            pass

    def try_next(self) -> bool:
        """Try one pod; whether there was one."""
        # Pods of one time would be tried in an order that the real one leaves to chance.
        self.advance(1)
        real = {name: value for name, value in self._ask("try").items() if name not in MEASURED}
        outcome = self._scheduler.try_next()
        ours = {} if outcome is None else self._ours(outcome)
        assert ours == real, f"\nours {ours}\nreal {real}"
        if ours:
            self.outcomes.append(ours)
        self._tell()
        for binding in ours.get("bindings", ()):
            self._start(binding["pod"])
        return bool(ours)

    def _start(self, name: str) -> None:
        """Write what the kubelet of a pod's node does: no two start at the same time."""
        pod = self.find("pods", name)
        assert pod is not None
        self._started += 1
        begin = {"phase": "Running", "startTime": self._objects.wall_time.date(self._started)}
        self.put("pods", {**pod, "status": {**pod["status"], **begin}})

    def _ours(self, tried: Assignment | Failure) -> Outcome:
        """What ours wrote, in the oracle's words."""
        for victim in tried.victims if isinstance(tried, Failure) else ():
            pod = self.find("pods", victim.name)
            assert pod is None or _is_deleting(pod), victim.name
        outcome: Outcome = {
            "bindings": [],
            "conditions": [],
            "nominated": {},
            "deleted": sorted(event["pod"] for event in self._store.told if event["reason"] == "Preempted"),
            "events": self._store.told,
            "scores": dict(tried.scores) if isinstance(tried, Assignment) else {},
        }
        for written in self._written:
            name, new, before = written.key.name, written.object, written.before or {}
            if written.verb is Verb.DELETED or _is_deleting(new) is not _is_deleting(before):
                # A victim: it may be on its way out already.
                continue
            if new["spec"].get("nodeName") != before["spec"].get("nodeName"):
                outcome["bindings"].append({"pod": name, "node": new["spec"]["nodeName"]})
            else:
                _note_status(outcome, name, before, new)
        for kind in ("conditions", "events"):
            outcome[kind].sort(key=_as_go_prints)
        self._store.told = []
        return outcome

    def _tell(self) -> None:
        """Tell the oracle what was written, and compare who waits where."""
        for written in self._written:
            kind = written.key.kind.removesuffix("s")
            is_ended = written.object.get("status", {}).get("phase") in ("Succeeded", "Failed")
            # The real scheduler asks the API server for pods that have not ended.
            if written.verb is Verb.DELETED or is_ended:
                self._ask(f"delete_{kind}", namespace=written.key.namespace, name=written.key.name)
            else:
                self._ask(f"apply_{kind}", **{kind: written.object})
        self._written.clear()
        self._compare_queues()

    def _compare_queues(self) -> None:
        queue, real = self._scheduler.queue, self._ask("queues")
        places = {
            "active": (queue.active,),
            "backoff": (queue.backoff, queue.error_backoff),
            "unschedulable": (queue.unschedulable,),
        }
        for name, parts in places.items():
            waiting = [one.pod.name for part in parts for one in part.pods.values()]
            assert sorted(waiting) == real[name], name

    def _ask(self, cmd: str, **fields: Any) -> JSON:
        answer = self.oracle.ask(cmd, **fields)
        assert answer["ok"], answer
        return answer


class _EventStore(Store):
    """A store that keeps the original text of Events: repeats are stored with the first one's message."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects, lambda event: None)
        self.told: list[dict[str, str]] = []

    def record(self, pod: Pod, type_: str, reason: str, message: str, component: str, **more: Any) -> None:
        self.told.append({"pod": pod.name, "type": type_, "reason": reason, "message": message})
        super().record(pod, type_, reason, message, component, **more)


def _is_deleting(pod: JSON) -> bool:
    return "deletionTimestamp" in pod.get("metadata", {})


def _note_status(outcome: Outcome, name: str, before: JSON, new: JSON) -> None:
    known = {each["type"]: each for each in before.get("status", {}).get("conditions", ())}
    for each in new["status"].get("conditions", ()):
        told = {part: each.get(part, "") for part in ("type", "status", "reason", "message")}
        if told != {part: known.get(each["type"], {}).get(part, "") for part in told}:
            outcome["conditions"].append({"pod": name, **told})
    nominated = new["status"].get("nominatedNodeName", "")
    if nominated != before.get("status", {}).get("nominatedNodeName", ""):
        outcome["nominated"][name] = nominated


def _as_go_prints(answer: Mapping[str, str]) -> str:
    return "map[" + " ".join(f"{key}:{answer[key]}" for key in sorted(answer)) + "]"
