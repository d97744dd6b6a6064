"""What containerd answers when a container cannot be made or started; the kubelet shows these texts as they are.

Source: internal/cri/server/container_create.go and container_start.go (containerd v2.1.4),
libcontainer/process_linux.go and container_linux.go (runc v1.4.0).
"""

from __future__ import annotations

import secrets

from .container_runtime import ContainerStartError, StartFailure

__all__ = ["init_error", "injection_error", "refused_container", "refused_spec"]


def refused_spec(words: str) -> ContainerStartError:
    """What the kubelet asked for cannot be put into an OCI spec."""
    container_id = secrets.token_hex(32)
    message = f'failed to generate container "{container_id}" spec: failed to generate spec: {words}'
    return ContainerStartError(StartFailure.CREATE, message)


def refused_container(words: str) -> ContainerStartError:
    """The spec stands, and what changes it further failed."""
    return ContainerStartError(StartFailure.CREATE, f"failed to create containerd container: {words}")


def injection_error(words: str) -> ContainerStartError:
    """CDI devices cannot be given to the container."""
    return refused_container(f"CDI device injection failed: {words}")


def init_error(words: str) -> ContainerStartError:
    """The container was created, and its first process could not become the program."""
    return ContainerStartError(
        StartFailure.RUN,
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
        f"unable to start container process: error during container init: {words}: unknown",
    )
