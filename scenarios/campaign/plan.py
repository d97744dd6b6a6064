"""A random story as data: its nodes, plugins and steps as a story has them, and the story that is played of it.

The story of a plan has an expectation after each step, and may have an end that heals everything, deletes all pods and
wants a node that works again. Both follow from the steps alone, so a plan with fewer steps is a story, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from simkubelet.apis.yaml_text import yaml_text

Step = Mapping[str, Any]
"""A step as a story has it: ``{"deletePod": {"pod": "p1"}}``."""

_SETTLES_WITHIN: Final = "11s"
_FOUND_WITHIN: Final = "3m"
"""A kubelet dials the socket that a killed plugin has left in `plugins_registry/` with pauses of seconds, gives up
after 10 s, and pauses for up to 122 s, whatever appears at that path meanwhile (v1.34.4, pkg/util/goroutinemap).
"""
_REFUSING: Final = ("restricted", "single-numa-node")
"""Topology policies that may refuse a pod though there are devices for it."""
_ENDS_WITHIN: Final = "3m"


@dataclass(frozen=True, slots=True)
class Plan:
    """A story without its expectations.

    Attributes:
        nodes: As a story has them.
        plugins: As a story has them, all stubs.
        steps: As a story has them, without expectations.
        is_healed: Whether the story ends with everything healed, and wants a node that works again.
    """

    nodes: tuple[Mapping[str, Any], ...]
    plugins: tuple[Mapping[str, Any], ...]
    steps: tuple[Step, ...]
    is_healed: bool = True


@dataclass(slots=True)
class World:
    """What steps have made of a world, as far as it is certain before they are played.

    Attributes:
        pods: Those that were applied and not deleted.
        static: Static pod -> its node.
        stopped: Nodes whose kubelet was stopped.
        running: (node, plugin) of the plugins that run.
        paused: Nodes whose container runtime is paused.
    """

    plan: Plan
    pods: dict[str, Step] = field(default_factory=dict)
    static: dict[tuple[str, str], Step] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    running: set[tuple[str, str]] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.running = {
            (node, plugin["name"]) for node in self.nodes for plugin in self.plan.plugins if "start" not in plugin
        }

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes."""
        return [node["name"] for node in self.plan.nodes]

    def is_likely_to_run(self, pod: str) -> bool:
        """Whether there are devices for a pod and for all others, in the first lists of plugins that run."""
        if self.stopped or self.paused:
            return False
        offered: dict[str, int] = {}
        for plugin in self.plan.plugins:
            serves = plugin["serves"]
            if (self.nodes[0], plugin["name"]) in self.running and "registers" not in serves:
                healthy = sum(one.get("health") != "Unhealthy" for one in serves["devices"])
                offered[serves["resource"]] = max(offered.get(serves["resource"], 0), healthy)
        for other in self.pods.values():
            for container in (*other["spec"].get("initContainers", ()), *other["spec"]["containers"]):
                for resource, count in container.get("resources", {}).get("limits", {}).items():
                    offered[resource] = offered.get(resource, 0) - int(count)
        return all(left >= 0 for left in offered.values())

    def take(self, step: Step) -> None:
        """Note what a step does."""
        (verb, given), *_ = step.items()
        # Those steps that name none here need none below.
        node = str(given.get("node")) if isinstance(given, Mapping) else ""
        match verb:
            case "apply":
                self.pods[given["metadata"]["name"]] = given
            case "delete":
                self.pods.pop(given["pod"], None)
            case "addStaticPod":
                self.static[node, given["manifest"]["metadata"]["name"]] = given["manifest"]
            case "removeStaticPod":
                self.static.pop((node, given["pod"]), None)
            case "stopKubelet":
                self.stopped.add(node)
            case "startKubelet" | "restartKubelet":
                self.stopped.discard(node)
            case "rebootNode":
                self.stopped.discard(node)
                self.paused.discard(node)
            case "startPlugin":
                self.running.add((node, given["plugin"]))
            case "stopPlugin":
                self.running.discard((node, given["plugin"]))
            case "pauseRuntime":
                self.paused.add(node)
            case "resumeRuntime":
                self.paused.discard(node)


def story_of(plan: Plan, name: str, description: str) -> dict[str, Any]:
    """The story of a plan, as its document has it."""
    return {
        "name": name,
        "description": description,
        "nodes": [dict(node) for node in plan.nodes],
        "plugins": [dict(plugin) for plugin in plan.plugins],
        "steps": list(_steps(plan)),
    }


def yaml_of(story: Mapping[str, Any]) -> str:
    """A story as the text of its file."""
    return yaml_text(dict(story))


def _steps(plan: Plan) -> Iterator[Step]:
    world = World(plan)
    checks = [_consistent(node) for node in world.nodes]
    yield from checks
    for step in plan.steps:
        world.take(step)
        yield step
        yield from checks
    if plan.is_healed:
        for step in healing(world):
            yield step
            if next(iter(step)) in ("restartKubelet", "removeStaticPod"):
                yield from checks
        yield from checks


def _consistent(node: str) -> Step:
    return {"expect": {"node": node, "consistent": True, "within": _SETTLES_WITHIN}}


def healing(world: World) -> Iterator[Step]:
    """Everything is healed and deleted, every plugin and kubelet is new; then one pod for each resource has to run."""
    for node in world.nodes:
        if node in world.paused:
            yield {"resumeRuntime": {"node": node}}
        yield {"refuseCri": {"node": node, "calls": []}}
        yield {"freeDisk": {"node": node}}
        for plugin in world.plan.plugins:
            if (node, plugin["name"]) in world.running:
                yield {"stopPlugin": {"plugin": plugin["name"], "signal": "KILL", "node": node}}
        yield {"restartKubelet": {"node": node}}
    yield from ({"delete": {"pod": pod}} for pod in world.pods)
    yield from ({"removeStaticPod": {"pod": pod, "node": node}} for node, pod in world.static)
    for pod in [*world.pods, *(f"{pod}-{node}" for node, pod in world.static)]:
        yield {"expect": {"pod": pod, "gone": True, "within": _ENDS_WITHIN}}
    offers = _offers(world.plan.plugins)
    is_found = any(plugin["serves"].get("registers") == "found" for plugin in world.plan.plugins)
    within = _FOUND_WITHIN if is_found else _SETTLES_WITHIN
    for node in world.nodes:
        for plugin in world.plan.plugins:
            yield {"startPlugin": {"plugin": plugin["name"], "node": node}}
        if offers:
            # A kubelet publishes what it knew before it knows the plugins.
            yield {"expect": {"node": node, "connected": offers, "allocatable": offers, "within": within}}
    is_aligned = any(node.get("topology", {}).get("policy") in _REFUSING for node in world.plan.nodes)
    for index, (resource, count) in enumerate(offers.items()):
        if count and not is_aligned:
            yield {"apply": pod_of(f"last-{index}", {resource: 1})}
            yield {"expect": {"pod": f"last-{index}", "phase": "Running", "devices": {resource: 1}, "within": "1m"}}


def _offers(plugins: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Resource -> healthy devices that a new plugin offers, of those that one plugin alone serves."""
    offers: dict[str, int] = {}
    served = [plugin["serves"]["resource"] for plugin in plugins]
    for plugin in plugins:
        serves = plugin["serves"]
        if served.count(serves["resource"]) == 1 and serves.get("registers") != "never":
            healthy = {one["id"] for one in serves["devices"] if one.get("health") != "Unhealthy"}
            offers[serves["resource"]] = len(healthy)
    return offers


def pod_of(name: str, devices: Mapping[str, int], **spec: Any) -> dict[str, Any]:
    """The manifest of a pod with one container that asks for devices."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {**spec, "containers": [container_of("main", devices)]},
    }


def container_of(name: str, devices: Mapping[str, int], **more: Any) -> dict[str, Any]:
    """One container of a manifest."""
    limits = {resource: str(count) for resource, count in devices.items() if count}
    return {"name": name, "image": "app", **({"resources": {"limits": limits}} if limits else {}), **more}
