"""What runs in a story's pods on a cluster: a stand-in for every container, or the container's own program.

A stand-in needs no image of the world, ends with status 0 a moment after it is asked to, and with any other when the
story says so. An init container that is no sidecar ends at once.

The moment decides what a kubelet does with a container that it both asks to end and kills: without it either may win.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simkubelet.model.errors import InputError

from ..world.marked_processes import MARK
from .image import PluginImage
from .program import PROGRAMS, Program, carried, volume_of

_PROGRAM: Final = """\
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(2), os._exit(0)))
signal.signal(signal.SIGUSR1, lambda *_: os._exit(int(open("/exit-code").read())))
while True:
    signal.pause()
"""


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
