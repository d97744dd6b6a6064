from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from plugin.command.plugin_command import Quirks
from plugin.framework import DeviceID
from plugin.nvidia.discovery.resources import NvidiaDevice
from plugin.nvidia.health import NO_INSTANCE, DeviceIDs, failing_devices
from plugin.nvml.events import XidPolicy
from plugin.nvml.nvml import EventType, GpuHandle, NvmlError, NvmlEvent, NvmlReturn
from tests.support.patience import LIMIT_S

GPUS = {"GPU-0": None, "GPU-1": None}
MIG = {"MIG-a": ("GPU-0", 1, 0), "MIG-b": ("GPU-0", 2, 0), "MIG-c": ("GPU-0", 2, 1)}


class Nvml:
    """The calls of the health check: handles are UUIDs, `failures` has UUID or call -> what is raised."""

    def __init__(self, **failures: int) -> None:
        self.failures = {name.replace("_in_", "-"): code for name, code in failures.items()}
        self.events: queue.Queue[NvmlEvent | NvmlError] = queue.Queue()
        self.registered: list[Any] = []
        self.initialised = 0

    def _call(self, name: str, subject: Any = None) -> None:
        for key in (name, f"{name} {subject}"):
            if key in self.failures:
                raise NvmlError(self.failures[key], f"{key} failed")

    def init(self) -> None:
        self._call("init")
        self.initialised += 1

    def shutdown(self) -> None:
        self.initialised -= 1

    def create_event_set(self) -> Any:
        self._call("create_event_set")
        return object()

    def free_event_set(self, events: Any) -> None:
        pass

    def gpu_by_uuid(self, uuid: str) -> Any:
        self._call("gpu_by_uuid", uuid)
        if uuid not in GPUS and uuid not in MIG:
            raise NvmlError(NvmlReturn.INVALID_ARGUMENT, "Invalid Argument")
        return uuid

    def parent(self, mig: Any) -> Any:
        self._call("parent", mig)
        return MIG[mig][0]

    def uuid(self, gpu: Any) -> str:
        self._call("uuid", gpu)
        return str(gpu)

    def gpu_instance_id(self, mig: Any) -> int:
        return MIG[mig][1]

    def compute_instance_id(self, mig: Any) -> int:
        return MIG[mig][2]

    def supported_events(self, gpu: Any) -> int:
        self._call("supported_events", gpu)
        return 0x1F

    def register_events(self, gpu: Any, event_types: int, events: Any) -> None:
        self._call("register_events", gpu)
        self.registered.append((gpu, event_types))

    def wait(self, events: Any, timeout_ms: int) -> NvmlEvent:
        # Shorter than asked for, so that no thread outlives the tests for long.
        try:
            event = self.events.get(timeout=0.1)
        except queue.Empty:
            raise NvmlError(NvmlReturn.TIMEOUT, "Timeout") from None
        if isinstance(event, NvmlError):
            raise event
        return event

    def xid(self, gpu: str, xid: int, gpu_instance: int = NO_INSTANCE, compute_instance: int = NO_INSTANCE) -> None:
        self.events.put(
            NvmlEvent(GpuHandle(gpu), EventType.XID_CRITICAL_ERROR, xid, gpu_instance, compute_instance),
        )


def gpu(number: int, device_id: str = "") -> NvidiaDevice:
    return device(device_id or f"GPU-{number}", f"GPU-{number}", str(number))


def mig(letter: str) -> NvidiaDevice:
    return device(f"MIG-{letter}", f"MIG-{letter}", f"0:{'abc'.find(letter)}")


def device(device_id: str, uuid: str, index: str) -> NvidiaDevice:
    return NvidiaDevice(DeviceID(device_id), uuid, index, (), None, 0, "9.0")


class Reports:
    """What the check has reported since it started."""

    def __init__(self, source: AsyncIterator[DeviceIDs]) -> None:
        self._source = source

    async def next(self) -> set[str]:
        async with asyncio.timeout(LIMIT_S):
            return set(await anext(self._source))


@asynccontextmanager
async def checking(
    nvml: Nvml, devices: Sequence[NvidiaDevice], quirks: Quirks = Quirks.ARTICLE, *, fail: bool = True, **policy: str
) -> AsyncIterator[Reports]:
    environment = {f"DP_{name.upper()}_HEALTHCHECKS": value for name, value in policy.items()}
    xids = XidPolicy.from_environment(environment)
    source = failing_devices(nvml, devices, xids, fail_on_init_error=fail, quirks=quirks)  # type: ignore[arg-type]
    async with aclosing(source):
        reports = Reports(source)
        assert await reports.next() == set()
        yield reports


async def test_xid_affects_the_gpu_that_reports_it() -> None:
    nvml = Nvml()
    async with checking(nvml, [gpu(0), gpu(1)]) as reports:
        nvml.xid("GPU-1", 79)

        assert await reports.next() == {"GPU-1"}
        assert nvml.registered == [("GPU-0", 0xB), ("GPU-1", 0xB)]


async def test_ignored_xids_other_events_and_unknown_gpus_are_passed_over() -> None:
    nvml = Nvml()
    async with checking(nvml, [gpu(0)], disable="48") as reports:
        nvml.xid("GPU-0", 13)
        nvml.xid("GPU-0", 48)
        nvml.xid("GPU-1", 79)
        nvml.events.put(NvmlEvent(GpuHandle("GPU-0"), EventType.DOUBLE_BIT_ECC_ERROR, 0))
        nvml.xid("GPU-0", 62)

        assert await reports.next() == {"GPU-0"}
        assert nvml.events.empty()


async def test_a_device_that_has_failed_before_is_reported_again() -> None:
    nvml = Nvml()
    async with checking(nvml, [gpu(0)]) as reports:
        for _ in range(2):
            nvml.xid("GPU-0", 79)
            assert await reports.next() == {"GPU-0"}


@pytest.mark.parametrize(
    ("quirks", "failing"),
    [
        pytest.param(Quirks.ARTICLE, {"GPU-0::0", "GPU-0::1", "GPU-0::2"}, id="all fail"),
        pytest.param(Quirks.ORIGINAL, {"GPU-0::2"}, id="in the original one fails"),
    ],
)
async def test_xid_on_a_shared_gpu(quirks: Quirks, failing: set[str]) -> None:
    nvml = Nvml()
    async with checking(nvml, [*(gpu(0, f"GPU-0::{n}") for n in range(3)), gpu(1, "GPU-1::0")], quirks) as reports:
        nvml.xid("GPU-0", 79)

        assert await reports.next() == failing


@pytest.mark.parametrize(
    ("instance", "failing"),
    [
        pytest.param((1, 0), {"MIG-a"}, id="only device of its GPU instance"),
        pytest.param((2, 1), {"MIG-c"}, id="one of two in a GPU instance"),
        pytest.param((NO_INSTANCE, NO_INSTANCE), {"MIG-a", "MIG-b", "MIG-c"}, id="the whole GPU"),
        pytest.param((2, NO_INSTANCE), {"MIG-a", "MIG-b", "MIG-c"}, id="without a compute instance: the whole GPU"),
    ],
)
async def test_xid_on_a_gpu_with_mig_devices(instance: tuple[int, int], failing: set[str]) -> None:
    nvml = Nvml()
    async with checking(nvml, [mig("a"), mig("b"), mig("c")]) as reports:
        nvml.xid("GPU-0", 79, *instance)

        assert await reports.next() == failing


async def test_xid_of_another_resources_instance_affects_no_device() -> None:
    nvml = Nvml()
    async with checking(nvml, [mig("a"), mig("b")]) as reports:
        nvml.xid("GPU-0", 79, 2, 1)
        nvml.xid("GPU-0", 79, 1, 0)

        assert await reports.next() == {"MIG-a"}


async def test_in_the_original_only_one_mig_device_of_a_gpu_can_ever_fail() -> None:
    nvml = Nvml()
    async with checking(nvml, [mig("a"), mig("b"), mig("c")], Quirks.ORIGINAL) as reports:
        nvml.xid("GPU-0", 79, 1, 0)
        nvml.xid("GPU-0", 79, 2, 0)
        nvml.xid("GPU-0", 79, 2, 1)
        nvml.xid("GPU-0", 79)

        assert await reports.next() == {"MIG-c"}
        assert await reports.next() == {"MIG-c"}


async def test_whole_gpu_fails_with_any_of_its_instances() -> None:
    nvml = Nvml()
    async with checking(nvml, [gpu(0)]) as reports:
        nvml.xid("GPU-0", 79, 2, 1)

        assert await reports.next() == {"GPU-0"}


async def test_mig_device_of_an_old_driver_is_placed_by_its_uuid() -> None:
    nvml = Nvml()
    old = device("MIG-GPU-1/7/0", "MIG-GPU-1/7/0", "1:0")
    async with checking(nvml, [old]) as reports:
        nvml.xid("GPU-1", 79, 8, 0)
        nvml.xid("GPU-1", 79, 7, 0)

        assert await reports.next() == {"MIG-GPU-1/7/0"}
        assert nvml.events.empty()


@pytest.mark.parametrize("failure", ["gpu_by_uuid GPU-0", "supported_events GPU-0", "register_events GPU-0"])
async def test_device_whose_events_cannot_be_had_fails_alone(failure: str) -> None:
    nvml = Nvml()
    nvml.failures[failure] = 999
    async with checking(nvml, [gpu(0), gpu(1)]) as reports:
        assert await reports.next() == {"GPU-0"}
        assert [gpu for gpu, _ in nvml.registered] == ["GPU-1"]


@pytest.mark.parametrize(
    "uuid", ["MIG-unknown", "MIG-GPU-1/x/0", "MIG-GPU-1/0", "MIG-GPU-1/4294967296/0", "GPU-1/0/0", "MIG-1/0/0"]
)
async def test_mig_device_without_a_place_fails(uuid: str) -> None:
    async with checking(Nvml(), [device("x", uuid, "1:0"), gpu(0)]) as reports:
        assert await reports.next() == {"x"}


async def test_gpu_that_has_no_events_stays_healthy() -> None:
    nvml = Nvml()
    nvml.failures["register_events GPU-0"] = NvmlReturn.NOT_SUPPORTED
    async with checking(nvml, [gpu(0), gpu(1)]) as reports:
        nvml.xid("GPU-1", 79)

        assert await reports.next() == {"GPU-1"}


async def test_all_fail_where_the_wait_fails_and_the_check_continues() -> None:
    nvml = Nvml()
    async with checking(nvml, [gpu(0), gpu(1)]) as reports:
        nvml.events.put(NvmlError(15, "GPU is lost"))
        assert await reports.next() == {"GPU-0", "GPU-1"}

        nvml.xid("GPU-0", 79)
        assert await reports.next() == {"GPU-0"}


async def test_all_fail_where_the_gpu_of_an_xid_is_unknown() -> None:
    nvml = Nvml()
    nvml.failures["uuid GPU-0"] = 15
    async with checking(nvml, [gpu(0), gpu(1)]) as reports:
        nvml.xid("GPU-0", 79)

        assert await reports.next() == {"GPU-0", "GPU-1"}


@pytest.mark.parametrize("failing", ["init", "create_event_set"])
async def test_check_that_cannot_start_leaves_all_healthy(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    nvml = Nvml(**{failing: 999})
    async with checking(nvml, [gpu(0)]) as reports:
        with pytest.raises(StopAsyncIteration):
            await reports.next()

    what = {"init": "failed to initialize NVML", "create_event_set": "failed to create event set"}[failing]
    assert caplog.messages == [
        f"Failed to start health check: {what}: {failing} failed; continuing with health checks disabled"
    ]
    assert nvml.initialised == 0


async def test_failing_init_is_not_logged_where_it_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    async with checking(Nvml(init=999), [gpu(0)], fail=False):
        assert caplog.messages == []


async def test_nothing_is_asked_where_everything_is_ignored() -> None:
    nvml = Nvml(init=999)
    async with checking(nvml, [gpu(0)], disable="all") as reports:
        with pytest.raises(StopAsyncIteration):
            await reports.next()


async def test_wait_that_fails_at_once_does_not_pile_up_reports() -> None:
    nvml = Nvml()
    async with checking(nvml, [gpu(0)]) as reports:
        for _ in range(1000):
            nvml.events.put(NvmlError(999, "Unknown Error"))
        await reports.next()
        await asyncio.sleep(0.05)
        # Not the count of waits: those before the first error time out, as many as the machine has time for.
        left = nvml.events.qsize()
        assert left > 990

        for _ in range(20):
            await reports.next()
        assert nvml.events.qsize() <= left - 15
