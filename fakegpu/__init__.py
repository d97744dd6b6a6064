"""Fake NVIDIA GPUs: a folder of files that makes any process see GPUs through NVML, and lets its owner break them.

from fakegpu import Machine

machine = Machine.create("/tmp/node-1", profile="h100-80gb", count=8)
subprocess.run(["nvidia-smi", "-L"], env=os.environ | machine.environment())
machine.fail(3, xid=79)
machine.destroy()
"""

from __future__ import annotations

import importlib
import typing

if typing.TYPE_CHECKING:
    from .cdi import cdi_spec
    from .cdi_hook import make_cdi_hook
    from .driver_root import make_driver_root
    from .errors import FakeGpuError, HostError, InputError
    from .event_type import EventType
    from .folder import default_directory
    from .gpu import Gpu
    from .load import Load, Pattern
    from .machine import Machine
    from .rules import Hits
    from .schedule import When

__all__ = [
    "EventType",
    "FakeGpuError",
    "Gpu",
    "Hits",
    "HostError",
    "InputError",
    "Load",
    "Machine",
    "Pattern",
    "When",
    "cdi_spec",
    "default_directory",
    "make_cdi_hook",
    "make_driver_root",
]

_HOMES = {
    "EventType": "event_type",
    "FakeGpuError": "errors",
    "Gpu": "gpu",
    "Hits": "rules",
    "HostError": "errors",
    "InputError": "errors",
    "Load": "load",
    "Machine": "machine",
    "Pattern": "load",
    "When": "schedule",
    "cdi_spec": "cdi",
    "default_directory": "folder",
    "make_cdi_hook": "cdi_hook",
    "make_driver_root": "driver_root",
}
"""Module of each name, loaded when it is first asked for: most commands need few of them."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
