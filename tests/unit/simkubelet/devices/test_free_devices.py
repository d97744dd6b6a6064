from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simkubelet.devices.device_manager import FreeDevices
from simkubelet.devices.pod_devices import DeviceID

IDS = st.sampled_from([DeviceID(f"d{number}") for number in range(6)])
CHANGES = st.lists(st.tuples(st.sampled_from(["add", "remove", "first"]), IDS, st.integers(0, 7)))


@given(st.lists(IDS), CHANGES)
def test_smallest_free_devices_are_found_after_any_changes(devices, changes):
    free, model = FreeDevices(devices), set(devices)

    for change, device, count in changes:
        if change == "add":
            free.add(device)
            model.add(device)
        elif change == "remove":
            free.remove(device)
            model.discard(device)
        assert free.first(count) == sorted(model)[:count]
        assert len(free) == len(model)
        assert set(free) == model
        assert (device in free) == (device in model)


def test_device_that_comes_and_goes_takes_no_more_memory():
    free = FreeDevices([DeviceID("d0")])

    for _ in range(1000):
        free.remove(DeviceID("d0"))
        free.add(DeviceID("d0"))

    assert len(free._heap) < 100
    assert free.first(2) == ["d0"]
