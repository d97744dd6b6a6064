"""What no single part of a story can know: names that refer to each other, and names that the world must have.

Yields ``(path, message)`` pairs; `document` adds file, line and column.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from simkubelet.errors import InputError
from simkubelet.pod import pod_from_manifest

from .action import Apply, CreateFile, Delete, Fail, Heal, HeldBy, RemoveFile, RestartKubelet
from .expectation import NodeExpectation, PluginExpectation, PodExpectation
from .model import NodeSpec, Scenario, Step
from .positioned import DataPath

Finding = tuple[DataPath, str]


@dataclass(frozen=True, slots=True)
class Known:
    """The names that the installed parts have: Kubernetes minors and GPU profiles."""

    kubernetes: tuple[str, ...]
    profiles: tuple[str, ...]


def crosscheck(scenario: Scenario, stem: str, known: Known) -> Iterator[Finding]:
    """Find all references of a story that lead nowhere; `stem` is its file's name without the ending."""
    if scenario.name != stem:
        yield ("name",), f"'{scenario.name}' is not the file's name, '{stem}'; rename one of them"
    yield from _repeated("nodes", [node.name for node in scenario.nodes])
    yield from _repeated("plugins", [plugin.name for plugin in scenario.plugins])
    for index, node in enumerate(scenario.nodes):
        yield from _node(node, ("nodes", index), known)
    applied: set[str] = set()
    for index, step in enumerate(scenario.steps):
        yield from _step(step, ("steps", index), scenario, applied)
        if step.apply:
            yield from _pod(step.apply, ("steps", index, "apply"))
            applied.add(step.apply.pod)


def _pod(apply: Apply, path: DataPath) -> Iterator[Finding]:
    try:
        pod_from_manifest(apply.manifest)
    except InputError as error:
        yield path, str(error)


def _repeated(key: str, names: list[str]) -> Iterator[Finding]:
    counts = Counter[str]()
    for index, name in enumerate(names):
        counts[name] += 1
        if counts[name] == 2:
            yield (key, index, "name"), f"'{name}' is taken; names are unique"


def _node(node: NodeSpec, path: DataPath, known: Known) -> Iterator[Finding]:
    if node.kubernetes not in known.kubernetes:
        yield (*path, "kubernetes"), unsupported_minor(node.kubernetes, known.kubernetes)
    if node.gpus and node.gpus.profile not in known.profiles:
        yield (*path, "gpus", "profile"), unknown("GPU profile", node.gpus.profile, known.profiles)


def unsupported_minor(minor: str, supported: tuple[str, ...]) -> str:
    """The complaint about a Kubernetes minor version that the simulated kubelet does not follow."""
    return f"no Kubernetes '{minor}' here; supported are {supported[0]} to {supported[-1]}"


def unknown(what: str, name: str, names: Collection[str]) -> str:
    """The complaint about a name that does not exist, with a guess at what was meant or else all there are."""
    all_there_are = f"; there are: {', '.join(sorted(names)) or 'none'}"
    return f"no {what} '{name}'{_meant(name, names) or all_there_are}"


def _meant(name: str, names: Collection[str]) -> str:
    close = difflib.get_close_matches(name, sorted(names), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _step(step: Step, path: DataPath, scenario: Scenario, applied: set[str]) -> Iterator[Finding]:
    for pod, pod_path in _pods_named(step):
        if pod not in applied:
            yield (*path, *pod_path), f"no step before this one applies a pod '{pod}'{_meant(pod, applied)}"
    nodes = {node.name: node for node in scenario.nodes}
    plugins = {plugin.name for plugin in scenario.plugins}
    match step.expect, step.action:
        case NodeExpectation(node=name), _ if name not in nodes:
            yield (*path, "expect", "node"), unknown("node", name, nodes)
        case PluginExpectation(plugin=name), _ if name not in plugins:
            yield (*path, "expect", "plugin"), unknown("plugin", name, plugins)
        case PluginExpectation(node=name), _ if name is not None and name not in nodes:
            yield (*path, "expect", "node"), unknown("node", name, nodes)
        case PluginExpectation(node=None), _ if len(nodes) > 1:
            yield (*path, "expect"), _which_node(nodes)
        case _, RestartKubelet() | Fail() | Heal() | CreateFile() | RemoveFile() as action:
            yield from _node_action(action, (*path, step.verb), nodes)


def _which_node(nodes: Collection[str]) -> str:
    return f"which node? add 'node: ' and one of {', '.join(nodes)}"


def _node_action(
    action: RestartKubelet | Fail | Heal | CreateFile | RemoveFile, path: DataPath, nodes: dict[str, NodeSpec]
) -> Iterator[Finding]:
    if action.node is None and len(nodes) > 1:
        yield path, _which_node(nodes)
        return
    node = next(iter(nodes.values())) if action.node is None else nodes.get(action.node)
    if node is None:
        yield (*path, "node"), unknown("node", action.node or "", nodes)
    elif isinstance(action, Fail | Heal):
        yield from _gpu(action, (*path, "gpu"), node)


def _gpu(action: Fail | Heal, path: DataPath, node: NodeSpec) -> Iterator[Finding]:
    if node.gpus is None:
        yield path, f"node '{node.name}' has no GPUs; give it some with 'gpus'"
    elif isinstance(action.gpu, int) and action.gpu >= node.gpus.count:
        yield path, f"no GPU {action.gpu}; node '{node.name}' has {node.gpus.count}, counted from 0"


def _pods_named(step: Step) -> Iterable[tuple[str, DataPath]]:
    """The pods that a step takes for granted, each with the path of its name inside the step."""
    match step.expect, step.action:
        case PodExpectation() as expectation, _:
            yield expectation.pod, ("expect", "pod")
            for index, other in enumerate(expectation.shares_no_device_with):
                yield other, ("expect", "sharesNoDeviceWith", index)
        case _, Delete(pod=pod):
            yield pod, ("delete", "pod")
        case _, Fail(gpu=HeldBy(held_by=pod)) | Heal(gpu=HeldBy(held_by=pod)):
            yield pod, (step.verb, "gpu", "heldBy")
        case _, RemoveFile(held_by=str(pod)):
            yield pod, ("removeFile", "heldBy")
