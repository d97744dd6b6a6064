"""The calls of the CRI with which a kubelet asks for the runtime's state and for its containers.

The image of a kind node holds this module without the rest of the package, so it imports nothing of the package.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["CriCall"]


class CriCall(StrEnum):
    """The names of the methods of ``runtime.v1.RuntimeService``."""

    STATUS = "Status"
    LIST_POD_SANDBOX = "ListPodSandbox"
    LIST_CONTAINERS = "ListContainers"
