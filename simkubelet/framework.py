"""The framework for device plugins of your own; docs/write-a-plugin.md shows how to use it.

::

    class Seats(DevicePlugin):
        resource_name = "example.com/seat"
        ...

    if __name__ == "__main__":
        sys.exit(run(lambda: [Seats()]))

The names are those of the framework that simkubelet's own plugins use, and `api` has the kubelet's messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .apis import deviceplugin as api

if TYPE_CHECKING:
    # A wheel has a stub of this module in which the package is `simkubelet._bundled.plugin`; see CMakeLists.txt.
    from plugin.command.launch import run
    from plugin.framework import (
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
    from ._internal import bundle

    _framework = bundle.load("plugin", "framework")
    globals().update({name: getattr(_framework, name) for name in _framework.__all__ if name != "run_plugins"})
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
