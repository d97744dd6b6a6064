"""The buttons of a live page: each sends a step of a story, with what its inputs say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from simkubelet.model.words import number_of

from ..report.page import rendered
from ..story.specs import NodeSpec, PluginSpec

_XID = "79"
"""A GPU that has fallen off the bus."""


@dataclass(frozen=True, slots=True)
class Button:
    """Sends the step of a verb.

    Attributes:
        fields: The names of the inputs that give it values, besides the node.
        given: Its other values.
    """

    label: str
    verb: str
    fields: tuple[str, ...] = ()
    given: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Input:
    """A value of steps: one of `choices`, which are values and labels, or a whole number from 1 to `most`."""

    name: str
    label: str
    choices: tuple[tuple[str, str], ...] = ()
    value: str = ""
    most: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Buttons about one thing, after their inputs."""

    name: str
    buttons: tuple[Button, ...]
    inputs: tuple[Input, ...] = ()


def groups(gpus: int, plugins: Sequence[str]) -> Iterator[Group]:
    """What can be done to nodes with so many GPUs each, and with these plugins.

    Yields:
        The groups in the order to show.
    """
    kubelet = (Button("restart", "restartKubelet"), Button("stop", "stopKubelet"), Button("start", "startKubelet"))
    yield Group("kubelet", (*kubelet, Button("reboot node", "rebootNode")))
    if plugins:
        verbs = ("kill", "stop", "start", "pause", "resume")
        of_plugin = tuple(Button(verb, f"{verb}Plugin", ("plugin",)) for verb in verbs)
        yield Group("plugin", of_plugin, (Input("plugin", "plugin", tuple((name, name) for name in plugins)),))
    if gpus:
        choices = (*((str(index), f"GPU {index}") for index in range(gpus)), ('{"free": true}', "a free GPU"))
        xid = Button("report XID", "fail", ("gpu", "xid"))
        lost = Button("falls off the bus", "fail", ("gpu", "xid"), {"lost": True})
        inputs = (Input("gpu", "GPU", choices), Input("xid", "XID", value=_XID, most=(1 << 32) - 1))
        yield Group("GPU", (xid, lost, Button("heal", "heal", ("gpu",))), inputs)
        unloaded = {"call": "nvmlInit", "error": "DRIVER_NOT_LOADED"}
        calls = Button("calls fail", "failNvml", given={"call": "nvmlDeviceGet*", "error": "UNKNOWN"})
        no_driver = Button("driver not loaded", "failNvml", given=unloaded)
        yield Group("NVML", (no_driver, calls, Button("heal", "healNvml")))
    yield Group("container runtime", (Button("pause", "pauseRuntime"), Button("resume", "resumeRuntime")))
    states = tuple(Button(to, "changeCheckpoint", given={"to": to}) for to in ("corrupt", "removed"))
    yield Group("checkpoint", (*states, Button("disk full", "fillDisk"), Button("disk free", "freeDisk")))


def live_page(title: str, nodes: Sequence[NodeSpec], plugins: Sequence[PluginSpec]) -> str:
    """Return the HTML of the page of a cluster whose nodes are all alike."""
    gpus = nodes[0].gpus
    count = number_of(len(nodes), "node")
    return rendered(
        "live",
        title=title,
        about=f"{count}, Kubernetes {nodes[0].kubernetes}",
        nodes=[node.name for node in nodes],
        groups=list(groups(gpus.count if gpus else 0, [plugin.name for plugin in plugins])),
    )
