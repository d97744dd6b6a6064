"""The pods of a story on a cluster: their manifests in the cluster's names, and the programs that run in them.

A container runs a stand-in, or its own program where the story's nodes run processes. A stand-in needs no image from
a registry, ends with status 0 a moment after SIGTERM, and with another status when a step says so. An init container
without restartPolicy Always ends at once. The moment decides what a kubelet does with a container that it both
terminates and kills: without it either may win.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from simkubelet.model.errors import InputError

from ...story.specs import NodeSpec, Runtime
from ..world.marked_processes import MARK
from .daemon_set import LABELS
from .image import PluginImage
from .node import KindNode
from .program import PROGRAMS, Program, archive_of, carried, volume_of

_PROGRAM: Final = """\
import signal, sys, time
ends = {signal.SIGTERM, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, ends)
if signal.sigwait(ends) == signal.SIGUSR1:
    sys.exit(int(open("/exit-code").read()))
time.sleep(5)
"""
"""What a stand-in does: it ends well on SIGTERM, but later than after the two seconds that a kubelet gives to the
containers of a pod which it has refused, so that these are killed on a busy machine, too.
"""
_NAMING: Final = ("nodeName", "nodeSelector", "affinity")
"""The parts of a pod's specification in which a node, or the label that every node has of its name, may stand."""
_Value = TypeVar("_Value", str, str | None)


class KindPods:
    """Makes a story's manifests into the cluster's.

    Args:
        specs: The story's nodes. Where they run the processes of containers, a container runs its own program.
        nodes: The cluster's, to which programs are brought, as any of them may get a pod.
        image: What containers run in.

    Attributes:
        runs_programs: Whether containers are processes of the story's own.
    """

    def __init__(self, specs: Collection[NodeSpec], nodes: Collection[KindNode], image: PluginImage) -> None:
        self.runs_programs = any(spec.runtime is Runtime.PROCESS for spec in specs)
        self._nodes = nodes
        self._image = image
        self._story = uuid.uuid4()

    async def manifest(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """What to give to the cluster for a manifest of the story.

        Raises:
            InputError: A program of it cannot run on a node.
            HostError: A program cannot be brought there.
        """
        programs = own_programs(manifest) if self.runs_programs else {}
        if programs:
            archive = archive_of(programs.values())
            for node in self._nodes:
                await node.put(archive)
        names = {node.name: node.container for node in self._nodes}
        return placed(manifest_for_cluster(manifest, self._image, LABELS, programs), names)

    async def static_manifest(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The content of a static pod's file on a node.

        A kubelet makes the pod's id from this content and the file's name, and for a known id it continues with what
        the runtime still has of an ended pod. So that no story continues with another's pod, the id is given: the same
        for the same manifest, as a kubelet's would be, and of this story alone.

        Raises:
            InputError: A program of it cannot run on a node.
            HostError: A program cannot be brought there.
        """
        made = await self.manifest(manifest)
        uid = uuid.uuid5(self._story, json.dumps(made, sort_keys=True)).hex
        return made | {"metadata": {"uid": uid} | made["metadata"]}


def own_programs(manifest: Mapping[str, Any]) -> dict[str, Program]:
    """Container -> the program that its command names on this machine.

    Raises:
        InputError: One has none, or cannot run anywhere else.
    """
    spec, found = manifest["spec"], {}
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        argv = (*container.get("command", ()), *container.get("args", ()))
        where = f"pod '{manifest['metadata']['name']}': container '{container['name']}'"
        if not container.get("command"):
            raise InputError(f"{where} needs a command, as no image is read")
        try:
            found[container["name"]] = carried(argv)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    return found


def manifest_for_cluster(
    manifest: Mapping[str, Any], image: PluginImage, story: Mapping[str, str], programs: Mapping[str, Program]
) -> dict[str, Any]:
    """A pod's manifest with every container's image and command replaced, and the run's labels.

    Args:
        manifest: As the story has it.
        image: What containers run in.
        story: The run's labels.
        programs: Container -> what runs there instead of a stand-in.
    """
    metadata, spec = manifest["metadata"], manifest["spec"]
    pod = metadata["name"]
    init = [
        _container(one, pod, image, programs.get(one["name"]), is_lasting=one.get("restartPolicy") == "Always")
        for one in spec.get("initContainers", ())
    ]
    containers = [_container(one, pod, image, programs.get(one["name"]), is_lasting=True) for one in spec["containers"]]
    paths = sorted({path for program in programs.values() for path in program.files})
    volumes = [{"name": volume_of(path), "hostPath": {"path": f"{PROGRAMS}{path}"}} for path in paths]
    return {
        **manifest,
        "metadata": {**metadata, "namespace": "default", "labels": {**metadata.get("labels", {}), **story}},
        "spec": {
            "automountServiceAccountToken": False,
            **spec,
            **({"initContainers": init} if init else {}),
            "containers": containers,
            **({"volumes": [*spec.get("volumes", ()), *volumes]} if volumes else {}),
        },
    }


def mark_of(pod: str, container: str) -> str:
    """By what the processes of a pod's container are found on the node."""
    return f"pod/{pod}/{container}"


def _container(
    container: Mapping[str, Any], pod: str, image: PluginImage, program: Program | None, is_lasting: bool
) -> dict[str, Any]:
    made = {key: value for key, value in container.items() if key != "args"}
    env = [*container.get("env", ()), {"name": MARK, "value": mark_of(pod, container["name"])}]
    if program is None:
        command = [image.python, "-I", "-S", "-c", _PROGRAM if is_lasting else ""]
    else:
        command = list(program.argv)
        env = [*({"name": key, "value": value} for key, value in image.environment.items()), *env]
        mounts = [{"name": volume_of(path), "mountPath": str(path)} for path in sorted(program.files)]
        made["volumeMounts"] = [*container.get("volumeMounts", ()), *mounts]
    return {**made, "image": image.reference, "imagePullPolicy": "Never", "command": command, "env": env}


def placed(pod: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A manifest for a cluster whose nodes have other names.

    Args:
        pod: With the story's names.
        names: A node's name in the story -> the cluster's.
    """
    named = {part: renamed(pod["spec"][part], names) for part in _NAMING if part in pod["spec"]}
    placed = {**pod, "spec": {**pod["spec"], **named}}
    if annotations := pod["metadata"].get("annotations"):
        placed["metadata"] = {**pod["metadata"], "annotations": annotated(annotations, names)}
    return placed


def annotated(annotations: Mapping[str, _Value], names: Mapping[str, str]) -> dict[str, _Value | str]:
    """Annotations or labels for such a cluster: a value may be a node's name, as schedulers write it."""
    return {key: value if value is None else names.get(value, value) for key, value in annotations.items()}


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A part of a manifest in which each text that is a node's name in the story is the cluster's."""
    match value:
        case str():
            return names.get(value, value)
        case Mapping():
            return {key: renamed(part, names) for key, part in value.items()}
        case list() | tuple():
            return [renamed(part, names) for part in value]
        case _:
            return value
