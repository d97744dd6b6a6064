"""Event sets: who gets which event, within one process and across processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from fakegpu import Machine
from tests.support.patience import LIMIT_S


@pytest.mark.slow
def test_third_version_of_the_wait_names_the_uuid(machine: Machine, see: Callable[[Machine, str], str]) -> None:
    code = (
        "n.nvmlInit(); s = n.nvmlEventSetCreate(); h = n.nvmlDeviceGetHandleByIndex(1)\n"
        "n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, s)\n"
        "from fakegpu import Machine; import os\n"
        "m = Machine.open(os.path.dirname(os.environ['FAKEGPU_SEGMENT'])); m.fail(1, xid=48)\n"
        "p = n.c_nvmlEventSetWait_v3_t(); p.timeoutMs = 1000; n.nvmlEventSetWait_v3(s, p)\n"
        "u = p.uuid; print(u.decode() if isinstance(u, bytes) else u, p.eventData)"
    )

    assert see(machine, code) == f"{machine.gpu(1).uuid} 48\n"


WAITER = """
import sys, pynvml as n
n.nvmlInit()
events = n.nvmlEventSetCreate()
n.nvmlDeviceRegisterEvents(n.nvmlDeviceGetHandleByIndex(int(sys.argv[1])), n.nvmlEventTypeXidCriticalError, events)
print("ready", flush=True)
event = n.nvmlEventSetWait_v2(events, 20000)
print(event.eventData, n.nvmlDeviceGetIndex(event.device))
"""


@pytest.mark.slow
def test_waiters_in_several_processes_all_get_the_event(machine: Machine) -> None:
    with ExitStack() as stack:
        waiters = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", WAITER, "2"],
                    env=os.environ | machine.environment(),
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(3)
        ]
        for waiter in waiters:
            assert waiter.stdout is not None
            assert waiter.stdout.readline() == "ready\n"

        machine.fail(2, xid=79)

        assert [waiter.communicate(timeout=LIMIT_S)[0] for waiter in waiters] == ["79 2\n"] * 3


@pytest.mark.slow
def test_event_posted_by_the_command_line_reaches_a_waiter(machine: Machine) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITER, "1"], env=os.environ | machine.environment(), stdout=subprocess.PIPE, text=True
    ) as waiter:
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "ready\n"

        subprocess.run(
            [sys.executable, "-m", "fakegpu", "fail", "1", "--xid", "13", "--dir", machine.directory], check=True
        )

        assert waiter.communicate(timeout=LIMIT_S)[0] == "13 1\n"
