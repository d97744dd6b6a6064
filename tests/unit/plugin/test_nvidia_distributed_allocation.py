"""Fed in: replicas that are there and free; observed: which are preferred."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.framework import DeviceID
from plugin.preference.distributed import (
    NotEnoughDevicesError,
    distributed_devices,
    is_replica,
    replica_id,
    replicated_id,
)


def _replicas(gpus: int, each: int) -> list[DeviceID]:
    return [replica_id(f"GPU-{gpu}", number) for gpu in range(gpus) for number in range(each)]


def _ids(*names: str) -> list[DeviceID]:
    return [DeviceID(name) for name in names]


def test_gpu_with_fewest_replicas_in_use_comes_first() -> None:
    free = _ids("GPU-0::1", "GPU-1::0", "GPU-1::1")

    assert distributed_devices(_replicas(2, 2), free, [], 2) == _ids("GPU-1::0", "GPU-0::1")


def test_required_replicas_lead_and_count_as_in_use() -> None:
    devices = _replicas(2, 2)

    assert distributed_devices(devices, devices, _ids("GPU-0::1"), 2) == _ids("GPU-0::1", "GPU-1::0")


@pytest.mark.parametrize("size", [-1, 0, 1])
def test_all_required_replicas_come_back_also_when_fewer_are_asked_for(size: int) -> None:
    required = _ids("GPU-0::0", "GPU-1::0")

    assert distributed_devices(_replicas(2, 2), required, required, size) == required


def test_too_few_available_devices_are_refused() -> None:
    with pytest.raises(NotEnoughDevicesError, match="not enough available devices to satisfy allocation"):
        distributed_devices(_replicas(1, 2), _ids("GPU-0::0", "unknown"), [], 2)


@given(gpus=st.integers(1, 4), each=st.integers(1, 4), data=st.data())
def test_use_of_gpus_never_differs_by_more_than_it_must(gpus: int, each: int, data: st.DataObject) -> None:
    devices = _replicas(gpus, each)
    free = data.draw(st.lists(st.sampled_from(devices), unique=True))
    size = data.draw(st.integers(0, len(free)))

    chosen = distributed_devices(devices, free, [], size)

    assert len(set(chosen)) == size
    assert set(chosen) <= set(free)
    left = Counter(replicated_id(device) for device in set(free) - set(chosen))
    used = Counter(replicated_id(device) for device in set(devices) - set(free) | set(chosen))
    picked = Counter(map(replicated_id, chosen))
    # Nothing was taken from a GPU while another with a free replica had fewer in use.
    assert all(used[gpu] - 1 <= used[other] for gpu in picked for other in left)


def test_only_what_has_a_number_is_a_replica() -> None:
    assert is_replica(replica_id("MIG-a", 7))
    assert not is_replica(DeviceID("MIG-a"))
    assert replicated_id(DeviceID("MIG-a::7")) == replicated_id(DeviceID("MIG-a")) == "MIG-a"
