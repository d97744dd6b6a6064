"""Searches of devices for claims, by the real structured allocator and by ours: what each claim gets, or the error."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import event, given, seed

from simkubelet.cluster.objects.objects import JSON
from simkubelet.cluster.scheduler.dynamic_resources.allocator import Allocator, InvalidPoolsError
from simkubelet.cluster.scheduler.dynamic_resources.capacity import Shares
from simkubelet.cluster.scheduler.dynamic_resources.pools import DeviceID, Slices
from simkubelet.cluster.scheduler.dynamic_resources.requests import AllocatorError
from simkubelet.model.version import Version, version
from tests.support.oracle import ROUNDS, SEED, OracleProgram, compared, oracle_program
from tests.support.random_devices_and_claims import searches

pytestmark = pytest.mark.oracle

RELEASE = max(version(os.environ.get("SIMKUBELET_ORACLE_VERSION", "1.34")), version("1.34"))
FEATURES = {
    "AdminAccess": True,
    "PrioritizedList": True,
    # 1.34 has these two instead of the first below; either of them asks for its experimental allocator.
    "DeviceStatus": True,
    **dict.fromkeys(
        ("DeviceBindingAndStatus", "ConsumableCapacity", "DeviceTaints", "PartitionableDevices"),
        Version(36, 0) <= RELEASE,
    ),
}
"""Those that are on by default; a version takes no notice of those that it does not have."""


@pytest.fixture(scope="session")
def real() -> Iterator[OracleProgram]:
    yield from oracle_program("SIMKUBELET_ORACLE_ALLOCATOR")


def allocate(real: OracleProgram, search: JSON) -> JSON:
    """The real answer."""
    answer = real.ask(cmd="allocate", **search, features=FEATURES)
    return without_ids({key: answer[key] for key in ("results", "error", "panic") if key in answer})


def ours(search: JSON) -> JSON:
    """The same answer by our allocator."""
    allocated = {DeviceID(**one) for one in search["allocated"]}
    shares = Shares.of({**one, "consumedCapacity": one["consumed"]} for one in search["shares"])
    allocator = Allocator(search["classes"], Slices(search["slices"]), allocated, RELEASE, shares)
    node = search["node"]["metadata"]
    try:
        return without_ids({"results": allocator.allocate(search["claims"], node["name"], node["labels"])})
    except (AllocatorError, InvalidPoolsError) as error:
        return {"error": str(error)}


def without_ids(answer: JSON) -> JSON:
    """An answer in which all shares have the same id; the real one is random."""
    for allocation in answer.get("results") or ():
        for result in allocation["devices"]["results"]:
            if "shareID" in result:
                result["shareID"] = "some"
    return answer


@pytest.mark.parametrize("shard", range(10 * ROUNDS))
def test_same_as_the_real_allocator(real: OracleProgram, shard: int) -> None:
    def check(search: JSON) -> None:
        expected = allocate(real, search)
        event("allocated" if expected.get("results") else ", ".join(expected))

        assert ours(search) == expected

    compared()(seed(SEED + shard)(given(search=searches(RELEASE))(check)))()
