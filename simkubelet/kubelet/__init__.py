"""The kubelet: what puts its parts together, one instance for each start of its process."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .kubelet import CONTAINER_LOGS, DEVICE_PLUGINS, START_S, Kubelet, new_runtime
    from .services import PLUGINS_REGISTRY, POD_RESOURCES
else:
    from .._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            ".kubelet": ("CONTAINER_LOGS", "DEVICE_PLUGINS", "START_S", "Kubelet", "new_runtime"),
            ".services": ("PLUGINS_REGISTRY", "POD_RESOURCES"),
        },
    )

__all__ = [
    "CONTAINER_LOGS",
    "DEVICE_PLUGINS",
    "PLUGINS_REGISTRY",
    "POD_RESOURCES",
    "START_S",
    "Kubelet",
    "new_runtime",
]
