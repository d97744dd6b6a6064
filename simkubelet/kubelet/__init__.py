"""The kubelet: what puts its parts together, one instance for each start of its process."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .feature_gates import read_feature_gates
    from .kubelet import CONTAINER_LOGS, START_S, Kubelet, new_runtime
else:
    from .._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            ".feature_gates": ("read_feature_gates",),
            ".kubelet": ("CONTAINER_LOGS", "START_S", "Kubelet", "new_runtime"),
        },
    )

__all__ = [
    "CONTAINER_LOGS",
    "START_S",
    "Kubelet",
    "new_runtime",
    "read_feature_gates",
]
