"""The simulated world: kubelets, scheduler and fake GPUs in this process, plugins as processes of their own.

Node time stands still but for `SimPatience`, which lets it leap to the next thing due while the story waits and
nothing else happens, and for the steps that advance it.
"""

from __future__ import annotations

import asyncio
import errno
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from simkubelet.clock import ManualClock
from simkubelet.cluster import Scheduler, Store
from simkubelet.errors import HostError, InputError
from simkubelet.events import NodeEvent, PluginRegistered
from simkubelet.kubelet import Kubelet
from simkubelet.pod import Pod
from simkubelet.resources import ResourceName
from simkubelet.version import version

from ..action import Action, Advance, Apply, CreateFile, Delete, Fail, Heal, RemoveFile, RestartKubelet
from ..backend import Capability
from ..events import ClockAdvanced, FaultHealed, FaultInjected, FileCreated, FileRemoved
from ..model import Scenario
from ..plugin_process import PluginProcess
from ..selection import chosen_file, chosen_gpu
from ..snapshot import NodeView, PodEvent, PodView, Snapshot
from ..trace import Trace
from .sim_node import SimNode, told_errors

_IDLE_S: Final = 0.01
_FURTHEST_S: Final = 240.0


class SimBackend:
    """The world of one story.

    Args:
        scenario: the story.
        directory: where the nodes' folder is made; the system's place for temporary files where it is None.
        keep: leave the folder behind.
        plugin_commands: plugin name -> argv that takes the place of the story's own program.
    """

    def __init__(
        self, scenario: Scenario, directory: Path | None, keep: bool, plugin_commands: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._scenario = scenario
        self._base = directory
        self._keep = keep
        self._plugin_commands = plugin_commands
        self._clock = ManualClock()
        self.trace = Trace(now=self._clock.now)
        self._store = Store(self._observe)
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []
        self._folder: Path | None = None
        self._nodes: dict[str, SimNode] = {}
        self._kubelets: dict[str, Kubelet] = {}
        self._plugins: list[PluginProcess] = []
        self._observed = 0

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Everything."""
        return frozenset(Capability)

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        try:
            await self._build()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        try:
            await self._end()
        finally:
            await self._group.__aexit__(kind, error, traceback)

    def node_directory(self, name: str) -> Path:
        """The folder of a node, while the world is there."""
        return self._nodes[name].directory

    async def perform(self, action: Action) -> None:
        """Do one step; see `Backend`."""
        match action:
            case Apply(manifest=manifest):
                self._store.create_pod(manifest)
            case Delete(pod=name):
                self._store.delete_pod(self._pod(name).uid)
            case RestartKubelet():
                await self._kubelets[self._node(action.node).name].restart()
            case Fail() | Heal():
                await self._change_gpu(action)
            case CreateFile() | RemoveFile():
                await self._change_file(action)
            case Advance(seconds=seconds):
                self.trace.append(ClockAdvanced(seconds))
                await self._clock.advance(seconds)

    async def observe(self) -> Snapshot:
        """What the store, the kubelets and the supervisors say now."""
        self._observed = len(self.trace)
        nodes = {
            name: NodeView(name, self._nodes[name].spec.kubernetes, _plain(status.capacity), _plain(status.allocatable))
            for name, status in self._store.nodes.items()
        }
        pods = {pod.key: self._pod_view(pod) for pod in self._store.pods}
        return Snapshot(nodes, pods, tuple(plugin.view for plugin in self._plugins))

    def patience(self, within_s: float) -> SimPatience:
        """Begin to wait; see `SimPatience`."""
        return SimPatience(self._clock, self.trace, lambda: self._observed, within_s)

    async def _build(self) -> None:
        self._folder = _new_folder(self._base)
        minor = version(self._scenario.nodes[0].kubernetes)
        self._tasks.append(self._group.create_task(Scheduler(self._store, self._clock, minor).run()))
        for spec in self._scenario.nodes:
            node = SimNode(spec, self._folder / spec.name)
            node.create()
            kubelet = Kubelet(
                node.plugin_folder,
                node.name,
                version=version(spec.kubernetes),
                clock=self._clock,
                store=self._store,
                observe=self._observe,
                tasks=self._group,
            )
            await kubelet.start()
            self._nodes[node.name], self._kubelets[node.name] = node, kubelet
            for plugin in self._scenario.plugins:
                command = node.plugin_command(plugin, self._plugin_commands.get(plugin.name))
                self._plugins.append(PluginProcess(command, self._clock, self.trace))
        self._tasks += [self._group.create_task(plugin.run()) for plugin in self._plugins]

    async def _end(self) -> None:
        # A stack, so that what fails to end keeps nothing else from ending.
        async with AsyncExitStack() as stack:
            stack.callback(self._remove_folder)
            for kubelet in self._kubelets.values():
                stack.push_async_callback(kubelet.stop)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _remove_folder(self) -> None:
        if self._folder is None or self._keep:
            return
        try:
            shutil.rmtree(self._folder)
        except OSError as error:
            raise HostError(f"{error.filename}: cannot be removed: {error.strerror}; remove it by hand") from None

    def _observe(self, event: NodeEvent) -> None:
        if isinstance(event, PluginRegistered):
            here = [plugin for plugin in self._plugins if plugin.command.node == event.node]
            for plugin in here:
                if len(here) == 1 or plugin.owns(event.endpoint):
                    plugin.registrations += 1
        self.trace.append(event)

    def _node(self, name: str | None) -> SimNode:
        return self._nodes[name] if name is not None else next(iter(self._nodes.values()))

    def _pod(self, name: str) -> Pod:
        pod = self._store.pod_named(name)
        if pod is None:
            raise InputError(f"no pod '{name}' is there now; the pods are: {self._pod_names() or 'none'}")
        return pod

    def _pod_names(self) -> str:
        return ", ".join(pod.key for pod in self._store.pods)

    async def _change_gpu(self, action: Fail | Heal) -> None:
        node = self._node(action.node)
        if node.machine is None:
            raise InputError(f"node '{node.name}' has no GPUs: give it 'gpus: {{profile: …, count: …}}'")
        gpu = chosen_gpu(action.gpu, [gpu.uuid for gpu in node.machine.gpus], await self.observe())
        with told_errors():
            if isinstance(action, Fail):
                self.trace.append(FaultInjected(node.name, gpu, action.xid))
                node.machine.fail(gpu, xid=action.xid)
            else:
                node.machine.heal(gpu)
                self.trace.append(FaultHealed(node.name, gpu))

    async def _change_file(self, action: CreateFile | RemoveFile) -> None:
        node = self._node(action.node)
        if isinstance(action, CreateFile):
            node.create_file(action.path)
            self.trace.append(FileCreated(node.name, action.path))
        else:
            path = chosen_file(action, await self.observe())
            node.remove_file(path)
            self.trace.append(FileRemoved(node.name, path))

    def _pod_view(self, pod: Pod) -> PodView:
        kubelet = self._kubelets.get(pod.node_name or "")
        containers = kubelet.runtime.containers(pod.uid) if kubelet else {}
        held = kubelet.devices_of(pod) if kubelet else {}
        return PodView(
            name=pod.key,
            phase=pod.status.phase.value,
            reason=pod.status.reason,
            message=pod.status.message,
            node=pod.node_name or "",
            devices={container: {str(name): ids for name, ids in book.items()} for container, book in held.items()},
            env={name: container.env for name, container in containers.items()},
            events=tuple(PodEvent(event.type, event.reason, event.message) for event in self._store.events_of(pod.uid)),
        )


class SimPatience:
    """Waits for real processes in real time, and lets node time leap when nothing happens meanwhile.

    A leap goes to the next thing due, but never further than `within_s` of node time behind what the plugins did
    last, and never beyond four minutes in one wait that is itself shorter: a story that waits 10 s sees the next status
    period, not the end of a five-minute grace, whatever recurs meanwhile.
    """

    def __init__(self, clock: ManualClock, trace: Trace, observed: Callable[[], int], within_s: float) -> None:
        self._clock = clock
        self._trace = trace
        self._observed = observed
        self._within_s = within_s
        self._deadline = asyncio.get_running_loop().time() + within_s
        self._leap_limit = clock.now() + within_s
        self._events_at_leap = len(trace)
        self._last_limit = clock.now() + max(within_s, _FURTHEST_S)

    async def wait(self) -> bool:
        """See `Patience`."""
        if await self._happens_within(_IDLE_S):
            return True
        return await self._leap() or await self._happens_within(self._within_s)

    async def _happens_within(self, limit_s: float) -> bool:
        remaining = self._deadline - asyncio.get_running_loop().time()
        if remaining <= 0:
            return False
        try:
            async with asyncio.timeout(min(limit_s, remaining)):
                await self._trace.longer_than(self._observed())
        except TimeoutError:
            return False
        return True

    async def _leap(self) -> bool:
        if asyncio.get_running_loop().time() >= self._deadline:
            return False
        if len(self._trace) > self._events_at_leap:
            self._leap_limit = min(self._clock.now() + self._within_s, self._last_limit)
        due = self._clock.next_deadline()
        if due is None or due > self._leap_limit:
            return False
        await self._clock.advance(due - self._clock.now())
        self._events_at_leap = len(self._trace)
        return True


def _plain(amounts: Mapping[ResourceName, int]) -> dict[str, int]:
    return {str(name): amount for name, amount in amounts.items()}


def _new_folder(base: Path | None) -> Path:
    """A new folder for the nodes, with a short name as sockets are made below it."""
    place = base or Path(tempfile.gettempdir())
    try:
        return Path(tempfile.mkdtemp(prefix="sk-", dir=place))
    except OSError as error:
        kind = HostError if error.errno == errno.ENOSPC else InputError
        raise kind(f"{place}: no folder can be made here: {error.strerror}; choose another with --dir") from None
