"""What a device plugin of your own is made of; docs/write-a-plugin.md shows how.

::

    class Seats(DevicePlugin):
        resource_name, socket_name = "example.com/seat", "seats.sock"
        ...

    if __name__ == "__main__":
        sys.exit(run(lambda: [Seats()]))

The names are those of the framework that simkubelet's own plugins use, and `api` has the kubelet's messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._internal import bundle
from .apis import deviceplugin as api

if TYPE_CHECKING:
    # Where an installed package has it; in the checkout these names are Any.
    from ._bundled.plugin.command.launch import run  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from ._bundled.plugin.framework import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        AllocationRefusedError,
        Device,
        DeviceID,
        DeviceList,
        DevicePlugin,
        Health,
        OnKubelet,
        OnSignal,
        PluginOptions,
        ResourceName,
        RestartPolicy,
        StartError,
    )
else:
    _framework = bundle.load("plugin", "framework")
    globals().update({name: getattr(_framework, name) for name in _framework.__all__})
    run = bundle.load("plugin", "command.launch").run

__all__ = [
    "AllocationRefusedError",
    "Device",
    "DeviceID",
    "DeviceList",
    "DevicePlugin",
    "Health",
    "OnKubelet",
    "OnSignal",
    "PluginOptions",
    "ResourceName",
    "RestartPolicy",
    "StartError",
    "api",
    "run",
]
