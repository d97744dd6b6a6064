"""Random plans: the same seed and number always give the same one, in whatever order and process it is made.

A seeded generator and not a Hypothesis strategy: stories are played by coroutines in several processes and are resumed
later, each from its number alone, and a story has to be the same with the next version of a library.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from simkubelet.model.version import DEFAULT, SUPPORTED

from .plan import Plan, Step, World, container_of, pod_of

_SHORTEST: Final = 3
_LONGEST: Final = 14
_RESOURCES: Final = ("example.com/red", "example.com/blue", "example.com/green")
_REFUSED_NAMES: Final = ("stub", "kubernetes.io/stub", "example.com/", "requests.example.com/a")


def plan_of(seed: int, number: int) -> Plan:
    """The plan of a campaign's story.

    Args:
        seed: The campaign's.
        number: The story's, from 0.
    """
    return Generator(random.Random(f"{seed}/{number}")).plan()  # noqa: S311  # nobody is to be kept from guessing it


class Generator:
    """Draws plans, and the steps of one.

    Args:
        chance: Decides everything.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._pods = 0

    def plan(self) -> Plan:
        """A whole plan."""
        kubernetes = self._chance.choice(SUPPORTED) if self._maybe(0.5) else DEFAULT
        nodes = tuple(self._node(f"node-{index + 1}", kubernetes) for index in range(2 if self._maybe(0.15) else 1))
        resources = _RESOURCES[: self._chance.choices((1, 2, 3), (5, 4, 1))[0]]
        plugins = [self._plugin(resource) for resource in resources]
        if self._maybe(0.2):
            plugins.append(self._plugin(resources[0], "second-"))
        plan = Plan(nodes, tuple(plugins), (), is_healed=self._maybe(0.7))
        world = World(plan)
        steps = [self.next_step(world) for _ in range(self._chance.randint(_SHORTEST, _LONGEST))]
        return Plan(plan.nodes, plan.plugins, tuple(steps), plan.is_healed)

    def next_step(self, world: World) -> Step:
        """A step that can be done in a world, as far as that is known; the world has taken it."""
        while (step := self._step(world)) is None:
            pass
        world.take(step)
        return step

    def _node(self, name: str, kubernetes: str) -> dict[str, Any]:
        node: dict[str, Any] = {"name": name, "kubernetes": kubernetes}
        if self._maybe(0.3):
            node["numaNodes"] = 2
            policy = self._chance.choice(("none", "best-effort", "restricted", "single-numa-node"))
            node["topology"] = {"policy": policy, "scope": self._chance.choice(("container", "pod"))}
        return node

    def _plugin(self, resource: str, prefix: str = "") -> dict[str, Any]:
        color = resource.partition("/")[2]
        serves: dict[str, Any] = {"resource": resource, "devices": self._devices(color)}
        if self._maybe(0.25):
            serves["registers"] = self._chance.choice(("once", "never", "found"))
        if self._maybe(0.25):
            serves["onLostStream"] = self._chance.choice(("exit", "hang"))
        if self._maybe(0.25):
            serves["preStart"] = True
        if self._maybe(0.3):
            serves["preferredAllocation"] = True
        late = {"start": "manual"} if self._maybe(0.15) else {}
        return {"name": f"{prefix}{color}", "builtin": "stub", **late, "serves": serves}

    def _devices(self, color: str) -> list[dict[str, Any]]:
        # Few devices are what makes pods wait; many, what lets several hold some.
        count = self._chance.choices((0, 1, 2, 4, 8), (1, 2, 3, 4, 4))[0]
        return [self._device(f"{color}-{index}") for index in range(count)]

    def _device(self, name: str) -> dict[str, Any]:
        device: dict[str, Any] = {"id": name}
        if self._maybe(0.2):
            device["health"] = "Unhealthy"
        if self._maybe(0.25):
            device["numa"] = self._chance.choice(([0], [1], [0, 1]))
        return device

    def _step(self, world: World) -> Step | None:
        """A step that can be done, as far as that is known; None where the kind that was drawn cannot."""
        kinds = list(_KINDS)
        kind = self._chance.choices(kinds, [_KINDS[one] for one in kinds])[0]
        return kind(self, world, self._chance.choice(world.nodes))

    def _apply(self, world: World, node: str) -> Step:
        self._pods += 1
        manifest = self._manifest(f"p{self._pods}", world)
        return {"apply": manifest}

    def _manifest(self, name: str, world: World) -> dict[str, Any]:
        manifest = pod_of(name, self._request(world))
        spec = manifest["spec"]
        if self._maybe(0.4):
            spec["restartPolicy"] = self._chance.choice(("Never", "OnFailure"))
        if self._maybe(0.2):
            spec["containers"].append(container_of("other", self._request(world)))
        if self._maybe(0.2):
            more = {"restartPolicy": "Always"} if self._maybe(0.5) else {}
            spec["initContainers"] = [container_of("first", self._request(world), **more)]
        if self._maybe(0.2):
            spec["terminationGracePeriodSeconds"] = self._chance.choice((0, 1, 60))
        return manifest

    def _request(self, world: World) -> dict[str, int]:
        resources = sorted({plugin["serves"]["resource"] for plugin in world.plan.plugins})
        chosen = self._chance.sample(resources, self._chance.randint(1, min(2, len(resources))))
        return {resource: self._chance.choices((0, 1, 2, 3), (1, 6, 3, 1))[0] for resource in chosen}

    def _delete(self, world: World, node: str) -> Step | None:
        return {"delete": {"pod": self._chance.choice(list(world.pods))}} if world.pods else None

    def _exit(self, world: World, node: str) -> Step | None:
        likely = [pod for pod in world.pods if world.is_likely_to_run(pod)]
        if not likely:
            return None
        pod = self._chance.choice(likely)
        spec = world.pods[pod]["spec"]
        names = [one["name"] for one in spec.get("initContainers", ())] or [one["name"] for one in spec["containers"]]
        code = self._chance.choice((0, 1))
        return {"exitContainer": {"pod": pod, "container": self._chance.choice(names), "code": code}}

    def _add_static(self, world: World, node: str) -> Step:
        self._pods += 1
        return {"addStaticPod": {"node": node, "manifest": self._manifest(f"s{self._pods}", world)}}

    def _remove_static(self, world: World, node: str) -> Step | None:
        if not world.static:
            return None
        where, pod = self._chance.choice(list(world.static))
        return {"removeStaticPod": {"pod": pod, "node": where}}

    def _restart(self, world: World, node: str) -> Step:
        times = {"times": 2} if self._maybe(0.2) else {}
        return {"restartKubelet": {"node": node, **times}}

    def _stop_or_start_kubelet(self, world: World, node: str) -> Step:
        return {"startKubelet" if node in world.stopped else "stopKubelet": {"node": node}}

    def _reboot(self, world: World, node: str) -> Step:
        return {"rebootNode": {"node": node}}

    def _stop_or_start_plugin(self, world: World, node: str) -> Step:
        plugin = self._chance.choice(world.plan.plugins)["name"]
        if (node, plugin) not in world.running:
            return {"startPlugin": {"plugin": plugin, "node": node}}
        return {"stopPlugin": {"plugin": plugin, "signal": self._chance.choice(("TERM", "KILL")), "node": node}}

    def _with_running(self, world: World, node: str) -> Mapping[str, Any] | None:
        """A plugin whose process runs on a node, if there is one; while a kubelet is down nobody starts one again."""
        running = [
            one
            for one in world.plan.plugins
            if (node, one["name"]) in world.running
            and not (node in world.stopped and one["serves"].get("onLostStream") == "exit")
        ]
        return self._chance.choice(running) if running else None

    def _kill_plugin(self, world: World, node: str) -> Step | None:
        if node in world.stopped or (plugin := self._with_running(world, node)) is None:
            return None
        return {"killPlugin": {"plugin": plugin["name"], "node": node}}

    def _list(self, world: World, node: str) -> Step | None:
        if (plugin := self._with_running(world, node)) is None:
            return None
        color = plugin["serves"]["resource"].partition("/")[2]
        return {"listDevices": {"plugin": plugin["name"], "devices": self._devices(color), "node": node}}

    def _register(self, world: World, node: str) -> Step | None:
        if (plugin := self._with_running(world, node)) is None:
            return None
        given: dict[str, Any] = {"plugin": plugin["name"], "node": node}
        match self._chance.randrange(6):
            case 0:
                given["version"] = self._chance.choice(("v1alpha1", "v1", ""))
            case 1:
                given["resource"] = self._chance.choice(_REFUSED_NAMES)
            case 2:
                given["resource"] = self._chance.choice(_RESOURCES)
            case 3:
                given["endpoint"] = "kubelet.sock"
            case 4:
                given["times"] = 2
        return {"registerPlugin": given}

    def _answer(self, world: World, node: str) -> Step | None:
        if (plugin := self._with_running(world, node)) is None:
            return None
        rpcs = ("GetDevicePluginOptions", "ListAndWatch", "GetPreferredAllocation", "Allocate", "PreStartContainer")
        rpc = self._chance.choices(rpcs, (1, 1, 2, 5, 2))[0]
        given: dict[str, Any] = {"plugin": plugin["name"], "node": node, "rpc": rpc}
        match self._chance.randrange(7):
            case 0 | 1:
                given["error"] = "no %d"
            case 2:
                given["empty"] = True
            case 3:
                given["after"] = "50ms"
            case 4 | 5:
                given["devices"] = self._devices(plugin["serves"]["resource"].partition("/")[2])
            case 6:
                given["crash"] = True
        if self._maybe(0.7) or "crash" in given:
            given["times"] = self._chance.choice((1, 2))
        if self._maybe(0.2):
            given["skip"] = 1
        return {"answerRpc": given}

    def _end_stream(self, world: World, node: str) -> Step | None:
        if (plugin := self._with_running(world, node)) is None:
            return None
        return {self._chance.choice(("endStream", "stopServer")): {"plugin": plugin["name"], "node": node}}

    def _checkpoint(self, world: World, node: str) -> Step | None:
        plugins = {plugin["name"]: plugin["serves"] for plugin in world.plan.plugins}
        if not any(where == node and "registers" not in plugins[plugin] for where, plugin in world.running):
            # There may be none.
            return None
        to = self._chance.choice(("removed", "empty", "corrupt"))
        return {"changeCheckpoint": {"node": node, "to": to}}

    def _disk(self, world: World, node: str) -> Step:
        return {self._chance.choice(("fillDisk", "freeDisk")): {"node": node}}

    def _sync(self, world: World, node: str) -> Step | None:
        return None if node in world.stopped else {"syncNodeStatus": {"node": node}}

    def _runtime(self, world: World, node: str) -> Step:
        if self._maybe(0.5):
            calls = self._chance.choice(([], ["Status"], ["ListPodSandbox"], ["ListContainers"]))
            return {"refuseCri": {"node": node, "calls": calls}}
        return {"resumeRuntime" if node in world.paused else "pauseRuntime": {"node": node}}

    def _advance(self, world: World, node: str) -> Step:
        return {"advance": self._chance.choice(("1s", "10s", "1m", "4m59s", "6m"))}

    def _maybe(self, probability: float) -> bool:
        return self._chance.random() < probability


_KINDS: Final[Mapping[Callable[[Generator, World, str], Step | None], int]] = {
    Generator._apply: 24,
    Generator._delete: 8,
    Generator._exit: 6,
    Generator._add_static: 2,
    Generator._remove_static: 1,
    Generator._restart: 6,
    Generator._stop_or_start_kubelet: 5,
    Generator._reboot: 2,
    Generator._stop_or_start_plugin: 8,
    Generator._kill_plugin: 4,
    Generator._list: 12,
    Generator._register: 5,
    Generator._answer: 9,
    Generator._end_stream: 4,
    Generator._checkpoint: 1,
    Generator._disk: 1,
    Generator._sync: 1,
    Generator._runtime: 2,
    Generator._advance: 6,
}
"""What a step can be -> how often, compared with the others."""
