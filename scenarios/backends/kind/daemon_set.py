"""A plugin on one node of a cluster: its DaemonSet, and what has been reported about it.

Its container sees the plugin folder, the machine and the node's files. A bundled plugin is given these paths as
options. A program of the user's has a node's paths built in, so its container has everything at the same path as a
node. A plugin that talks to the API server has a service account.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from simkubelet.apis.pluginregistration import PLUGINS_REGISTRY_PATH
from simkubelet.host import module_name

from ...story.specs import PluginSpec
from ...story.stub_spec import Serves
from ...tap.tap import FOUND
from ...trace.events import PluginExited, PluginStarted
from ...trace.snapshot import PluginState, PluginView
from ...trace.trace import Trace
from ..world.marked_processes import MARK
from ..world.plugin_reports import CallLog
from ..world.plugins import stub_options
from .api import ClusterApi, Object
from .image import PluginImage
from .node import PLACE, PLUGIN_FOLDER, TAPS, KindNode
from .program import PROGRAMS, Program

LABELS: Final = {"app.kubernetes.io/managed-by": "simkubelet"}
SELECTED: Final = "labelSelector=" + ",".join(f"{key}={value}" for key, value in LABELS.items())
"""The query of a call that is about objects with these labels."""
ACCOUNT: Final = "simkubelet-plugins"
"""The service account of plugins that talk to the API server."""
NODE_LABEL: Final = "simkubelet.plugin/"
"""With the plugin's name behind it: the label of a node, by its name in the story, while the plugin runs there."""
_NODE_NAME: Final = [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
_HOST: Final = "/host"
_CDI_SPECS: Final = "/run/cdi"
"""Where plugins write CDI specifications."""
_OF_DRIVERS: Final = "/var/lib/kubelet/plugins"
"""Where DRA drivers have their own folders."""
WRITTEN_BY_PROGRAMS: Final = (_OF_DRIVERS, PLUGINS_REGISTRY_PATH, _CDI_SPECS)
"""Folders of a node in which programs leave files and sockets, also when they end well."""
_PCI_DEVICES: Final = "/sys/bus/pci/devices"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a plugin runs.

    Attributes:
        node: The story's name of the node.
        environment: What its machine gives to a process; empty where it has no GPUs of NVIDIA.
        files: The story's files on the node, path -> content.
        has_machine: Whether it has fake GPUs of any vendor.
    """

    node: str
    environment: Mapping[str, str]
    files: Mapping[str, str]
    has_machine: bool


def daemon_set(spec: PluginSpec, place: Place, image: PluginImage, program: Program | None) -> dict[str, Any]:
    """Describe it.

    Args:
        spec: The plugin.
        place: Where it runs.
        image: What it runs in.
        program: What runs instead of a bundled plugin.
    """
    labels = {**LABELS, "plugin": spec.name, "node": place.node}
    env = {**image.environment, **place.environment, **spec.env, MARK: mark_of(spec.name)}
    mounts = {PLACE: PLACE, PLUGIN_FOLDER: f"{TAPS}/{spec.name}" if spec.tap else PLUGIN_FOLDER}
    if program is None and spec.serves is not None and spec.serves.registers.is_found:
        mounts[PLUGINS_REGISTRY_PATH] = PLUGINS_REGISTRY_PATH
    mounts |= _paths_of_options(place) if program is None else _built_in_places(place, program)
    if spec.tap:
        mounts[PLUGINS_REGISTRY_PATH] = f"{TAPS}/{spec.name}{FOUND}"
    container = {
        "name": "plugin",
        "image": image.reference,
        "imagePullPolicy": "Never",
        "command": _bundled_command(spec, image) if program is None else program.argv,
        "env": [{"name": key, "value": value} for key, value in env.items()] + (_NODE_NAME if spec.uses_api else []),
        "volumeMounts": [{"name": f"v{index}", "mountPath": inside} for index, inside in enumerate(mounts)],
    }
    pod = {
        "nodeSelector": {NODE_LABEL + spec.name: place.node},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 5,
        "automountServiceAccountToken": spec.uses_api,
        **({"serviceAccountName": ACCOUNT} if spec.uses_api else {}),
        "containers": [container],
        "volumes": [{"name": f"v{index}", "hostPath": {"path": path}} for index, path in enumerate(mounts.values())],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": f"{spec.name}.{place.node}", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def mark_of(plugin: str) -> str:
    """By what a plugin's processes are found on a node."""
    return f"plugin/{plugin}"


def _paths_of_options(place: Place) -> dict[str, str]:
    """What is mounted for a bundled plugin: path in the container -> path on the node.

    On a node ``/var/run`` is a link to ``/run``, which leads out of ``/host``. A file with something in it is a
    plugin's own affair, no device file below the host's root.
    """
    parts = ("sys", "proc") if place.environment else ("sys",) if place.has_machine else ()
    configured = {str(PurePosixPath(path).parent) for path, content in place.files.items() if content}
    return {
        _HOST: "/",
        **{f"{_HOST}/{part}": f"{PLACE}/machine/{part}" for part in parts},
        **({_CDI_SPECS: _CDI_SPECS} if place.environment else {}),
        **{folder: folder for folder in sorted(configured)},
    }


def _built_in_places(place: Place, program: Program) -> dict[str, str]:
    """What is mounted for a program that knows a node's paths: path in the container -> path on the node."""
    carried = {str(path): f"{PROGRAMS}{path}" for path in sorted(program.files)}
    folders = {str(PurePosixPath(path).parent) for path in place.files}
    devices = {_PCI_DEVICES: f"{PLACE}/machine{_PCI_DEVICES}"} if place.has_machine else {}
    shared = {_OF_DRIVERS: _OF_DRIVERS, PLUGINS_REGISTRY_PATH: PLUGINS_REGISTRY_PATH, f"/var{_CDI_SPECS}": _CDI_SPECS}
    return {**carried, **devices, **shared, **{folder: folder for folder in sorted(folders)}}


def _bundled_command(spec: PluginSpec, image: PluginImage) -> Sequence[str]:
    program = [image.python, "-P", "-m", module_name("plugin"), spec.builtin or ""]
    settings = stub_options(spec.name, spec.serves or Serves()) if spec.is_stub else []
    argv = [*program, "--kubelet-dir", PLUGIN_FOLDER, "--host-root", _HOST, *settings, *spec.builtin_args]
    if spec.is_stub:
        return ["/bin/sh", "-c", f'exec "$@" <>{PLACE}/{spec.name}.in >>{PLACE}/{spec.name}.out', "sh", *argv]
    return argv


_RBAC: Final = "rbac.authorization.k8s.io/v1"
_RULES: Final = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch", "update", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["get", "update", "patch"]},
]


async def add_account(api: ClusterApi, namespace: str) -> None:
    """Make the account, and let it read and change nodes and pods.

    Raises:
        HostError: The cluster does not do it.
    """
    metadata = {"name": ACCOUNT, "labels": LABELS}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
    objects: tuple[tuple[str, str, dict[str, Any]], ...] = (
        (f"namespaces/{namespace}/serviceaccounts", "v1", {"kind": "ServiceAccount"}),
        ("clusterroles", _RBAC, {"kind": "ClusterRole", "rules": _RULES}),
        ("clusterrolebindings", _RBAC, {"kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": role}),
    )
    for url, group, body in objects:
        await api.call("POST", url, {"apiVersion": group, "metadata": metadata, **body}, group=group)


async def remove_account(api: ClusterApi, namespace: str) -> None:
    """Remove what `add_account` made, if it exists."""
    await api.call("DELETE", f"clusterrolebindings?{SELECTED}", group=_RBAC)
    await api.call("DELETE", f"clusterroles?{SELECTED}", group=_RBAC)
    await api.call("DELETE", f"namespaces/{namespace}/serviceaccounts?{SELECTED}")


class PluginOnNode:
    """Starts and ends of a plugin, as its pod shows them, and its calls, by a stub or a tap.

    Args:
        spec: The plugin.
        node: Where it runs.
        reports_registrations: Whether it reports its registrations itself.
        trace: Gets what happens.

    Attributes:
        is_wanted: Whether the story wants it to run.
        registrations: How often it has registered.
    """

    def __init__(self, spec: PluginSpec, node: KindNode, reports_registrations: bool, trace: Trace) -> None:
        self.spec = spec
        self.node = node
        self.reports_registrations = reports_registrations
        self.is_wanted = spec.start == "with-node"
        self.registrations = 0
        self._trace = trace
        self._starts = 0
        self._ended = 0
        self._pod = ""
        self._earlier_pods: set[str] = set()
        self._starts_before = 0
        self._state = PluginState.STOPPED
        self._call_log = CallLog(spec.name, node.name, trace)

    @property
    def view(self) -> PluginView:
        """For the story's observations."""
        restarts = max(self._starts - 1, 0)
        calls = self._call_log.view_fields
        return PluginView(self.spec.name, self.node.name, self._state, restarts, self.registrations, **calls)

    @property
    def has_ended(self) -> bool:
        """Whether no process of it is known to run."""
        return self._ended == self._starts

    @property
    def mark(self) -> str:
        """By what its processes are found."""
        return mark_of(self.spec.name)

    def seen_pod(self, pod: Object, is_there: bool) -> None:
        """Take what its pod reports."""
        statuses = pod.get("status", {}).get("containerStatuses", ())
        uid = pod["metadata"]["uid"]
        if uid != self._pod:
            # An earlier one may still be ending beside its successor.
            if not statuses or not is_there or uid in self._earlier_pods:
                return
            self._earlier_pods.add(self._pod)
            self._pod, self._starts_before = uid, self._starts
        if not is_there:
            self._state = PluginState.STOPPED
            self._end(None)
        elif not statuses:
            # A pod that its node rejects after a reboot has none any more.
            self._state = PluginState.STOPPED
            self._end({"exitCode": 137})
        else:
            self._seen_container(statuses[0])

    def seen_report(self, report: Mapping[str, Any]) -> None:
        """Take what a stub or a tap reports about calls."""
        self.registrations += self._call_log.take(report) and self.reports_registrations

    def _seen_container(self, status: Mapping[str, Any]) -> None:
        state, last = status["state"], status.get("lastState", {})
        terminated = state.get("terminated") or last.get("terminated")
        has_begun = "waiting" not in state or bool(last)
        while self._starts < self._starts_before + status["restartCount"] + has_begun:
            self._end(terminated)
            self._starts += 1
            self._trace.append(PluginStarted(self.spec.name, self.node.name, self._starts))
        if "running" in state:
            self._state = PluginState.RUNNING
        else:
            self._state = PluginState.WAITING
            self._end(terminated)

    def _end(self, terminated: Mapping[str, Any] | None) -> None:
        while self._ended < self._starts:
            self._ended += 1
            status = _status(terminated) if terminated else 0
            self._trace.append(PluginExited(self.spec.name, self.node.name, status, ""))


def _status(terminated: Mapping[str, Any]) -> int:
    """How a process ended, negative for a signal; of one that went with its node the runtime knows nothing."""
    if terminated.get("reason") in ("Unknown", "ContainerStatusUnknown"):
        return -signal.SIGKILL
    code: int = terminated["exitCode"]
    return 128 - code if code > 128 else code
