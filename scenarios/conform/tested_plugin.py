"""The plugin under test: what is known of it, and the stories of checks with it in the place of their plugin."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from simkubelet.model.errors import HostError, InputError, PluginError
from simkubelet.model.events import DevicesListed, PluginRegistered, PluginSocketFound
from simkubelet.model.words import number_of

from ..backends.sim.backend import SimBackend
from ..backends.world.logs import exit_message
from ..evaluation.verdict import single_errors
from ..story.check_spec import Needs, StandsFor
from ..story.document import Document, load
from ..story.model import Scenario
from ..story.part import ParameterValue
from ..story.specs import PluginSpec
from ..trace.snapshot import Snapshot
from .checks import Check
from .profile import Profile
from .unlisted import hint_for, why_unlisted

NAME: Final = "plugin"
"""The plugin of a check in whose place the one under test is run; others whose names begin so are further ones."""
_LIST_AND_WATCH: Final = "ListAndWatch"
_REGISTERS_WITHIN_S: Final = 30.0
_SETTLES_WITHIN_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Subject:
    """A plugin under test.

    Attributes:
        command: Its argv.
        profile: What the user says of it.
        resource: The resource that is checked.
        count: How many healthy devices of it the plugin lists.
        resources: All that it registers, also those of which it has no device.
        options: What it has on, in a story's words.
        is_found: Whether it never calls Register, as the kubelet finds its socket in ``plugins_registry``.
        profile_path: The file with the profile, if there is one.
    """

    command: tuple[str, ...]
    profile: Profile
    resource: str = ""
    count: int = 0
    resources: tuple[str, ...] = ()
    options: frozenset[str] = field(default_factory=frozenset)
    is_found: bool = False
    profile_path: Path | None = None

    @property
    def settings(self) -> Mapping[str, ParameterValue]:
        """Values of the parameters that checks declare."""
        remaining = max(self.count - self.profile.breaks, 0)
        return {
            "resource": self.resource,
            "count": self.count,
            "remaining": remaining,
            "resources": len(self.resources),
            "streams": 2 * len(self.resources),
            "watch": self.profile.watch,
            **({} if self.profile.wait is None else {"wait": self.profile.wait}),
        }

    def command_for(self, check: Check) -> str:
        """The command line that plays one check with the plugin."""
        profile = () if self.profile_path is None else ("--profile", str(self.profile_path))
        return shlex.join(("simkubelet", "conform", *profile, "--only", check.id, "--", *self.command))

    def reason_to_skip(self, needs: Needs) -> str:
        """Why a check with these needs does not apply to the plugin; empty where it does."""
        steps = self.profile.steps
        if self.count < needs.devices:
            return f"needs {number_of(needs.devices, 'device')}; the plugin lists {self.count}"
        if needs.registers and self.is_found:
            return "the plugin does not call Register; the kubelet finds its socket in plugins_registry"
        if needs.found and not self.is_found:
            return "the plugin calls Register; the kubelet finds no socket of it in plugins_registry"
        if needs.pre_start and "preStart" not in self.options:
            return "the plugin does not ask for PreStartContainer"
        if needs.preferred_allocation and "preferredAllocation" not in self.options:
            return "the plugin does not offer GetPreferredAllocation"
        if needs.breakable and StandsFor.BREAK not in steps:
            return "no profile says how a device breaks (break:)"
        if needs.healable and StandsFor.HEAL not in steps:
            return "no profile says how a device is healed (heal:)"
        if needs.many and self.profile.many is None:
            return "no profile says how the plugin lists many devices (many:)"
        return ""

    def in_check(self, check: Check) -> Document:
        """The story of a check with the plugin in it."""
        if check.spec.needs.many and self.profile.many is not None:
            return replace(self, profile=self.profile.with_many, count=self.profile.many.count)._in(check)
        return self._in(check)

    def _in(self, check: Check) -> Document:
        document = load(check.path, settings=self.settings)
        return replace(document, scenario=self.in_story(document.scenario))

    def in_story(self, scenario: Scenario) -> Scenario:
        """A story with the plugin in it, on a node as its profile has it."""
        steps = tuple(map(self.profile.in_step, scenario.steps))
        plugins = tuple(self._in_place_of(plugin) for plugin in scenario.plugins)
        nodes = tuple(self.profile.on(node) for node in scenario.nodes)
        return scenario.model_copy(update={"steps": steps, "plugins": plugins, "nodes": nodes})

    def _in_place_of(self, plugin: PluginSpec) -> PluginSpec:
        if not plugin.name.startswith(NAME):
            return plugin
        # A stub that a kubelet finds reports its calls itself, what stands in for it cannot. Any other tap would be a
        # kubelet too many, which takes registrations while the node's is away.
        is_found = plugin.serves is not None and plugin.serves.registers.is_found
        spec = PluginSpec(
            name=plugin.name,
            command=self.command,
            tap=plugin.tap or is_found,
            start=plugin.start,
            api=self.profile.api,
            env={**plugin.env, **self.profile.env},
        )
        # Many checks run at a time, and a plugin may listen on a port.
        return spec if self.profile.host_network else spec.in_own_network()


async def discovered(subject: Subject, directory: Path | None) -> Subject:
    """Start a plugin once and see what it registers and lists.

    Raises:
        InputError: The program cannot be run.
        PluginError: It ends, or does not register, or lists no device of the resource.
        HostError: This machine fails.
    """
    scenario = Scenario.model_validate(
        {
            "name": "probe",
            "description": "What the plugin registers.",
            "plugins": [{"name": NAME, "builtin": "stub", "tap": True}],
            "steps": [{"expect": {"node": "node-1", "kubelet": "running"}}],
        }
    )
    world = SimBackend(subject.in_story(scenario), directory, keep=False, plugin_commands={})
    try:
        async with world:
            return await _probed(subject, world)
    except BaseExceptionGroup as errors:
        error = next(single_errors(errors.subgroup(InputError) or errors))
        hint = hint_for(subject.command, subject.profile, world.trace, str(error))
        if isinstance(error, PluginError) and hint not in str(error):
            raise PluginError(f"{error}; {hint}") from None
        raise error from None


async def _probed(subject: Subject, world: SimBackend) -> Subject:
    patience = world.patience(_REGISTERS_WITHIN_S)
    began_s = time.monotonic()
    await world.observe()
    while not _listed(world) and await patience.wait():
        await world.observe()
    waited_s = round(time.monotonic() - began_s)
    if not _listed(world) and patience.is_starved:
        raise HostError(f"the plugin has shown no device within {waited_s} s, and the machine was too busy to say why")
    settling = world.patience(_SETTLES_WITHIN_S if _listed(world) else 0)
    while await settling.wait():
        await world.observe()
    return _found(subject, world, await world.observe(), waited_s)


def _listed(world: SimBackend) -> dict[str, int]:
    """Resource -> how many healthy devices its latest list has, where it has any."""
    listed = {event.resource: len(set(event.healthy)) for event in world.trace.of(DevicesListed)}
    return {resource: count for resource, count in sorted(listed.items()) if count}


def _found(subject: Subject, world: SimBackend, snapshot: Snapshot, waited_s: float) -> Subject:
    (plugin,), listed = snapshot.plugins, _listed(world)
    if not listed:
        said = exit_message(world.node(plugin.node).plugin_logs / f"{NAME}.log")
        raise PluginError(why_unlisted(subject.command, subject.profile, plugin, world.trace, said, waited_s))
    if _LIST_AND_WATCH not in plugin.calls:
        raise HostError(
            f"{NAME}: the kubelet calls a socket that lies neither in device-plugins nor in plugins_registry, where "
            "conform would see the calls; there is no verdict"
        )
    wanted = subject.profile.resource
    if wanted is not None and wanted not in listed:
        raise PluginError(
            f"the plugin lists no device of {wanted}, which the profile names; it lists {', '.join(listed)}"
        )
    resource = wanted or next(iter(listed))
    count = listed[resource] if subject.profile.count is None else subject.profile.count
    registered = sorted({event.resource for event in world.trace.of(PluginRegistered)})
    is_found = "Register" not in plugin.calls and bool(list(world.trace.of(PluginSocketFound)))
    return replace(
        subject,
        resource=resource,
        count=count,
        resources=tuple(registered),
        options=frozenset(plugin.options),
        is_found=is_found,
    )
