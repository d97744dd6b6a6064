"""What no single part of a story can know: names that refer to each other, and names that the world must have.

Yields ``(path, message)`` pairs; `document` adds file, line and column.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Final

from simkubelet.apis.deviceplugin import DEVICE_PLUGIN_PATH
from simkubelet.model.words import number_of

from .expectations import NodeExpectation, PluginExpectation, PodExpectation
from .expected_values import CheckpointContent
from .model import Scenario, Step
from .part import Action, DataPath, NodeAction, is_met, versions_in
from .specs import NodeSpec, PluginSpec
from .verbs.file_action import AddStaticPod, RemoveFolder, RemoveStaticPod
from .verbs.hardware_action import DeviceAction, NvidiaAction
from .verbs.node_action import RebootNode
from .verbs.plugin_action import AnswerRpc, CallAction, PluginAction, StubAction
from .verbs.pod_action import Apply, MetadataAction

Finding = tuple[DataPath, str]
_MOST_NAMES: Final = 100
_FIELD: Final = re.compile(r"([^.\[\]]+)|\[(?:(\d+)\]|([^\]]+)\])")


@dataclass(frozen=True, slots=True)
class Known:
    """The names that the installed parts have: Kubernetes minors, GPU profiles, feature gates that do something."""

    kubernetes: tuple[str, ...]
    profiles: tuple[str, ...]
    feature_gates: tuple[str, ...]


def crosscheck(scenario: Scenario, stem: str, known: Known) -> Iterator[Finding]:
    """Find all references of a story that lead nowhere; `stem` is its file's name without the endings."""
    if scenario.name != stem:
        yield ("name",), f"'{scenario.name}' is not the file's name, '{stem}'; rename one of them"
    yield from _versions(scenario, known)
    yield from _repeated("nodes", [node.name for node in scenario.nodes])
    yield from _repeated("plugins", [plugin.name for plugin in scenario.plugins])
    if scenario.runtime_config:
        yield from _runtime_config(scenario, known)
    for index, node in enumerate(scenario.nodes):
        yield from _node(node, ("nodes", index), known)
    names = _Names({one.name: one for one in scenario.nodes}, {one.name: one for one in scenario.plugins}, {})
    for index, step in enumerate(scenario.steps):
        for version in versions_in(step.kubernetes or ""):
            yield from _version(version, ("steps", index, "kubernetes"), known)
        yield from _step(step, ("steps", index), names)
        yield from _created_pod(step, ("steps", index), scenario.nodes[0].name, names.applied)
        if isinstance(step.action, Apply) and is_supported(scenario.nodes[0].kubernetes, known.kubernetes):
            yield from _refused_pod(step.action, ("steps", index, step.verb), scenario.nodes[0])


@dataclass(frozen=True, slots=True)
class _Names:
    """What the steps of a story may refer to; `applied` has the containers of the pods of the steps so far."""

    nodes: Mapping[str, NodeSpec]
    plugins: Mapping[str, PluginSpec]
    applied: dict[str, Collection[str]]


def _versions(scenario: Scenario, known: Known) -> Iterator[Finding]:
    for version in versions_in(scenario.kubernetes or ""):
        yield from _version(version, ("kubernetes",), known)
    for index, version in enumerate(scenario.versions or ()):
        found = list(_version(version, ("versions", index), known))
        yield from found
        if not found and scenario.kubernetes is not None and not is_met(scenario.kubernetes, version):
            yield ("versions", index), f"the story is about Kubernetes {scenario.kubernetes} only, not {version}"


def _runtime_config(scenario: Scenario, known: Known) -> Iterator[Finding]:
    """What a real API server of one of the story's versions would not start with, and what nobody would notice."""
    # Imported here: few stories say anything of it.
    from simkubelet.cluster import runtime_config_faults
    from simkubelet.model.version import version

    if not any(plugin.uses_api for plugin in scenario.plugins):
        yield ("runtimeConfig",), "no plugin of the story asks the API server; add 'api: true' to one that does"
    for release in scenario.versions or (scenario.nodes[0].kubernetes,):
        if is_supported(release, known.kubernetes):
            for key, fault in runtime_config_faults(scenario.runtime_config, version(release)):
                yield ("runtimeConfig", key), f"{fault} (Kubernetes {release})"


def _created_pod(step: Step, path: DataPath, first_node: str, applied: dict[str, Collection[str]]) -> Iterator[Finding]:
    """Note the pod that a step creates, and check a step that removes a static one, which goes by its node's name."""
    match step.action:
        case Apply() as apply:
            applied[apply.pod] = apply.containers
        case AddStaticPod(manifest=manifest, node=node):
            applied[f"{manifest.pod}-{node or first_node}"] = manifest.containers
        case RemoveStaticPod(pod=pod, node=node) if f"{pod}-{node or first_node}" not in applied:
            yield (*path, step.verb, "pod"), f"no step before this one adds a static pod '{pod}' to the node"


def _refused_pod(apply: Apply, path: DataPath, node: NodeSpec) -> Iterator[Finding]:
    """What the API server refuses of a pod, at the place in the story that has most of the field's path."""
    # Imported here: the rules of an API server are slow to load.
    from simkubelet.cluster import pod_refusals, server_rules
    from simkubelet.model.errors import InputError
    from simkubelet.model.version import version

    try:
        refusals = pod_refusals(apply.manifest, server_rules(version(node.kubernetes), node.feature_gates))
    except InputError:
        # It cannot be decoded, of which there is a complaint.
        return
    for error in refusals:
        found: Any = apply.manifest
        where, names = path, _FIELD.findall(error.path)
        for name, index, key in names:
            part: str | int = int(index) if index else name or key
            try:
                found = found[part]
            except (KeyError, IndexError, TypeError):
                break
            where = (*where, part)
        yield where, error.body if len(where) == len(path) + len(names) else str(error)


def _repeated(key: str, names: list[str]) -> Iterator[Finding]:
    counts = Counter[str]()
    for index, name in enumerate(names):
        counts[name] += 1
        if counts[name] == 2:
            yield (key, index, "name"), f"'{name}' is taken; names are unique"


def _node(node: NodeSpec, path: DataPath, known: Known) -> Iterator[Finding]:
    yield from _version(node.kubernetes, (*path, "kubernetes"), known)
    if node.gpus and node.gpus.profile not in known.profiles:
        yield (*path, "gpus", "profile"), unknown("GPU profile", node.gpus.profile, known.profiles)
    if node.gpus and len(node.gpus.mig) > node.gpus.count:
        yield (
            (*path, "gpus", "mig"),
            f"divides {number_of(len(node.gpus.mig), 'GPU')}; node '{node.name}' has {node.gpus.count}",
        )
    for gate in node.feature_gates:
        if gate not in known.feature_gates:
            yield (*path, "featureGates", gate), unknown("feature gate", gate, known.feature_gates)


def _version(version: str, path: DataPath, known: Known) -> Iterator[Finding]:
    if not is_supported(version, known.kubernetes):
        yield path, unsupported(version, known.kubernetes)


def is_supported(version: str, minors: tuple[str, ...]) -> bool:
    """Whether a version is one of some minors or a patch of one."""
    minor, dot, patch = version.rpartition(".")
    return version in minors or (minor in minors and bool(dot) and patch.isascii() and patch.isdecimal())


def unsupported(version: str, minors: tuple[str, ...]) -> str:
    """The complaint about a Kubernetes version that the simulated kubelet does not follow."""
    return f"no Kubernetes '{version}' here; supported are {minors[0]} to {minors[-1]}"


def unknown(what: str, name: str, names: Collection[str]) -> str:
    """The complaint about a name that does not exist, with a guess at what was meant or else all there are."""
    return f"no {what} '{name}'{_meant(name, names) or f'; there are: {listed(sorted(names))}'}"


def listed(names: Iterable[str]) -> str:
    """Names with commas, of many only the first."""
    shown = list(islice(names, _MOST_NAMES + 1))
    return f"{', '.join(shown[:_MOST_NAMES])}{', …' if len(shown) > _MOST_NAMES else ''}" or "none"


def _meant(name: str, names: Collection[str]) -> str:
    """A guess at what was meant; none where there are so many names that a mistake in each line would take long."""
    close = difflib.get_close_matches(name, sorted(names), n=1) if len(names) <= _MOST_NAMES else ()
    return f"; did you mean '{close[0]}'?" if close else ""


def _step(step: Step, path: DataPath, names: _Names) -> Iterator[Finding]:
    nodes, plugins, applied = names.nodes, names.plugins, names.applied
    for pod, pod_path in _pods_named(step):
        if pod not in applied:
            yield (*path, *pod_path), f"no step before this one applies a pod '{pod}'{_meant(pod, applied)}"
    match step.expect, step.action:
        case NodeExpectation(node=name), _ if name not in nodes:
            yield (*path, "expect", "node"), unknown("node", name, nodes)
        case PluginExpectation(plugin=name), _ if name not in plugins:
            yield (*path, "expect", "plugin"), unknown("plugin", name, plugins)
        case PluginExpectation(node=name), _ if name is not None and name not in nodes:
            yield (*path, "expect", "node"), unknown("node", name, nodes)
        case PluginExpectation(node=None), _ if len(nodes) > 1:
            yield (*path, "expect"), _which_node(nodes)
        case PluginExpectation() as wanted, _:
            yield from _seen_calls(wanted, plugins[wanted.plugin], (*path, "expect"))
        case PodExpectation(pod=pod, containers=named), _ if pod in applied:
            for name in set(named) - set(applied[pod]):
                its_own = _meant(name, applied[pod]) or f"; it has {listed(applied[pod])}"
                yield (*path, "expect", "containers", name), f"pod '{pod}' has no container '{name}'{its_own}"
        case _, MetadataAction(node=str(name)) if name not in nodes:
            yield (*path, step.verb, "node"), unknown("node", name, nodes)
        case _, PluginAction(plugin=name) as action if name not in plugins:
            yield (*path, step.verb, "plugin"), unknown("plugin", name, plugins)
        case _, StubAction(plugin=name) if not plugins[name].is_stub:
            yield (*path, step.verb), f"plugin '{name}' is no 'builtin: stub'; only the stub takes this verb"
        case _, CallAction(plugin=name) as action if not plugins[name].reports_calls:
            yield (*path, step.verb), f"plugin '{name}' has no tap; add 'tap: true' to it"
        case _, AnswerRpc(plugin=name, crash=True) if plugins[name].tap:
            yield (*path, step.verb, "crash"), f"only a stub can crash, and plugin '{name}' has a tap in front of it"
        case _, CallAction(plugin=name, needs_tap=True) if not plugins[name].tap:
            yield (*path, step.verb), f"that takes a tap, which plugin '{name}' does not have; add 'tap: true' to it"
        case _, NodeAction() as action:
            yield from _node_action(action, (*path, step.verb), nodes)
            if isinstance(action, RebootNode):
                yield from _rebooted_plugins(action, (*path, step.verb, "plugins"), plugins)
            elif isinstance(action, RemoveFolder):
                yield from _folder_of_taps(action, (*path, step.verb, "path"), plugins.values())


_THROUGH_A_TAP: Final = {
    "connections": "connections",
    "contract": "messages",
    "options": "options",
    "sockets": "sockets",
}
"""What is expected of a plugin -> what a tap has to know for it."""


def _seen_calls(wanted: PluginExpectation, plugin: PluginSpec, path: DataPath) -> Iterator[Finding]:
    if wanted.expected & {"calls", "call_log", "refusal"} and not plugin.reports_calls:
        yield path, f"the calls of plugin '{plugin.name}' are not recorded; add 'tap: true' to it"
    for key, what in _THROUGH_A_TAP.items():
        if key in wanted.expected and not plugin.tap:
            yield (*path, key), f"the {what} of plugin '{plugin.name}' are not known; add 'tap: true' to it"


def _rebooted_plugins(action: RebootNode, path: DataPath, plugins: Collection[str]) -> Iterator[Finding]:
    for index, name in enumerate(action.plugins or ()):
        if name not in plugins:
            yield (*path, index), unknown("plugin", name, plugins)


def _folder_of_taps(action: RemoveFolder, path: DataPath, plugins: Iterable[PluginSpec]) -> Iterator[Finding]:
    tapped = next((plugin.name for plugin in plugins if plugin.tap), None)
    if tapped is not None and PurePosixPath(DEVICE_PLUGIN_PATH).is_relative_to(action.path):
        yield path, f"the tap of plugin '{tapped}' would not find the folder again; take 'tap: true' from it"


def _which_node(nodes: Collection[str]) -> str:
    return f"which node? add 'node: ' and one of {listed(nodes)}"


def _node_action(action: NodeAction, path: DataPath, nodes: Mapping[str, NodeSpec]) -> Iterator[Finding]:
    if action.node is None and len(nodes) > 1:
        yield path, _which_node(nodes)
        return
    node = next(iter(nodes.values())) if action.node is None else nodes.get(action.node)
    if node is None:
        yield (*path, "node"), unknown("node", action.node or "", nodes)
    elif isinstance(action, NvidiaAction):
        yield from _gpu(action, (*path, "gpu"), node)
    elif isinstance(action, DeviceAction) and node.amd is None and node.iluvatar is None:
        yield (*path, "device"), f"node '{node.name}' has no such devices; give it some with 'amd' or 'iluvatar'"


def _gpu(action: NvidiaAction, path: DataPath, node: NodeSpec) -> Iterator[Finding]:
    gpu = getattr(action, "gpu", None)
    if node.gpus is None:
        yield path if gpu is not None else path[:-1], f"node '{node.name}' has no GPUs; give it some with 'gpus'"
    elif isinstance(gpu, int) and gpu >= node.gpus.count:
        yield path, f"no GPU {gpu}; node '{node.name}' has {node.gpus.count}, counted from 0"


def _pods_named(step: Step) -> Iterable[tuple[str, DataPath]]:
    """The pods that a step takes for granted, each with the path of its name inside the step."""
    match step.expect, step.action:
        case PodExpectation() as expectation, _:
            yield expectation.pod, ("expect", "pod")
            for index, other in enumerate(expectation.shares_no_device_with):
                yield other, ("expect", "sharesNoDeviceWith", index)
        case NodeExpectation(checkpoint=CheckpointContent(pods=pods)), _:
            for pod in pods:
                yield pod, ("expect", "checkpoint", "pods", pod)
        case None, Action() as action:
            for pod, path in action.pods_named:
                yield pod, (step.verb, *path)
