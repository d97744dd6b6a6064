"""The calls of the CRI that tell a kubelet whether the container runtime is well, and what runs."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["CriCall"]


class CriCall(StrEnum):
    """The names of the methods of ``runtime.v1.RuntimeService``."""

    STATUS = "Status"
    LIST_POD_SANDBOX = "ListPodSandbox"
    LIST_CONTAINERS = "ListContainers"
