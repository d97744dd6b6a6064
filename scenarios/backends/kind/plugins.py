"""A story's plugins on a cluster: DaemonSets, kept from a node by a label, observed by its pods.

A plugin has a DaemonSet for each node, since nodes differ in their machines. It selects the node by a label of the
plugin, so starting a plugin on a node is labelling it and stopping is taking the label away. A plugin's process is the
first of its container, so the kubelet is its supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from simkubelet.model.errors import HostError, InputError, PluginError
from simkubelet.model.events import (
    DevicesListed,
    DriverConnected,
    DriverDisconnected,
    DriverReconnected,
    PluginRegistered,
    driver_endpoint,
)

from ...story.specs import PluginSpec
from ...story.stub_spec import Serves
from ...story.verbs.plugin_action import (
    CallAction,
    CommandAction,
    KillPlugin,
    PausePlugin,
    PluginAction,
    ResumePlugin,
    SignalPlugin,
    StartPlugin,
    StopPlugin,
)
from ...trace.events import PluginPaused, PluginResumed, PluginSignalled
from ...trace.snapshot import PluginView
from ...trace.trace import Trace
from .api import ClusterApi, Object
from .daemon_set import LABELS, NODE_LABEL, SELECTED, Place, PluginOnNode, add_account, daemon_set, remove_account
from .image import PluginImage
from .node import KindNode, until
from .program import Program, archive_of

NAMESPACE: Final = "kube-system"
"""Where plugins live on most clusters. One of our own would take at least five seconds to go.

Source of the five: namespaceDeletionGracePeriod, pkg/controller/namespace/namespace_controller.go (kubernetes v1.34.4).
"""
_DOMAINS: Final = {
    "amd": "amd.com",
    "gopher": "lixueduan.com",
    "gpu-memory": "doslab.io",
    "gpushare": "aliyun.com",
    "iluvatar": "iluvatar.com",
    "nvidia": "nvidia.com",
    "volcano": "volcano.sh",
}
"""Bundled plugin -> domain of the resources that it serves, however many they are."""
_CONNECTED: Final = re.compile(r'"Connected to new client" resource="([^"]*)"')
_LISTED: Final = re.compile(
    r'"Processed device updates for resource" resourceName="([^"]*)" totalCount=(\d+) healthyCount=(\d+)'
)
"""Source of both: devicemanager/plugin/v1beta1/handler.go and manager.go (kubernetes v1.34.4), at level 2."""
_CONNECTION: Final = re.compile(r'"Connection changed".* driverName="([^"]*)" endpoint="([^"]*)" connected=(\w+)')
"""Source: cm/dra/plugin/dra_plugin_manager.go, ``HandleConn`` (kubernetes v1.34.4), at level 2."""
_DRIVER: Final = re.compile(r'"(Registered|Unregistered) DRA plugin".* driverName="[^"]*" endpoint="([^"]*)"')
"""Source: the same, ``add``, ``remove``, at level 3."""
_TAKES_WITHIN_S: Final = 30.0


class KindPlugins:
    """Every plugin once on each node.

    Args:
        specs: The story's plugins.
        programs: Plugin -> its program, for those that are not bundled.
        image: What they run in.
        trace: Gets what happens.
    """

    def __init__(
        self, specs: tuple[PluginSpec, ...], programs: Mapping[str, Program], image: PluginImage, trace: Trace
    ) -> None:
        self._specs = specs
        self._programs = programs
        self._image = image
        self._trace = trace
        self._on_nodes: dict[tuple[str, str], PluginOnNode] = {}
        self._counting: set[asyncio.Task[None]] = set()
        self._new: set[tuple[str, str]] = set()
        """Nodes and endpoints of drivers that the kubelet has not been connected to since they have registered."""
        self._ours: set[tuple[str, str]] = set()
        """Those of the story's drivers."""
        self._connected: set[tuple[str, str]] = set()

    @property
    def are_programs(self) -> bool:
        """Whether one of them is not bundled."""
        return bool(self._programs)

    @property
    def views(self) -> tuple[PluginView, ...]:
        """What is known of each."""
        return tuple(one.view for one in self._on_nodes.values())

    async def start(self, api: ClusterApi, nodes: Mapping[str, KindNode], places: Sequence[Place]) -> None:
        """Make the DaemonSets and label the nodes.

        Args:
            api: Of the cluster.
            nodes: Its nodes, by the story's names.
            places: What plugins find on each.

        Raises:
            HostError: The cluster does not do it.
        """
        self._api = api
        if any(spec.uses_api for spec in self._specs):
            await add_account(api, NAMESPACE)
        for place in places:
            node = nodes[place.node]
            if self._programs:
                await node.put(archive_of(self._programs.values()))
            for spec in self._specs:
                program = self._programs.get(spec.name)
                one = PluginOnNode(spec, node, spec.is_stub and program is None, self._trace)
                self._on_nodes[node.name, spec.name] = one
                if spec.tap:
                    await node.ask("add_tap", plugin=spec.name)
                if one.reports_registrations:
                    await node.ask("add_stub", plugin=spec.name)
                made = daemon_set(spec, place, self._image, program)
                await api.call("POST", f"namespaces/{NAMESPACE}/daemonsets", made, group="apps/v1")
        for one in self._on_nodes.values():
            if one.is_wanted:
                await self._label(one, is_on=True)

    async def remove(self, api: ClusterApi, nodes: Collection[KindNode]) -> None:
        """Let no plugin run: take the labels away, then the DaemonSets and their pods."""
        for task in self._counting:
            task.cancel()
        for node in nodes:
            labels = {NODE_LABEL + spec.name: None for spec in self._specs}
            await api.call("PATCH", f"nodes/{node.container}", {"metadata": {"labels": labels}})
        await api.call("DELETE", f"namespaces/{NAMESPACE}/daemonsets?{SELECTED}", group="apps/v1")
        await api.call("DELETE", f"namespaces/{NAMESPACE}/pods?{SELECTED}")
        if any(spec.uses_api for spec in self._specs):
            await remove_account(api, NAMESPACE)

    async def perform(self, action: PluginAction, node: str) -> None:
        """Do what a step says to a plugin of a node.

        Raises:
            InputError: The plugin is not in the state for it.
        """
        one = self._on_nodes[node, action.plugin]
        match action:
            case StartPlugin():
                await self.switch_on(node, [action.plugin])
            case StopPlugin():
                if not one.is_wanted:
                    raise InputError(f"plugin '{one.spec.name}' does not run; start it first")
                await self._stop(one, at_once=action.signal == "KILL")
            case KillPlugin():
                await self._signal(one, signal.SIGKILL)
            case PausePlugin():
                await self._signal(one, signal.SIGSTOP)
                self._trace.append(PluginPaused(one.spec.name, node))
            case ResumePlugin():
                await self._signal(one, signal.SIGCONT)
                self._trace.append(PluginResumed(one.spec.name, node))
            case SignalPlugin(signal=name):
                self._trace.append(PluginSignalled(one.spec.name, node, name))
                await self._signal(one, signal.Signals[f"SIG{name}"], do="signal_first")
            case CallAction() if one.spec.tap:
                await one.node.ask("command_tap", plugin=action.plugin, command=action.command)
            case CommandAction():
                await self._command_stub(one, action.command)

    async def switch_off(self, node: str) -> tuple[str, ...]:
        """Let no plugin of a node be started again; the names of those that ran, in the story's order."""
        running = [one for (where, _), one in self._on_nodes.items() if where == node and one.is_wanted]
        for one in running:
            await self._switch_off(one)
        return tuple(one.spec.name for one in running)

    async def switch_on(self, node: str, names: tuple[str, ...] | list[str]) -> None:
        """Start plugins of a node, one after the other.

        Raises:
            InputError: One runs already.
        """
        for name in names:
            one = self._on_nodes[node, name]
            if one.is_wanted:
                raise InputError(f"plugin '{name}' runs already; stop it first")
            one.is_wanted = True
            await self._label(one, is_on=True)

    def seen_pod(self, pod: Object, is_there: bool) -> None:
        """Take what a plugin's pod reports."""
        labels = pod["metadata"].get("labels", {})
        one = self._on_nodes.get((labels.get("node", ""), labels.get("plugin", "")))
        if one is not None and LABELS.items() <= labels.items():
            one.seen_pod(pod, is_there)

    def seen_line(self, plugin: str, node: str, line: str) -> None:
        """Take a line that a stub wrote; a tap reports the same in its place."""
        if not self._on_nodes[node, plugin].spec.tap:
            self.seen_report(plugin, node, json.loads(line))

    def seen_report(self, plugin: str, node: str, report: Mapping[str, Any]) -> None:
        """Take what a stub or a tap reports about calls."""
        self._on_nodes[node, plugin].seen_report(report)

    def seen_journal(self, node: str, line: str) -> None:
        """Take a line of a kubelet's log: a registration, a connection, or a list of devices that has come."""
        if found := _CONNECTED.search(line):
            self._seen_registration(node, found.group(1))
        elif found := _LISTED.search(line):
            total, healthy = int(found.group(2)), int(found.group(3))
            # The log has numbers, not names.
            ids = tuple(f"#{number}" for number in range(total))
            self._trace.append(DevicesListed(node, found.group(1), ids[:healthy], ids[healthy:]))
        elif found := _DRIVER.search(line):
            (self._new.add if found.group(1) == "Registered" else self._new.discard)(
                (node, driver_endpoint(found.group(2)))
            )
        elif found := _CONNECTION.search(line):
            self._seen_connection(node, found.group(1), driver_endpoint(found.group(2)), found.group(3) == "true")

    def _seen_connection(self, node: str, driver: str, endpoint: str, is_connected: bool) -> None:
        place = node, endpoint
        if is_connected and place in self._new:
            self._new.discard(place)
            task = asyncio.create_task(self._count_driver(node, driver, endpoint))
            self._counting.add(task)
            task.add_done_callback(self._counting.discard)
        elif is_connected and place in self._ours:
            self._connected.add(place)
            self._trace.append(DriverReconnected(node, driver, endpoint))
        elif not is_connected and place in self._connected:
            self._connected.discard(place)
            self._trace.append(DriverDisconnected(node, driver, endpoint))

    async def _count_driver(self, node: str, driver: str, endpoint: str) -> None:
        """Count a driver's registration for the plugin that listens there; the log does not name it.

        Drivers of others do not concern the story.
        """
        here = {one.mark: one for (where, _), one in self._on_nodes.items() if where == node}
        agents = [one.node for one in here.values()]
        # Without an agent the story ends, for this or another reason.
        with contextlib.suppress(HostError):
            marks = await agents[0].ask("listeners", marks=list(here), socket=endpoint) if agents else ()
            for mark in marks:
                here[mark].registrations += 1
            if marks:
                self._ours.add((node, endpoint))
                self._connected.add((node, endpoint))
                self._trace.append(DriverConnected(node, driver, endpoint))

    def _seen_registration(self, node: str, resource: str) -> None:
        here = [one for (where, _), one in self._on_nodes.items() if where == node]
        # The log does not tell who registers: a resource that no other plugin serves is the unknown program's.
        known = {one.spec.name for one in here if self._serves(one.spec, resource)}
        for one in here:
            if not one.reports_registrations and (
                one.spec.name in known if known else self._serves(one.spec, resource) is None
            ):
                one.registrations += 1
        self._trace.append(PluginRegistered(node, resource, ""))

    def _serves(self, spec: PluginSpec, resource: str) -> bool | None:
        """Whether a plugin serves a resource, None where only its program knows."""
        if spec.is_stub:
            return (spec.serves or Serves()).resource == resource
        domain = _DOMAINS.get(spec.builtin or "")
        return None if domain is None else resource.partition("/")[0] == domain

    async def _stop(self, one: PluginOnNode, at_once: bool) -> None:
        """End a plugin; return when the cluster has reported its end.

        The kubelet sends SIGTERM: it starts a plugin again that ends before the kubelet has seen its pod go. A plugin
        that is to be killed is held until then, as it would end by that signal.
        """
        if at_once:
            await one.node.ask("signal", mark=one.mark, number=int(signal.SIGSTOP))
        await self._switch_off(one)
        if at_once:
            await one.node.ask("signal", mark=one.mark, number=int(signal.SIGKILL))

        async def has_ended() -> bool:
            return one.has_ended

        complaint = f"plugin '{one.spec.name}' on node '{one.node.name}' does not end"
        await until(has_ended, _TAKES_WITHIN_S, complaint)

    async def _switch_off(self, one: PluginOnNode) -> None:
        """Keep a plugin from its node; returns when its pod is being deleted, so that no kubelet starts it again.

        The controller deletes it: it would replace a pod that goes before it has seen the label go.
        """
        await self._label(one, is_on=False)
        one.is_wanted = False
        url = f"namespaces/{NAMESPACE}/pods?{SELECTED},plugin={one.spec.name},node={one.node.name}"

        async def is_being_deleted() -> bool:
            pods = (await self._api.call("GET", url))["items"]
            return all("deletionTimestamp" in pod["metadata"] for pod in pods)

        complaint = f"the cluster does not take plugin '{one.spec.name}' from node '{one.node.name}'"
        await until(is_being_deleted, _TAKES_WITHIN_S, complaint)

    async def _signal(self, one: PluginOnNode, number: signal.Signals, do: str = "signal") -> None:
        if not one.is_wanted or not await one.node.ask(do, mark=one.mark, number=int(number)):
            raise InputError(f"plugin '{one.spec.name}' does not run; start it first")

    async def _command_stub(self, one: PluginOnNode, command: Mapping[str, Any]) -> None:
        complaint = f"plugin '{one.spec.name}' does not take the command {command['command']}"

        async def takes_it() -> bool:
            try:
                await one.node.ask("command_stub", plugin=one.spec.name, line=json.dumps(command))
            except InputError:
                # A process that is being started does not read yet.
                if not one.is_wanted:
                    raise PluginError(complaint) from None
                return False
            return True

        await until(takes_it, _TAKES_WITHIN_S, complaint)

    async def _label(self, one: PluginOnNode, is_on: bool) -> None:
        labels = {NODE_LABEL + one.spec.name: one.node.name if is_on else None}
        await self._api.call("PATCH", f"nodes/{one.node.container}", {"metadata": {"labels": labels}})
