"""What a container runs, as its manifest says it: argv, working directory, environment, termination message.

Source: kubelet/container/helpers.go, ``ExpandContainerCommandAndArgs``; kubelet/kubelet_pods.go,
``makeEnvironmentVariables``; third_party/forked/golang/expansion/expand.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..model.errors import InputError
from ..model.pod import Container, Pod

__all__ = ["Program", "container_manifest", "expand", "program_of"]

# An escaped `$`, or a reference with any name, which need not be one that a shell would take.
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
_TERMINATION_LOG: Final = "/dev/termination-log"


@dataclass(frozen=True, slots=True)
class Program:
    """The process of a container.

    Attributes:
        argv: Command and arguments; empty where the manifest leaves both to the image.
        working_dir: An absolute path, ``/`` where the manifest leaves it to the image.
        env: The pod's variables over those of the plugins.
        termination_message_path: Where the program leaves a message for its status.
        is_log_the_message: Whether the end of the log stands in for a missing message of a failure.
    """

    argv: tuple[str, ...]
    working_dir: str
    env: Mapping[str, str]
    termination_message_path: str
    is_log_the_message: bool


def program_of(pod: Pod, container: Container, plugin_env: Mapping[str, str]) -> Program:
    """What one container of a pod runs; `plugin_env` is what the device plugins added.

    Raises:
        InputError: command or arguments are no lists of texts.
    """
    manifest = container_manifest(pod, container)
    own: dict[str, str] = {}
    for name, value in container.env.items():
        own[name] = expand(value, own)
    env = {**plugin_env, **own}
    argv = [*_texts(pod, container, manifest, "command"), *_texts(pod, container, manifest, "args")]
    return Program(
        argv=tuple(expand(text, env) for text in argv),
        working_dir=str(manifest.get("workingDir") or "/"),
        env=env,
        termination_message_path=str(manifest.get("terminationMessagePath") or _TERMINATION_LOG),
        is_log_the_message=manifest.get("terminationMessagePolicy") == "FallbackToLogsOnError",
    )


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace each ``$(NAME)`` by its variable, where there is one; ``$$`` is a ``$`` that begins no reference."""

    def replacement(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    return _REFERENCE.sub(replacement, text)


def container_manifest(pod: Pod, container: Container) -> Mapping[str, Any]:
    """What a pod's manifest says of one of its containers."""
    spec = pod.manifest.get("spec") or {}
    manifests = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return next((manifest for manifest in manifests if manifest.get("name") == container.name), {})


def _texts(pod: Pod, container: Container, manifest: Mapping[str, Any], key: str) -> tuple[str, ...]:
    texts = manifest.get(key) or ()
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"pod {pod.name!r}: container {container.name!r}: {key}: must be a list of texts")
    return tuple(texts)
