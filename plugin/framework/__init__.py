"""What every device plugin needs: serving, registering, noticing a new kubelet, stopping cleanly.

A vendor writes a `DevicePlugin`: where its devices come from, what a container needs to use them, which options it has.
`run_plugins` does the rest until a signal, a fatal error or its restart policy ends it.
"""

from .device_plugin import (
    AllocationRefusedError,
    Device,
    DeviceID,
    DeviceList,
    DevicePlugin,
    Health,
    PluginOptions,
    ResourceName,
    StartError,
)
from .lifecycle import run_plugins
from .restart_policy import OnKubelet, OnSignal, RestartPolicy

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
    "run_plugins",
]
