"""The plugins of a story: which program, and for the scriptable one what it serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StrictBool, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from .capability import Capability
from .part import Name, Part, ResourceName
from .verbs.plugin_action import Device

Builtin: TypeAlias = Literal[
    "amd", "generic", "gopher", "gpu-memory", "gpushare", "iluvatar", "nvidia", "nvidia-mps", "stub", "volcano"
]
"""A bundled plugin."""


class Registers(StrEnum):
    """When the stub registers without a step."""

    ALWAYS = "always"
    """At its start, and again for each new kubelet."""
    ONCE = "once"
    """At its start only."""
    NEVER = "never"


class Serves(Part):
    """What a plugin with ``builtin: stub`` serves.

    Attributes:
        socket: The name of its socket in the plugins' folder; the plugin's name with ``.sock`` where it is left out.
        devices: The first list.
        pre_start: Whether it asks for PreStartContainer.
        preferred_allocation: Whether it offers GetPreferredAllocation.
    """

    resource: ResourceName = "example.com/device"
    socket: Annotated[StrictStr, Field(pattern=r"^[-A-Za-z0-9_.]+$")] | None = None
    devices: tuple[Device, ...] = ()
    registers: Registers = Registers.ALWAYS
    pre_start: StrictBool = False
    preferred_allocation: StrictBool = False


_OVER_THE_API = frozenset({"gpu-memory", "gpushare", "volcano"})


class PluginSpec(Part):
    """A device plugin, run on every node and started again when it exits, as a DaemonSet would.

    Attributes:
        builtin: One of the bundled plugins.
        command: Any other program's argv.
        serves: What the builtin ``stub`` serves.
        tap: Whether it talks to the kubelet through a tap, which records its calls and can answer them in another way.
        api: Whether it is given the API server, and its node's name as ``NODE_NAME``: a kubeconfig as ``KUBECONFIG``,
            on a cluster a service account. The bundled plugins that need it always get it.
        start: Whether it runs from the beginning, or from the step that starts it.
        quirks: Whose behaviour a builtin follows; it says nothing to a program in its place.
        args: Appended to the argv of either, and of a program in their place.
        env: Added to the plugin's environment.
    """

    name: Name
    builtin: Builtin | None = None
    command: Annotated[tuple[StrictStr, ...], Field(min_length=1)] | None = None
    serves: Serves | None = None
    tap: StrictBool = False
    api: StrictBool = False
    start: Literal["with-node", "manual"] = "with-node"
    quirks: Literal["article", "original"] | None = None
    args: tuple[StrictStr, ...] = ()
    env: Mapping[Annotated[StrictStr, Field(pattern="^[^=]+$")], StrictStr] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_program(self) -> PluginSpec:
        if (self.builtin is None) == (self.command is None):
            raise PydanticCustomError("program", "needs exactly one of 'builtin' and 'command'")
        if self.serves is not None and self.builtin != "stub":
            raise PydanticCustomError("program", "only 'builtin: stub' serves what 'serves' says")
        if self.quirks is not None and self.builtin is None:
            raise PydanticCustomError("program", "only a 'builtin' has 'quirks'; give a program of yours 'args'")
        return self

    @property
    def builtin_args(self) -> tuple[str, ...]:
        """The arguments that follow the name of a builtin."""
        return (*(("--quirks", self.quirks) if self.quirks else ()), *self.args)

    def foreign_program(self, replacement: Sequence[str] | None) -> tuple[str, ...]:
        """The argv of a program that is not built in, with the story's arguments; empty where the builtin is run.

        Args:
            replacement: What takes the place of the story's own program.
        """
        program = replacement or self.command
        return (*program, *self.args) if program else ()

    @property
    def is_stub(self) -> bool:
        """Whether it understands the verbs of `plugin_action.StubAction`."""
        return self.builtin == "stub"

    @property
    def uses_api(self) -> bool:
        """Whether it talks to the API server."""
        return self.api or self.builtin in _OVER_THE_API

    @property
    def tells_calls(self) -> bool:
        """Whether it is known what the kubelet asks it, and the verbs of `plugin_action.CallAction` act on it."""
        return self.is_stub or self.tap

    @property
    def needed(self) -> frozenset[Capability]:
        """What a backend must be able to do to run it."""
        program = Capability.COMMAND_PLUGINS if self.builtin is None else Capability.BUILTIN_PLUGINS
        started = () if self.start == "with-node" else (Capability.PLUGIN_PROCESSES,)
        return frozenset((Capability.NODE_VIEW, program, *started))
