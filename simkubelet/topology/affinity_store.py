"""The hints that containers were admitted with.

Source: topologymanager/scope.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from ..model.pod import PodUID
from .hint import NO_HINT, TopologyHint

__all__ = ["AffinityStore"]


class AffinityStore:
    """Pod -> container -> hint.

    Hints stay for the life of the kubelet. The real one drops those of a container that is removed; nobody asks for
    them again, as an admission sets its pod's anew.
    """

    def __init__(self) -> None:
        self._hints: dict[PodUID, dict[str, TopologyHint]] = {}

    def get_affinity(self, pod_uid: PodUID, container: str) -> TopologyHint:
        """The hint of a container; `NO_HINT` when it has none."""
        return self._hints.get(pod_uid, {}).get(container, NO_HINT)

    def set_affinity(self, pod_uid: PodUID, container: str, hint: TopologyHint) -> None:
        self._hints.setdefault(pod_uid, {})[container] = hint
