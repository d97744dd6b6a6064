"""A node with a kubelet for a test that is a coroutine: the world of a story whose steps the test does itself.

Node time is manual. It leaps while the test waits and nothing happens, as in a story (docs/architecture.md, "Time"), so
a wait for the node's next status, or for the end of the five-minute grace, takes no real time.
"""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from simkubelet.devices import DeviceRunOptions
from simkubelet.host import raise_limit
from simkubelet.model.errors import HostError, InputError, PluginError
from simkubelet.model.pod import Pod

from ..backends.sim.backend import SimBackend
from ..evaluation.diagnosis import diagnoses
from ..evaluation.evaluation import evaluate
from ..evaluation.mismatch import Mismatch
from ..evaluation.timeline import timeline
from ..evaluation.verdict import Failure, single_errors
from ..story.expectations import EXPECTATIONS, Expectation
from ..story.model import DEFAULT_NODE, Scenario, Step
from ..story.part import Action, NodeAction, format_duration
from ..story.specs import PluginSpec
from ..story.verbs.plugin_action import PluginAction
from ..trace.trace import Entry
from .checked import checked, checked_node
from .failure import ExpectationError, failure_text, happened_text, log_lines
from .plugin import AsyncPlugin, check, is_ready, supervised

if TYPE_CHECKING:
    from fakegpu import Machine

REGISTERS_WITHIN_S: Final = 30.0
"""How long a plugin may take from its start to its registration; a program is loaded meanwhile."""


class _OpenStory(Scenario):
    """A story whose steps are not known beforehand: what they might ask for is there."""

    @property
    def reads_checkpoints(self) -> bool:
        return True

    @property
    def reads_claims(self) -> bool:
        return True


class AsyncNode:
    """A node with a kubelet and a scheduler, from `__aenter__` to `__aexit__`, in the loop of the test.

    Args:
        spec: The keys of a node in a story (docs/stories.md), such as ``gpus`` or ``featureGates``; all may be left
            out.

    Raises:
        InputError: There is no such key, version or GPU profile.
        HostError: The machine cannot run such a node.
    """

    def __init__(self, spec: Mapping[str, Any] | None = None) -> None:
        node = checked_node({"name": DEFAULT_NODE, **(spec or {})})
        story = _OpenStory.model_construct(name="test", description="", nodes=(node,), plugins=(), steps=())
        self.name = node.name
        self._world = SimBackend(story, None, keep=False, plugin_commands={})
        self._plugins: dict[str, AsyncPlugin] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        raise_limit()
        for remedy in self._world.remedies.values():
            raise HostError(remedy)
        await self._stack.enter_async_context(self._world)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        # First the kubelet: to it a plugin that ends would be one that has failed.
        await self._world.kubelet(self.name).stop()
        await left(self._stack, error)

    @property
    def plugin_folder(self) -> Path:
        """The folder of ``kubelet.sock``, in which plugins make their sockets."""
        return self._world.node(self.name).plugin_folder

    @property
    def pod_resources_socket(self) -> Path:
        """Where the kubelet serves the PodResources API."""
        return self._world.node(self.name).pod_resources_socket

    @property
    def root(self) -> Path:
        """The node's own files: ``root / "srv/seats/aisle"`` is its ``/srv/seats/aisle``."""
        return self._world.node(self.name).root

    @property
    def machine(self) -> Machine | None:
        """Its fake NVIDIA GPUs; None where it has none."""
        return self._world.node(self.name).machine

    @property
    def capacity(self) -> Mapping[str, int]:
        """Resource -> amount, as last published: at the start, and every ten seconds of node time where it changed."""
        status = self._world.store.nodes.get(self.name)
        return {} if status is None else {str(name): amount for name, amount in status.capacity.items()}

    @property
    def allocatable(self) -> Mapping[str, int]:
        """Resource -> what pods may get of it, published with `capacity`."""
        status = self._world.store.nodes.get(self.name)
        return {} if status is None else {str(name): amount for name, amount in status.allocatable.items()}

    @property
    def trace(self) -> tuple[Entry, ...]:
        """What has happened, oldest first; `Entry.kind` and `Entry.event` say what."""
        return tuple(self._world.trace)

    def apply(self, manifest: Mapping[str, Any]) -> Pod:
        """Create a pod; the scheduler binds it where its requests fit.

        Raises:
            InputError: An API server would refuse it, or a pod of that name is there.
        """
        return self._world.store.create_pod(manifest)

    def delete(self, name: str) -> None:
        """Delete a pod, which is gone when its containers have ended.

        Raises:
            InputError: There is no such pod.
        """
        self._world.store.delete_pod(self.pod(name).uid)

    def pod(self, name: str) -> Pod:
        """Return a pod as it is now.

        Raises:
            InputError: There is no such pod.
        """
        pods = self._world.store.pods
        found = self._world.store.pod_named(name)
        if found is None:
            raise InputError(f"no pod {name!r}; the pods are: {', '.join(pod.key for pod in pods) or 'none'}")
        return found

    def devices_of(self, name: str) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Return container -> resource -> ids of the devices that a pod holds; empty while no kubelet runs.

        Raises:
            InputError: There is no such pod.
        """
        held = self._world.kubelet(self.name).devices_of(self.pod(name))
        return {container: {str(one): ids for one, ids in resources.items()} for container, resources in held.items()}

    def options_of(self, name: str) -> Mapping[str, DeviceRunOptions]:
        """Return container -> what plugins answered for it, merged: environment, mounts, device nodes, CDI devices.

        Raises:
            InputError: There is no such pod.
        """
        records = self._world.kubelet(self.name).containers_of(self.pod(name))
        return {container: record.options for container, record in records.items()}

    async def restart(self) -> None:
        """Restart the kubelet; containers and plugins continue."""
        await self.step(restartKubelet={})

    async def stop(self) -> None:
        """Stop the kubelet; containers and plugins continue."""
        await self.step(stopKubelet={})

    async def start(self) -> None:
        """Start the kubelet after `stop`."""
        await self.step(startKubelet={})

    async def reboot(self) -> None:
        """Power-cycle the node: containers and plugins end and start again."""
        await self.step(rebootNode={})

    async def advance(self, seconds: float) -> None:
        """Let node time pass.

        Raises:
            InputError: It is no time, or a step cannot be done now.
        """
        if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            raise InputError(f"advance: expected seconds; found {seconds!r}")
        await self.step(advance=format_duration(seconds))

    async def start_plugin(
        self, *command: str | Path, name: str = "plugin", env: Mapping[str, str] | None = None, wait: bool = True
    ) -> AsyncPlugin:
        """Start a device plugin, which sees the node at a node's usual paths, and wait until it has registered.

        Args:
            command: A program and its arguments.
            name: By which steps and expectations call it; each plugin of a test has its own.
            env: Added to the test's own environment, of which no credentials are passed on.
            wait: Whether to wait for its registration, for 30 s at most.

        Raises:
            InputError: There is no such program.
            PluginError: It ends before it registers, or does not register in time.
            HostError: The machine cannot show it the node.
        """
        argv = tuple(map(str, command))
        if not argv or shutil.which(argv[0]) is None:
            what = f"no program '{argv[0]}'" if argv else "no program is named"
            raise InputError(f"plugin '{name}': {what}; give its path or put its folder on PATH")
        spec = checked(PluginSpec, "plugin", {"name": name, "command": argv, "env": env or {}})
        process = self._world.add_plugin(self.name, spec)
        plugin = self._plugins[name] = await self._stack.enter_async_context(supervised(process))
        if wait and not await self._waited(lambda: is_ready(plugin), REGISTERS_WITHIN_S):
            late = f"plugin '{name}' runs, and has not registered with the kubelet within {REGISTERS_WITHIN_S:.0f} s"
            raise PluginError("\n".join((late, *log_lines([plugin.log]))))
        check(plugin)
        return plugin

    async def step(self, **step: object) -> None:
        """Do a step of the story language (docs/stories.md): one verb and its keys.

        For example ``await node.step(removeFile={"path": "/srv/seats/aisle"})``.

        Raises:
            InputError: There is no such step, or it cannot be done now.
            ExpectationError: What it expects is not so in time.
        """
        one = checked(Step, "step", step)
        if one.expect is not None:
            await self._expect(one.expect)
        elif one.action is not None:
            self._check_names(one.action)
            await self._world.perform(one.action)

    async def expect(self, **expectation: object) -> None:
        """Wait until something is so: an ``expect`` of the story language, of the node where it names no other subject.

        For example ``await node.expect(pod="passenger", phase="Running", within="20s")``.

        Raises:
            InputError: There is no such expectation.
            ExpectationError: It is not so in time; the message has the expected and the actual, the trace around it,
                and the last lines of the plugins' logs.
        """
        subject = {} if EXPECTATIONS.keys() & expectation.keys() else {"node": self.name}
        await self.step(expect={**subject, **expectation})

    async def until(self, condition: Callable[[], bool], within_s: float = 10.0) -> None:
        """Return when a condition holds; it is checked now and whenever something has happened.

        Args:
            condition: For example ``lambda: plugin.registrations == 2``.
            within_s: How long to wait, in real time in which a core was free, and in node time.

        Raises:
            ExpectationError: It does not hold in time.
        """
        if not await self._waited(condition, within_s):
            failure = Failure(self.name, "until", (), timeline(self._world.trace), f"waited {within_s:g} s")
            raise ExpectationError(failure_text("the condition did not come true", failure, self.logs))

    @property
    def logs(self) -> Sequence[Path]:
        """The logs of the plugins, kubelet and containers that are not empty."""
        return self._world.node(self.name).logs

    @property
    def happened(self) -> str:
        """The latest events and the ends of the plugins' logs, for the report of a failure."""
        return happened_text(self.trace, self.logs)

    async def _waited(self, condition: Callable[[], bool], within_s: float) -> bool:
        await self._world.observe()
        patience = self._world.patience(within_s)
        while not condition():
            if not await patience.wait():
                return condition()
            await self._world.observe()
        return True

    async def _expect(self, expectation: Expectation) -> None:
        if expectation.asks_pod_resources:
            raise InputError("podResources are expected by stories only; ask the socket, 'pod_resources_socket'")
        if mismatches := await self._mismatches(expectation, expectation.within, until_met=True):
            raise await self._unmet(expectation, mismatches, f"within: {format_duration(expectation.within)}")
        if expectation.holds and (mismatches := await self._mismatches(expectation, expectation.holds)):
            raise await self._unmet(expectation, mismatches, f"holds: {format_duration(expectation.holds)}")

    async def _mismatches(
        self, expectation: Expectation, time_s: float, *, until_met: bool = False
    ) -> tuple[Mismatch, ...]:
        """Return what differs at the end of a time, or as soon as it is `until_met` or no longer so."""
        patience = self._world.patience(time_s)
        while True:
            mismatches = evaluate(expectation, await self._world.observe(), self._world.trace)
            if bool(mismatches) != until_met or not await patience.wait():
                return mismatches

    async def _unmet(self, expectation: Expectation, mismatches: tuple[Mismatch, ...], waited: str) -> ExpectationError:
        entries, plugins = self._world.trace[:], (await self._world.observe()).plugins
        failure = Failure(
            self.name,
            expectation.title,
            mismatches,
            timeline(entries, expectation.subject),
            waited,
            diagnoses=diagnoses(entries, plugins, expectation.subject),
        )
        return ExpectationError(failure_text(f"{expectation.title} is not met", failure, self.logs))

    def _check_names(self, action: Action) -> None:
        if isinstance(action, NodeAction) and action.node not in (None, self.name):
            raise InputError(f"{action.verb}: no node '{action.node}'; the node is '{self.name}'")
        if isinstance(action, PluginAction) and action.plugin not in self._plugins:
            known = ", ".join(self._plugins) or "none"
            raise InputError(f"{action.verb}: no plugin '{action.plugin}'; those that were started: {known}")


async def left(stack: AsyncExitStack, error: BaseException | None) -> None:
    """Leave the contexts of a test's world; the error of the test itself continues as it is, in no group.

    Raises:
        SimkubeletError: Something of the world has failed.
    """
    try:
        if isinstance(error, asyncio.CancelledError):
            await stack.__aexit__(type(error), error, error.__traceback__)
        else:
            await stack.aclose()
    except BaseExceptionGroup as errors:
        first = next(single_errors(errors))
    else:
        return
    raise first
