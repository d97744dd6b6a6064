"""Fake NVIDIA GPUs: a folder of files that makes any process see GPUs through NVML, and lets its owner break them.

from fakegpu import Machine

machine = Machine.create("/tmp/node-1", profile="h100-80gb", count=8)
subprocess.run(["nvidia-smi", "-L"], env=os.environ | machine.environment())
machine.fail(3, xid=79)
machine.destroy()
"""

from __future__ import annotations

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
