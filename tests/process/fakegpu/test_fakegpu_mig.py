"""Partitioned GPUs: for their owner, and as NVML shows them."""

from __future__ import annotations

from collections.abc import Callable

from fakegpu import Machine
from tests.support.users import BECOME_NOBODY, needs_another_user


@needs_another_user
def test_who_is_no_administrator_may_look_but_not_change(machine: Machine, see: Callable[[Machine, str], str]) -> None:
    machine.mig(0).create("1g.10gb")
    code = f"""
n.nvmlInit()
{BECOME_NOBODY}
h = n.nvmlDeviceGetHandleByIndex(0)
print(n.nvmlDeviceGetName(n.nvmlDeviceGetMigDeviceHandleByIndex(h, 0)))
for call in (lambda: n.nvmlDeviceSetMigMode(h, 0), lambda: n.nvmlDeviceCreateGpuInstance(h, 19)):
    try: call()
    except n.NVMLError_NoPermission: print("no permission")
"""
    assert see(machine, code) == "NVIDIA H100 80GB HBM3 MIG 1g.10gb\nno permission\nno permission\n"
