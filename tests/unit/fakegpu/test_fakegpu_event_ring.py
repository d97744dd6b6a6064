"""The ring and its cursors against a model that keeps every event in a list."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from fakegpu import Machine
from fakegpu.state.layout import EVENTS_MAX

XID, DOUBLE_BIT, TIMEOUT, GPU_IS_LOST = 0x8, 0x2, 10, 15
GPUS = 3


class EventData(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("instances", ctypes.c_ulonglong),
    ]


@dataclass(eq=False)
class Model:
    """One set: where it reads, and from which event on it wants each kind of each GPU."""

    handle: ctypes.c_void_p
    cursor: int
    wanted_from: dict[tuple[int, int | None], int] = field(default_factory=dict)


class RingMachine(RuleBasedStateMachine):
    sets = Bundle("sets")
    gpus = st.integers(0, GPUS - 1)

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="fg-ring-")
        self.machine = Machine.create(Path(self.folder) / "node", count=GPUS)
        self.nvml = ctypes.CDLL(str(self.machine.library))
        assert self.nvml.nvmlInit_v2() == 0
        self.devices = [ctypes.c_void_p() for _ in range(GPUS)]
        for index, device in enumerate(self.devices):
            assert self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0
        self.events: list[tuple[int, int | None, int]] = []

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.nvml.nvmlShutdown()
            self.machine.close()
            shutil.rmtree(self.folder)

    @rule(target=sets)
    def create(self) -> Model:
        handle = ctypes.c_void_p()
        assert self.nvml.nvmlEventSetCreate(ctypes.byref(handle)) == 0
        return Model(handle, len(self.events))

    @rule(event_set=sets, gpu=gpus, types=st.sampled_from([XID, DOUBLE_BIT, XID | DOUBLE_BIT]))
    def register(self, event_set: Model, gpu: int, types: int) -> None:
        code = self.nvml.nvmlDeviceRegisterEvents(self.devices[gpu], ctypes.c_ulonglong(types), event_set.handle)
        assert code == 0
        for kind in (XID, DOUBLE_BIT, None):
            if kind is None or types & kind:
                event_set.wanted_from.setdefault((gpu, kind), len(self.events))

    @rule(gpu=gpus, xid=st.integers(1, 200), times=st.sampled_from([1, 1, 1, 3, EVENTS_MAX - 1, EVENTS_MAX + 5]))
    def post_xid(self, gpu: int, xid: int, times: int) -> None:
        for _ in range(times):
            self.machine.fail(gpu, xid=xid)
            self.events.append((gpu, XID, xid))

    @rule(gpu=gpus)
    def lose_and_heal(self, gpu: int) -> None:
        self.machine.fail(gpu, lost=True)
        self.machine.heal(gpu)
        self.events.append((gpu, None, 0))

    @rule(event_set=sets, most=st.integers(1, 20))
    def wait(self, event_set: Model, most: int) -> None:
        for _ in range(most):
            data = EventData()
            code = self.nvml.nvmlEventSetWait_v2(event_set.handle, ctypes.byref(data), 0)
            expected = self.next_of(event_set)
            if expected is None:
                assert code == TIMEOUT
                return
            gpu, kind, xid = expected
            if kind is None:
                assert code == GPU_IS_LOST
            else:
                assert (code, data.device, data.type, data.data) == (0, self.devices[gpu].value, kind, xid)

    @rule(event_set=consumes(sets))
    def free(self, event_set: Model) -> None:
        assert self.nvml.nvmlEventSetFree(event_set.handle) == 0

    @invariant()
    def machine_keeps_its_gpus(self) -> None:
        if hasattr(self, "machine"):
            assert len(self.machine.gpus) == GPUS

    def next_of(self, event_set: Model) -> tuple[int, int | None, int] | None:
        position = max(event_set.cursor, len(self.events) - EVENTS_MAX)
        while position < len(self.events):
            event = self.events[position]
            position += 1
            event_set.cursor = position
            if event_set.wanted_from.get(event[:2], len(self.events) + 1) < position:
                return event
        event_set.cursor = position
        return None


RingMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestRing = pytest.mark.slow(RingMachine.TestCase)
