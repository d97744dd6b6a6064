"""Fake NVIDIA GPUs: a folder of files that makes any process see GPUs through NVML, and lets its owner break them.

::

    import os
    import subprocess

    from fakegpu import Machine

    machine = Machine.create("/tmp/node-1", profile="h100-80gb", count=8)
    subprocess.run(["nvidia-smi", "-L"], env=os.environ | machine.environment())
    machine.fail(3, xid=79)
    machine.destroy()

A `Profile` describes a model of GPU: `load_profile` reads one, `Machine.create` takes it or its name. Names are loaded
when they are first asked for. docs/profiles.md and docs/faults.md have more examples.
"""

from __future__ import annotations

import importlib
import typing

if typing.TYPE_CHECKING:
    from .errors import FakeGpuError, HostError, InputError
    from .faults.rules import Hits
    from .faults.schedule import When
    from .files.folder import default_directory
    from .load import Load, Pattern
    from .machine.containers import cdi_spec, make_cdi_hook, make_driver_root
    from .machine.machine import Machine
    from .profiles.profile import Profile, load_profile, profile_names
    from .state.event_type import EventType
    from .state.gpu import Gpu

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
    "Profile",
    "When",
    "cdi_spec",
    "default_directory",
    "load_profile",
    "make_cdi_hook",
    "make_driver_root",
    "profile_names",
]

_HOMES = {
    "EventType": "state.event_type",
    "FakeGpuError": "errors",
    "Gpu": "state.gpu",
    "Hits": "faults.rules",
    "HostError": "errors",
    "InputError": "errors",
    "Load": "load",
    "Machine": "machine.machine",
    "Pattern": "load",
    "Profile": "profiles.profile",
    "When": "faults.schedule",
    "cdi_spec": "machine.containers",
    "default_directory": "files.folder",
    "load_profile": "profiles.profile",
    "make_cdi_hook": "machine.containers",
    "make_driver_root": "machine.containers",
    "profile_names": "profiles.profile",
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
