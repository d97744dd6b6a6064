"""What runs in a story's pods on a cluster: a stand-in for every container, as none of a book-keeping node runs.

A stand-in needs no image of the world, ends with status 0 when it is asked to, and with any other when the story says
so. An init container that is no sidecar ends at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...marked_processes import MARK
from .image import PluginImage

_PROGRAM: Final = """\
import os, signal
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
signal.signal(signal.SIGUSR1, lambda *_: os._exit(int(open("/exit-code").read())))
while True:
    signal.pause()
"""


def manifest_with_stand_ins(
    manifest: Mapping[str, Any], image: PluginImage, story: Mapping[str, str]
) -> dict[str, Any]:
    """A pod's manifest with every container's image and command replaced, and the run's labels."""
    metadata, spec = manifest["metadata"], manifest["spec"]
    pod = metadata["name"]
    init = [
        _container(one, pod, image, is_lasting=one.get("restartPolicy") == "Always")
        for one in spec.get("initContainers", ())
    ]
    containers = [_container(one, pod, image, is_lasting=True) for one in spec["containers"]]
    return {
        **manifest,
        "metadata": {**metadata, "namespace": "default", "labels": {**metadata.get("labels", {}), **story}},
        "spec": {
            "automountServiceAccountToken": False,
            **spec,
            **({"initContainers": init} if init else {}),
            "containers": containers,
        },
    }


def mark_of(pod: str, container: str) -> str:
    """By what the processes of a pod's container are found on the node."""
    return f"pod/{pod}/{container}"


def _container(container: Mapping[str, Any], pod: str, image: PluginImage, is_lasting: bool) -> dict[str, Any]:
    kept = {key: value for key, value in container.items() if key != "args"}
    program = _PROGRAM if is_lasting else ""
    env = [*container.get("env", ()), {"name": MARK, "value": mark_of(pod, container["name"])}]
    return {
        **kept,
        "image": image.reference,
        "imagePullPolicy": "Never",
        "command": [image.python, "-I", "-S", "-c", program],
        "env": env,
    }
