"""Fake NVIDIA GPUs: a folder of files that makes any process see GPUs through NVML, and lets its owner break them.

from fakegpu import Machine

machine = Machine.create("/tmp/node-1", profile="h100-80gb", count=8)
subprocess.run(["nvidia-smi", "-L"], env=os.environ | machine.environment())
machine.fail(3, xid=79)
machine.destroy()
"""

from __future__ import annotations

from .cdi import cdi_spec
from .errors import FakeGpuError, HostError, InputError
from .gpu import Gpu
from .machine import Machine, default_directory

__all__ = ["FakeGpuError", "Gpu", "HostError", "InputError", "Machine", "cdi_spec", "default_directory"]
