"""Makes the plan of a failed story smaller as long as it fails in the same way: steps first, then what they act on."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from .generator import plan_of
from .plan import Plan, story_of, yaml_of
from .player import play_alone

Fails = Callable[[Plan], bool]
"""Whether a plan fails in the way that is looked for."""

_LIMIT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest story that was found for a failure.

    Attributes:
        text: Of its file; its name is that of the file without the ending.
        steps: How many steps its plan has.
        is_repeated: Whether the failure was seen again when the story was played alone.
    """

    name: str
    text: str
    steps: int
    is_repeated: bool


def shrink(seed: int, number: int, signature: str, directory: Path | None, is_own_process: bool) -> Shrunk:
    """Find the smallest story that fails as a story of a campaign did."""

    def fails(plan: Plan) -> bool:
        return play_alone(plan, number, directory, is_own_process).signature == signature

    plan = plan_of(seed, number)
    is_repeated = fails(plan) or fails(plan)
    smallest = smaller(plan, fails, _LIMIT_S) if is_repeated else plan
    name = f"seed-{seed}-story-{number}"
    description = f"Story {number} of a campaign with seed {seed}, made as small as it still fails. {signature}"
    return Shrunk(name, yaml_of(story_of(smallest, name, description)), len(smallest.steps), is_repeated)


def smaller(plan: Plan, fails: Fails, limit_s: float) -> Plan:
    """Return the smallest plan that still fails, as far as it is found in time; `plan` itself fails."""
    until = time.monotonic() + limit_s
    has_changed = True
    while has_changed:
        has_changed = False
        for candidate in _candidates(plan):
            if time.monotonic() > until:
                return plan
            if fails(candidate):
                plan, has_changed = candidate, True
                break
    return plan


def _candidates(plan: Plan) -> Iterator[Plan]:
    """Plans that are a bit smaller, those first that leave most out."""
    if plan.is_healed:
        yield replace(plan, is_healed=False)
    size = len(plan.steps)
    chunk = 2 * size
    while chunk := chunk // 2:
        for begin in range(0, size, chunk):
            yield replace(plan, steps=plan.steps[:begin] + plan.steps[begin + chunk :])
    for index, plugin in enumerate(plan.plugins):
        if not any(_names(step, plugin["name"]) for step in plan.steps):
            yield replace(plan, plugins=plan.plugins[:index] + plan.plugins[index + 1 :])
    if len(plan.nodes) > 1 and not any(_names(step, plan.nodes[-1]["name"]) for step in plan.steps):
        yield replace(plan, nodes=plan.nodes[:-1])
    for index, node in enumerate(plan.nodes):
        for simpler in _without_keys(node, ("name",)):
            yield replace(plan, nodes=_with(plan.nodes, index, simpler))
    for index, plugin in enumerate(plan.plugins):
        for serves in _without_keys(plugin["serves"], ("resource", "devices")):
            yield replace(plan, plugins=_with(plan.plugins, index, {**plugin, "serves": serves}))
        for devices in _simpler_devices(plugin["serves"]["devices"]):
            serves = {**plugin["serves"], "devices": devices}
            yield replace(plan, plugins=_with(plan.plugins, index, {**plugin, "serves": serves}))
    for index, step in enumerate(plan.steps):
        for simpler_step in _simpler_steps(step):
            yield replace(plan, steps=_with(plan.steps, index, simpler_step))


def _with(items: Sequence[Any], index: int, item: Any) -> tuple[Any, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _names(step: Mapping[str, Any], name: str) -> bool:
    (given, *_) = step.values()
    return isinstance(given, Mapping) and name in (given.get("plugin"), given.get("node"))


def _without_keys(part: Mapping[str, Any], kept: Sequence[str]) -> Iterator[dict[str, Any]]:
    for key in part:
        if key not in kept:
            yield {name: value for name, value in part.items() if name != key}


def _simpler_devices(devices: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    for index, device in enumerate(devices):
        yield [*devices[:index], *devices[index + 1 :]]
        for simpler in _without_keys(device, ("id",)):
            yield [*devices[:index], simpler, *devices[index + 1 :]]


def _simpler_steps(step: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    verb, given = next(iter(step.items()))
    match str(verb):
        case "apply":
            yield from ({verb: manifest} for manifest in _simpler_pods(given))
        case "addStaticPod":
            yield from ({verb: {**given, "manifest": manifest}} for manifest in _simpler_pods(given["manifest"]))
        case "listDevices":
            yield from ({verb: {**given, "devices": devices}} for devices in _simpler_devices(given["devices"]))
        case "answerRpc" | "registerPlugin" | "restartKubelet":
            yield from (
                {verb: simpler} for simpler in _without_keys(given, ("plugin", "node", "rpc", "times", "crash"))
            )


def _simpler_pods(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    spec = manifest["spec"]
    for simpler in _without_keys(spec, ("containers",)):
        yield {**manifest, "spec": simpler}
    for key in ("initContainers", "containers"):
        containers = spec.get(key, [])
        for index, container in enumerate(containers):
            if len(containers) > 1:
                yield {**manifest, "spec": {**spec, key: [*containers[:index], *containers[index + 1 :]]}}
            for resource, count in container.get("resources", {}).get("limits", {}).items():
                changed = copy.deepcopy(dict(manifest))
                limits = changed["spec"][key][index]["resources"]["limits"]
                if int(count) > 1:
                    limits[resource] = "1"
                else:
                    del limits[resource]
                yield changed
