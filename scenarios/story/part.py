"""What the parts of a story document are made of: base classes, types of fields, and what a part needs of a backend.

Parts are frozen, their keys are camelCase, and an unknown key is an error. Types are strict at the leaves: ``"8"`` is
text and ``1.30`` is a number, so neither is taken for the other.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from simkubelet.model.version import Version, version

from ..trace.trace import Event

DataPath = tuple[str | int, ...]
"""Where a value is in a document: keys and list indices from the top."""


class Part(BaseModel):
    """Base of all parts of a story document."""

    # A story is checked by the model of the whole document: no part needs a validator of its own at import.
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, defer_build=True)


class FilledPart(Part):
    """Base of those parts that say nothing without a key."""

    @model_validator(mode="after")
    def _names_something(self) -> FilledPart:
        if not self.model_fields_set:
            keys = ", ".join(f"'{field.alias}'" for field in type(self).model_fields.values())
            raise PydanticCustomError("nothing", f"needs at least one of {keys}")
        return self


def _absolute(path: str) -> str:
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts:
        raise PydanticCustomError("path", "expected an absolute path on the node without '..'")
    return str(pure)


Name = Annotated[StrictStr, Field(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=253)]
"""A name as Kubernetes takes it for nodes and pods (DNS subdomain)."""

ResourceName = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$")]
"""A resource as a node publishes it, for example ``nvidia.com/gpu``."""

HeldName = Annotated[StrictStr, Field(pattern=r"^(claim:)?[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$")]
"""What has devices, in the status of a container: a resource, ``claim:NAME``, or ``claim:NAME/REQUEST``."""

MetadataKey = Annotated[
    StrictStr,
    Field(pattern=r"^([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"),
]
"""The key of a label or an annotation, for example ``example.com/rack`` (qualified name)."""

LABEL_VALUE: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
"""What the API server takes as a label's value."""

NodePath = Annotated[StrictStr, AfterValidator(_absolute)]
"""A file on the node, as a plugin with host paths would name it."""

Count = Annotated[StrictInt, Field(ge=0)]
"""A whole number, zero or more."""


def _parameter_value(value: object) -> object:
    if isinstance(value, str | bool | int):
        return value
    raise PydanticCustomError("parameter", "expected text, a whole number, or true or false")


ParameterValue = Annotated[
    str | bool | int, PlainValidator(_parameter_value), WithJsonSchema({"type": ["string", "boolean", "integer"]})
]
"""What a parameter of a story can be."""

PARAMETER_NAME: Final = r"^[A-Za-z][-A-Za-z0-9_]*$"
"""How a parameter of a story can be called."""

_DURATION = r"^(?=[0-9])(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?(?:([0-9]+)ms)?$"
_LONGEST_S = 7 * 24 * 3600
_MAX_DIGITS = 12
_UNITS_MS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


def parse_duration(text: object) -> float:
    """Read a duration such as ``1h30m`` and return seconds; anything else is a `ValueError`."""
    match = re.fullmatch(_DURATION, text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"expected a duration like 200ms, 10s, 5m or 1h30m; found {text!r}")
    if any(len(count or "") > _MAX_DIGITS for count in match.groups()):
        raise ValueError(f"expected a duration of at most {_LONGEST_S // 3600}h")
    amounts_ms = (int(count or 0) * size_ms for count, size_ms in zip(match.groups(), _UNITS_MS.values(), strict=True))
    seconds = sum(amounts_ms) / 1000
    if seconds > _LONGEST_S:
        raise ValueError(f"expected a duration of at most {_LONGEST_S // 3600}h; found {text!r}")
    return seconds


def format_duration(seconds: float) -> str:
    """Write seconds as a story would, rounded to whole milliseconds: ``5400.0`` becomes ``1h30m``."""
    rest_ms = round(seconds * 1000)
    parts = []
    for unit, size_ms in _UNITS_MS.items():
        count, rest_ms = divmod(rest_ms, size_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _seconds(text: object) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise PydanticCustomError("duration", "{reason}", {"reason": str(error)}) from error


Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _DURATION, "examples": ["200ms", "10s", "5m", "1h30m"]}),
]
"""A span of time in whole milliseconds, such as ``200ms``, ``10s``, ``5m`` or ``1h30m``; the field holds seconds."""

_NUMBER: Final = r"1\.[0-9]+(?:\.[0-9]+)?"
_COMPARISON: Final = rf"(?:<=|>=|<|>) ?{_NUMBER}"
_ALL_OF: Final = rf"{_COMPARISON}(?:, ?{_COMPARISON})*"
_CONDITION: Final = rf"^{_ALL_OF}(?: ?\|\| ?{_ALL_OF})*$"
_COMPARE: Final[dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def is_condition(text: str) -> bool:
    """Whether a text is a `KubernetesCondition`."""
    return re.fullmatch(_CONDITION, text) is not None


def _condition(text: str) -> str:
    if is_condition(text):
        return text
    raise PydanticCustomError(
        "condition", "expected a condition on the version, such as '>=1.37' or '<1.26.5 || >=1.27, <1.28'"
    )


KubernetesVersion = Annotated[StrictStr, Field(pattern=rf"^{_NUMBER}$")]
"""A minor, which stands for the patch of it that the simulated kubelet follows, or one of its patches."""

KubernetesCondition = Annotated[
    StrictStr, AfterValidator(_condition), WithJsonSchema({"type": "string", "pattern": _CONDITION})
]
"""Comparisons with versions: all must hold, or where ``||`` parts them all on one side of it.

``<1.26.5 || >=1.27, <1.27.2`` holds before 1.26.5, and in 1.27 before 1.27.2. A condition that names a minor looks at
nothing but the minor: 1.34.4 meets ``<=1.34``.
"""


def is_met(condition: str, kubernetes: str) -> bool:
    """Whether a version is as a condition wants it.

    Raises:
        InputError: The version is not simulated.
    """
    here = version(kubernetes)
    return any(_holds(side, here) for side in condition.split("||"))


def _holds(comparisons: str, here: Version) -> bool:
    found = re.findall(rf"([<>]=?) ?({_NUMBER})", comparisons, re.ASCII)
    wanted = [(_COMPARE[sign], _minor_and_patch(number)) for sign, number in found]
    return all(compare(here[: len(there)], there) for compare, there in wanted)


def versions_in(condition: str) -> tuple[str, ...]:
    """The versions that a condition compares with."""
    return tuple(re.findall(_NUMBER, condition, re.ASCII))


def _minor_and_patch(number: str) -> tuple[int, ...]:
    """The minor, and the patch where one is named."""
    return tuple(int(part) for part in number.split(".")[1:])


class Capability(StrEnum):
    """What not every backend can do; nodes, plugins and verbs declare which of it they need.

    The value completes "cannot …" in a reason to skip.
    """

    SEVERAL_NODES = "run so many nodes"
    FAKE_GPUS = "give a node fake GPUs"
    GPU_FAULTS = "inject GPU faults"
    NODE_FILES = "change files on a node"
    NODE_FOLDERS = "take a folder from a node"
    RESTART_KUBELET = "restart a kubelet"
    REBOOT_NODE = "reboot a node"
    POD_ORDER = "choose the order in which a kubelet admits pods"
    FULL_DISK = "leave a kubelet no room for its checkpoint"
    SYNC_NODE_STATUS = "let a kubelet publish its node at will"
    PAUSE_RUNTIME = "pause a container runtime"
    REFUSE_CRI = "let a container runtime refuse calls"
    CHANGE_CHECKPOINT = "change a kubelet's checkpoint"
    KUBELET_SETTINGS = "set up a kubelet's topology policy or feature gates"
    API_FEATURE_GATES = "switch a feature gate that the API server has too"
    API_VERSIONS = "choose which versions of API groups the API server serves"
    FAKE_NUMA_NODES = "give a machine NUMA nodes"
    MESSAGE_LIMIT = "change the size of messages that a kubelet reads"
    PROCESS_RUNTIME = "run the processes of containers"
    EXIT_CONTAINER = "let a container end by itself"
    PLUGIN_PROCESSES = "start and stop a plugin at will"
    PLUGIN_BEFORE_KUBELET = "start a plugin while the kubelet is stopped"
    MEASURE_PLUGINS = "look at a plugin's process and its folder"
    RUN_COMMANDS = "run a program of this machine"
    ADVANCE_TIME = "let node time pass at will"
    BUILTIN_PLUGINS = "run the bundled plugins"
    COMMAND_PLUGINS = "run any program as a plugin"
    DEVICE_SELECTORS = "compile selectors of devices"
    NODE_VIEW = "show plugins their node as its root sees it"


class Action(BaseModel):
    """Base of all verbs: what a step asks a backend to perform.

    The class of a verb is the document's part, and a backend takes it as it is; a selector such as
    ``{heldBy: trainer}`` is resolved when the step is performed. It also has all else that is known of the verb.
    `Step`, the JSON Schema and the page about stories are made from these classes; each backend has a handler for each.

    Attributes:
        verb: The key in a story: ``restartKubelet`` for `RestartKubelet`.
        section: The heading in the page about stories below which the verb stands.
        capability: What a backend must be able to do; None where every one can.
        events: What it leaves in the trace, at once or soon afterwards.
    """

    verb: ClassVar[str]
    section: ClassVar[str]
    capability: ClassVar[Capability | None] = None
    events: ClassVar[tuple[type[Event], ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        cls.verb = cls.__name__[0].lower() + cls.__name__[1:]

    @property
    def title(self) -> str:
        """What it does in a few words."""
        return self.verb

    @property
    def needed(self) -> frozenset[Capability]:
        """All that a backend must be able to do."""
        return frozenset(() if self.capability is None else (self.capability,))

    @property
    def pods_named(self) -> Iterable[tuple[str, DataPath]]:
        """The pods that steps before this one must have created, each with the path of its name below the verb."""
        return ()

    @property
    def files_made(self) -> tuple[str, ...]:
        """The paths of a node at which it may make files."""
        return ()


class NodeAction(Action, Part):
    """Base of the verbs that act on one node; the only one where none is named.

    Attributes:
        node: The node; the only one where none is named.
    """

    node: Name | None = None
