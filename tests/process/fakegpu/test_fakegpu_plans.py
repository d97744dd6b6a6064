"""Faults by plan: who carries them out, how often, and that nothing is lost or doubled."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from fakegpu import Machine
from fakegpu.faults.schedule import When
from tests.support.patience import LIMIT_S

COUNT_EVENTS = """
import pynvml as n
import sys
wanted = int(sys.argv[1])
n.nvmlInit()
h, events = n.nvmlDeviceGetHandleByIndex(0), n.nvmlEventSetCreate()
n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, events)
print("ready", flush=True)
seen = [n.nvmlEventSetWait_v2(events, 30000).eventData for _ in range(wanted)]
try: n.nvmlEventSetWait_v2(events, 100); print("one more")
except n.NVMLError_Timeout: print(len(seen))
"""


def waiters_of(machine: Machine, count: int, wanted: int, stack: ExitStack) -> list[subprocess.Popen[str]]:
    """Processes that have registered for the XIDs of GPU 0 and want so many."""
    waiters = [
        stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", COUNT_EVENTS, str(wanted)],
                env=os.environ | machine.environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        for _ in range(count)
    ]
    for waiter in waiters:
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "ready\n"
    return waiters


def test_wait_of_another_process_carries_out_a_plan(machine: Machine) -> None:
    with ExitStack() as stack:
        (waiter,) = waiters_of(machine, 1, 1, stack)
        machine.faults.xid(0, 79, when=When.of(after="100ms"))

        assert waiter.communicate(timeout=LIMIT_S)[0] == "1\n"

    assert machine._segment.flags() == 0, "the plan was carried out without us"
    assert machine.gpu(0).last_xid == 79


def post_hundred(machine: Machine) -> None:
    for _ in range(100):
        machine.fail(0, xid=13)


@pytest.mark.slow
def test_events_of_many_writers_reach_every_process_once(machine: Machine) -> None:
    with ExitStack() as stack:
        waiters = waiters_of(machine, 2, 400, stack)
        owners = [Machine.open(machine.directory) for _ in range(4)]
        threads = [threading.Thread(target=post_hundred, args=[owner]) for owner in owners]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [waiter.communicate(timeout=LIMIT_S)[0] for waiter in waiters] == ["400\n"] * 2

    assert machine._segment.read(0).fault.xid_count == 400


@pytest.mark.slow
def test_storm_reaches_every_process_once_and_in_full(machine: Machine) -> None:
    with ExitStack() as stack:
        waiters = waiters_of(machine, 3, 300, stack)
        machine.faults.xid(0, 94, when=When.of(after="10ms", every="1ms", times=300))

        counts = [waiter.communicate(timeout=LIMIT_S)[0] for waiter in waiters]

    assert counts == ["300\n"] * 3
    assert machine._segment.read(0).fault.xid_count == 300
