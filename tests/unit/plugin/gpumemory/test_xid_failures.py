"""How the sharing plugins look for XIDs."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from plugin.errors import FatalError
from plugin.gpumemory.gpus import ignored_by_sharing_plugins, xid_failures
from plugin.nvml.nvml import EventType, GpuHandle, NvmlError, NvmlEvent, NvmlReturn
from tests.support.patience import LIMIT_S

UUIDS = ["GPU-0", "GPU-1"]


def watched(nvml: Any) -> Any:
    return aclosing(xid_failures(nvml, UUIDS, ignored_by_sharing_plugins, 7))


async def next_failure(failures: Any) -> set[str]:
    """What is reported next, quiet waits left out."""
    async with asyncio.timeout(LIMIT_S):
        async for uuids in failures:
            if uuids:
                return set(uuids)
    raise AssertionError("the watch ended")


async def test_gpus_that_report_an_xid_are_named(make_nvml: Any) -> None:
    nvml = make_nvml(2)

    async with watched(nvml) as failures:
        assert await anext(failures) == frozenset()
        for xid in (31, 43, 45):
            nvml.xid(0, xid)
        nvml.events.put(NvmlEvent(GpuHandle(0), EventType.DOUBLE_BIT_ECC_ERROR, 48))
        nvml.events.put(NvmlError(NvmlReturn.NOT_SUPPORTED, "a wait that fails"))
        nvml.xid(1, 79)

        assert await next_failure(failures) == {"GPU-1"}
        assert nvml.registered == UUIDS


async def test_a_wait_without_an_event_is_reported(make_nvml: Any) -> None:
    async with watched(make_nvml(2)) as failures:
        assert [await anext(failures) for _ in range(2)] == [frozenset(), frozenset()]


async def test_gpus_that_are_too_old_have_failed(make_nvml: Any) -> None:
    nvml = make_nvml(2)
    nvml.too_old.add(1)

    async with watched(nvml) as failures:
        assert await anext(failures) == {"GPU-1"}


async def test_an_xid_of_nobody_knows_whom_fails_all(make_nvml: Any) -> None:
    nvml = make_nvml(2)

    async with watched(nvml) as failures:
        await anext(failures)
        nvml.failures["uuid"] = NvmlReturn.INVALID_ARGUMENT
        nvml.xid(0, 79)

        assert await next_failure(failures) == set(UUIDS)


async def test_wait_that_fails_at_once_does_not_pile_up_reports(make_nvml: Any) -> None:
    nvml = make_nvml(2)
    async with watched(nvml) as failures:
        for _ in range(1000):
            nvml.events.put(NvmlError(NvmlReturn.NOT_SUPPORTED, "a wait that fails"))
        await anext(failures)
        await asyncio.sleep(0.05)

        assert nvml.events.qsize() > 990


@pytest.mark.parametrize("method", ["init", "create_event_set", "gpu_by_uuid"])
async def test_a_watch_that_cannot_begin_is_fatal(make_nvml: Any, method: str) -> None:
    nvml = make_nvml(2)
    nvml.failures[method] = NvmlReturn.INVALID_ARGUMENT

    with pytest.raises(FatalError, match=r"^Fatal: code 2$") as raised:
        async with watched(nvml) as failures:
            await anext(failures)
    assert raised.value.exit_status == 7
