"""The plugin processes of a simulated world: how each is run, and what the story's verbs do to it.

A bundled plugin is given the node's places as options. A foreign one has a node's paths built in, so it runs in a view
of the node (`sandbox`). So does a bundled one that looks for what only a mount can be: files of its own, and
character devices on a node whose containers are processes.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simkubelet.apis.deviceplugin import DEVICE_PLUGIN_PATH
from simkubelet.apis.pluginregistration import PLUGINS_REGISTRY_PATH
from simkubelet.host import check_sandbox, python_path, sandboxed, tied_to_parent
from simkubelet.model.clock import Clock
from simkubelet.model.errors import HostError, InputError
from simkubelet.model.events import DriverConnected, PluginRegistered, PluginSocketFound

from ...story.specs import DRIVER_ROOT, NodeSpec, PluginSpec, Runtime
from ...story.stub_spec import Serves, devices_in_full
from ...story.verbs.plugin_action import (
    CallAction,
    CommandAction,
    KillPlugin,
    MeasurePlugin,
    PausePlugin,
    PluginAction,
    ResumePlugin,
    SignalPlugin,
    StartPlugin,
    StopPlugin,
)
from ...tap.tap import Tap
from ...trace.snapshot import PluginView
from ...trace.trace import Record
from .child import PluginCommand, Spawn, spawn_process
from .marked_processes import MARK
from .node import SimNode
from .plugin_forks import bundled_program
from .plugin_process import PluginProcess
from .stub_task import spawn_task

if TYPE_CHECKING:
    from fakegpu import Machine


_CDI: Final = "/run/cdi"
_CREDENTIAL: Final = re.compile(
    r"KUBE(CTL)?_?CONFIG(_PATHS?)?|KUBERNETES_(SERVICE|PORT)(_.*)?|SSH_AUTH_SOCK|DOCKER_AUTH_CONFIG"
    r"|.*(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|(_|SSH|PG)PASS|_PWD|CREDENTIAL|JWT|_PAT|_AUTH|CONNECTION_STRING"
    r"|(API|ACCESS|SECRET|PRIVATE|SSH|DEPLOY|SIGNING|ENCRYPTION)_?KEY(_BASE)?)S?(_ID|_?FILE|_PATH|_V?\d+)?",
    re.IGNORECASE,
)
"""Variables of the user that no plugin or driver inherits: they name another cluster than the node's, or a secret."""


class SimPlugins:
    """Every plugin once on each node.

    Args:
        specs: The story's plugins, in its order.
        replacements: Plugin name -> argv that takes the place of its own program.
        clock: The nodes' time.
        trace: Gets what happens.
        tasks: The names of stubs that are tasks of this process, unless a foreign program is on their node.
        spawn: Starts the processes of all others.
        has_foreign: Whether foreign programs are on the nodes that are none of these plugins.
    """

    def __init__(
        self,
        specs: tuple[PluginSpec, ...],
        replacements: Mapping[str, tuple[str, ...]],
        clock: Clock,
        trace: Record,
        tasks: Set[str] = frozenset(),
        spawn: Spawn = spawn_process,
        *,
        has_foreign: bool = False,
    ) -> None:
        self._specs = specs
        self._has_foreign = has_foreign or any(one.builtin is None or one.name in replacements for one in specs)
        self._replacements = replacements
        self._clock = clock
        self._trace = trace
        self._tasks = tasks
        self._spawn = spawn
        self._folders: dict[str, Path] = {}
        self._processes: dict[tuple[str, str], PluginProcess] = {}
        self._taps: dict[tuple[str, str], Tap] = {}

    @property
    def views(self) -> tuple[PluginView, ...]:
        """What the supervisors say now."""
        return tuple(
            replace(_as_on_a_node(one.view, self._folders[node]), sockets=self._sockets(node, name))
            for (node, name), one in self._processes.items()
        )

    @property
    def processes(self) -> tuple[PluginProcess, ...]:
        """All of them, node after node."""
        return tuple(self._processes.values())

    @property
    def starting(self) -> Mapping[Hashable, bool]:
        """Node, plugin and number of each start that has not come to its end -> whether the kubelet has found it.

        See `PluginProcess.is_starting`.
        """
        return {(*key, one.starts): one.is_found for key, one in self._processes.items() if one.is_starting}

    def wanted(self) -> Mapping[Hashable, float]:
        """Node and plugin -> seconds that its processes ran or waited for a core."""
        uses = {key: one.use() for key, one in self._processes.items()}
        return {key: use.cpu_s + use.waited_s for key, use in uses.items()}

    def add_node(self, node: SimNode) -> list[PluginProcess]:
        """Prepare the plugins of a node; the caller runs them.

        Raises:
            InputError: A tap's folder cannot be made.
            HostError: A foreign program cannot be given the node's paths.
        """
        self._folders[node.name] = node.plugin_folder
        return [self.add(node, spec) for spec in self._specs]

    def add(self, node: SimNode, spec: PluginSpec) -> PluginProcess:
        """Prepare one plugin of a node that was added; the caller runs it.

        Raises:
            InputError: A tap's folder cannot be made, or the node has a plugin of this name.
            HostError: A foreign program cannot be given the node's paths.
        """
        if (node.name, spec.name) in self._processes:
            raise InputError(f"plugin '{spec.name}' is on node '{node.name}' already; give each plugin its own name")
        if spec.tap:
            with _named_errors(spec):
                node.make_tap_folders(spec.name)
        command = plugin_command(node, spec, self._replacements.get(spec.name), is_beside_foreign=self._has_foreign)
        # A task makes its socket with the rights of this process, in a folder that the other one may have replaced.
        spawn = spawn_task if spec.name in self._tasks and not self._has_foreign else self._spawn
        process = PluginProcess(command, self._clock, self._trace, spec.start == "with-node", spawn)
        self._processes[node.name, spec.name] = process
        if spec.tap:
            self._add_tap(spec, node, process)
        return process

    def _add_tap(self, spec: PluginSpec, node: SimNode, process: PluginProcess) -> None:
        own = node.directory.resolve()
        folders = (_socket_folder(node, spec), node.plugin_folder, node.found_tap_folder(spec.name), node.found_folder)
        of_plugin, of_kubelet, *found = (own / one.relative_to(node.directory) for one in folders)
        tap = Tap(of_plugin, of_kubelet, process.reported, (found[0], found[1]))
        self._taps[node.name, spec.name] = tap
        with _named_errors(spec):
            tap.start()

    def _sockets(self, node: str, name: str) -> tuple[str, ...]:
        """The sockets that a plugin has in the folder that a tap gives it."""
        tap = self._taps.get((node, name))
        return () if tap is None else tap.plugin_sockets

    async def close(self) -> None:
        """Take the taps away."""
        await asyncio.gather(*(tap.close() for tap in self._taps.values()))

    def run(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start the plugins that run from the beginning, and supervise all."""
        return [group.create_task(process.run()) for process in self._processes.values()]

    def registered(self, event: PluginRegistered | DriverConnected) -> None:
        """Count a registration, known of a driver by its connection, for who listens there; a stub reports its own."""
        for process in self._owners(event):
            process.registrations += 1

    def found(self, event: PluginSocketFound) -> None:
        """Note for who listens on a socket that the kubelet knows of it."""
        for process in self._owners(event):
            process.is_found = True

    def _owners(self, event: PluginRegistered | DriverConnected | PluginSocketFound) -> Iterator[PluginProcess]:
        here = [process for (node, _), process in self._processes.items() if node == event.node]
        for process in here:
            if not process.command.takes_commands and (len(here) == 1 or process.owns(event.endpoint)):
                yield process

    async def perform(self, action: PluginAction, node: str) -> None:
        """Do what a step says to a plugin of a node.

        Raises:
            InputError: The plugin is not in the state for it.
            PluginError: A stub does not follow a command.
        """
        process = self._processes[node, action.plugin]
        match action:
            case StartPlugin():
                await process.start()
            case StopPlugin(signal="KILL"):
                await process.stop(grace_s=0)
            case StopPlugin(grace=grace_s):
                await process.stop(grace_s)
            case KillPlugin():
                await process.kill()
            case PausePlugin():
                await process.pause()
            case ResumePlugin():
                await process.resume()
            case MeasurePlugin():
                process.measure()
            case SignalPlugin(signal=name):
                await process.send_signal(name)
            case CallAction() if tap := self._taps.get((node, action.plugin)):
                tap.send_command(action.command)
            case CommandAction():
                await process.send_command(action.command)

    def needs_restart(self, action: PluginAction, node: str) -> bool:
        """Whether a step needs a plugin's process that is started again only when node time has passed."""
        needs_process = not isinstance(action, StartPlugin | StopPlugin | MeasurePlugin)
        return needs_process and self._processes[node, action.plugin].is_backing_off

    def allow_restarts(self, node: str, may_restart: bool) -> None:
        """Say whether a kubelet is there that starts a node's plugins again when they have ended."""
        for (where, _), process in self._processes.items():
            if where == node:
                (process.may_restart.set if may_restart else process.may_restart.clear)()

    async def power_off(self, node: str) -> tuple[str, ...]:
        """End all plugins of a node at once; the names of those that ran, in the story's order."""
        for (where, _), tap in self._taps.items():
            if where == node:
                tap.send_command({"command": "forget"})
        running = [(name, one) for (where, name), one in self._processes.items() if where == node and one.is_wanted]
        await asyncio.gather(*(process.stop(grace_s=0) for _, process in running))
        return tuple(name for name, _ in running)

    async def power_on(self, node: str, names: Iterable[str]) -> None:
        """Start plugins of a node one after the other.

        Raises:
            InputError: One is named twice.
        """
        for name in names:
            await self._processes[node, name].start()


@contextmanager
def _named_errors(spec: PluginSpec) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind, why = HostError if error.errno == errno.ENOSPC else InputError, error.strerror or error
        raise kind(f"plugin '{spec.name}': cannot make a tap: {why}; choose another --dir") from None


def _as_on_a_node(view: PluginView, folder: Path) -> PluginView:
    """Return a view that names the plugins' folder as a node would, since a story cannot know its path here."""
    return replace(view, refusal=view.refusal.replace(str(folder), DEVICE_PLUGIN_PATH))


def needs_view(node: NodeSpec, plugin: PluginSpec) -> bool:
    """Whether a plugin does its work only where it sees the node as the node's root does: in namespaces of its own."""
    has_contents = any(node.contents.values())
    has_devices = node.gpus is not None and node.runtime is Runtime.PROCESS
    # NVML gives the handle of an instance to root alone, which a plugin's pod is on a node.
    lacks_root = node.gpus is not None and bool(node.gpus.mig) and os.geteuid() != 0
    return plugin.builtin is None or has_contents or has_devices or lacks_root


@dataclass(frozen=True, slots=True)
class GivenByPod:
    """What a container gives the plugin of its image: `args` behind the plugin's own, and variables.

    Attributes:
        container: Its name; no other container of the node has it at the same time.
        shown: Path -> the path on the node that its volumes show there, as far as a pod has to mount that to see it.
    """

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    container: str | None = None
    shown: Mapping[str, str] = field(default_factory=lambda: {DEVICE_PLUGIN_PATH: DEVICE_PLUGIN_PATH})


def plugin_command(
    node: SimNode,
    spec: PluginSpec,
    replacement: tuple[str, ...] | None,
    *,
    is_beside_foreign: bool = False,
    given: GivenByPod | None = None,
) -> PluginCommand:
    """How a plugin is run; `replacement` takes the place of its own program.

    Beside a foreign one a bundled one runs in a view, too, as what it reads and loads of the node may be the other's:
    outside it would do with the rights of who runs the simulator what that one says. So may what containers that are
    processes write.

    It inherits the user's environment but for credentials; its `env` of the story can have any variable.

    What is `given` comes from who creates pods: no program obeys it before it is in its view, and a bundled plugin,
    which may have none, takes of it only what is harmless (``PluginCommand.parse_args`` of `plugin`).

    Raises:
        HostError: A foreign program cannot be given the node's paths.
    """
    env = {name: value for name, value in os.environ.items() if not _CREDENTIAL.fullmatch(name)}
    env |= _gpu_environment(node.machine) if node.machine else {}
    if spec.uses_api and node.kubeconfig is not None:
        env |= {"KUBECONFIG": str(node.kubeconfig), "NODE_NAME": node.name}
    program, folder = spec.foreign_program(replacement), _socket_folder(node, spec)
    if spec.builtin is not None and not program:
        env["PYTHONPATH"] = python_path("plugin")
        settings = stub_options(spec.name, spec.serves or Serves()) if spec.is_stub else []
        places = ("--kubelet-dir", str(folder), "--host-root", str(node.root))
        argv, is_beside_others = [*bundled_program(), spec.builtin], is_beside_foreign
        if given is None:
            argv, added = [*argv, *places, *settings, *spec.builtin_args], GivenByPod()
        else:
            has_sockets = given.shown.get(DEVICE_PLUGIN_PATH) == DEVICE_PLUGIN_PATH
            if not has_sockets:
                # In its view nothing is there.
                places = ("--kubelet-dir", DEVICE_PLUGIN_PATH, "--host-root", str(node.root))
            argv = [*argv, *settings, *spec.builtin_args]
            # What it writes into a folder that it does not mount reaches nobody.
            unseen = () if _CDI in given.shown.values() or spec.builtin != "nvidia" else ("--cdi-spec-dir=",)
            words = (*given.args, *unseen, *places, "--container", json.dumps(dict(given.env)))
            added = replace(given, args=words, env={})
            is_beside_others |= node.spec.runtime is Runtime.PROCESS or not has_sockets
        is_seen = is_beside_others or needs_view(node.spec, spec)
        argv = _seen(node, argv, _places(node, spec, added), added) if is_seen else tied_to_parent([*argv, *added.args])
    else:
        given = given or GivenByPod()
        argv = _seen(node, program, _places(node, spec, given), given, has_own_network=spec.has_own_network)
    takes_commands = spec.is_stub and replacement is None
    log = node.plugin_logs / f"{spec.name}.log"
    return PluginCommand(
        spec.name,
        node.name,
        tuple(argv),
        {**env, **spec.env},
        log,
        takes_commands,
        spec.tap,
        spec.working_folder(replacement),
        is_foreign=bool(program),
    )


def _socket_folder(node: SimNode, spec: PluginSpec) -> Path:
    """What a plugin takes for the kubelet's folder of sockets: one of its own where it has a tap."""
    return node.tap_folder(spec.name) if spec.tap else node.plugin_folder


def _gpu_environment(machine: Machine) -> dict[str, str]:
    from .hardware import driver_environment

    return machine.environment() | driver_environment(DRIVER_ROOT)


def _places(node: SimNode, spec: PluginSpec, given: GivenByPod) -> dict[str, Path]:
    """What a plugin in a view alone sees: the kubelet's folders of sockets, those of its own where it has a tap.

    Raises:
        InputError: A folder that its volumes show cannot be made.
    """
    folders = {DEVICE_PLUGIN_PATH: _socket_folder(node, spec)}
    if spec.tap:
        folders[PLUGINS_REGISTRY_PATH] = node.found_tap_folder(spec.name)
    if given.container is None:
        return folders
    return {path: folders.get(place) or node.files.mounted(place) for path, place in given.shown.items()}


def _seen(
    node: SimNode,
    program: Sequence[str],
    places: Mapping[str, Path],
    given: GivenByPod,
    *,
    has_own_network: bool = False,
) -> list[str]:
    """The argv that runs a program in a view of the node with these places of its own."""
    check_sandbox()
    # The processes are found by the mark.
    env = {name: value for name, value in given.env.items() if name != MARK}
    view = node.view(places, given.container)
    return sandboxed(program, view, given.args, env, has_own_network=has_own_network)


def stub_options(name: str, serves: Serves) -> list[str]:
    """The words after ``plugin stub`` for what a story's stub serves."""
    options = ["--resource", serves.resource, "--socket", serves.socket or f"{name}.sock"]
    for device in devices_in_full(serves.devices):
        nodes = [f"numa={node}" for node in device["numa"]]
        options += ["--device", ",".join([device["id"], f"health={device['health']}", *nodes])]
    flags = {"--pre-start": serves.pre_start, "--preferred-allocation": serves.preferred_allocation}
    options += ["--registers", serves.registers.value, *(flag for flag, is_set in flags.items() if is_set)]
    options += [] if serves.watches is None else ["--watches", serves.watches]
    for device_id, path in serves.files.items():
        options += ["--file", f"{device_id}={path}"]
    return [*options, "--on-lost-stream", serves.on_lost_stream.value, "--looks", serves.looks.value]
