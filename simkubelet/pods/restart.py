"""Whether a container that has ended is started again.

Source: kubelet/container/helpers.go, ``ShouldContainerBeRestarted``; pkg/api/v1/pod/util.go, ``ContainerShouldRestart``
(kubernetes v1.34.4).
"""

from __future__ import annotations

from ..model.pod import Container, ContainerKind, Pod

__all__ = ["is_restarted"]


def is_restarted(pod: Pod, container: Container, exit_code: int, *, by_container: bool) -> bool:
    """Whether a container that ended with `exit_code` gets another life.

    A sidecar always does. Its own rules and policy count for another container where `by_container` says that the gate
    ContainerRestartRules is on.
    """
    if container.kind is ContainerKind.SIDECAR:
        return True
    if by_container and any(rule.restarts_after(exit_code) for rule in container.restart_rules):
        return True
    own = container.restart_policy if by_container else None
    return (own or pod.restart_policy).restarts_after(exit_code)
