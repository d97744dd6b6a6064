"""Which devices a container gets that was admitted with a hint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.apis.deviceplugin import Device, DevicePluginOptions
from simkubelet.devices.allocation import DeviceRequest, PreferenceQuery, by_affinity, devices_to_allocate
from simkubelet.devices.device_list import DeviceList
from simkubelet.devices.device_manager import DeviceManager
from simkubelet.devices.endpoint import Endpoint
from simkubelet.model.pod import PodUID
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import version
from simkubelet.topology.hint import TopologyHint, numa_mask

GPU = ResourceName("example.com/gpu")


def device(device_id: str, *nodes: int) -> Device:
    listed = Device(ID=device_id, health="Healthy")
    for node in nodes:
        listed.topology.nodes.add(ID=node)
    return listed


LISTED = [device("a", 0), device("b", 0), device("c", 1), device("d", 1), device("e")]


def decide(size: int, *nodes: int, preferred: frozenset[str] = frozenset(), reusable: frozenset[str] = frozenset()):
    """The devices for a container with a hint of some nodes, and what the plugin was asked."""
    manager = DeviceManager(None, 0.0, version("1.34"))
    manager.connect(Endpoint(GPU, None), DevicePluginOptions(get_preferred_allocation_available=True))
    manager.update(GPU, DeviceList.of(LISTED))
    hint = TopologyHint(numa_mask(nodes), preferred=True)
    decision = devices_to_allocate(
        manager, DeviceRequest(PodUID("u1"), "c", GPU, size, reusable=reusable, affinity=hint)
    )
    asked: list[PreferenceQuery] = []
    try:
        asked.append(next(decision))
        while True:
            asked.append(decision.send(preferred))
    except StopIteration as done:
        return done.value, asked


def query(available: str, must_include: str, size: int) -> PreferenceQuery:
    return PreferenceQuery(GPU, frozenset(available), frozenset(must_include), size)


def test_plugin_chooses_among_aligned_devices_when_there_are_more_than_needed():
    assert decide(1, 1, preferred=frozenset("d")) == ({"d"}, [query("cd", "", 1)])


def test_preferred_device_that_is_not_aligned_is_not_taken():
    assert decide(1, 1, preferred=frozenset("a")) == ({"c"}, [query("cd", "", 1)])


def test_plugin_is_not_asked_when_the_aligned_devices_are_exactly_enough():
    assert decide(2, 1) == ({"c", "d"}, [])


def test_aligned_devices_must_be_included_when_they_do_not_suffice():
    assert decide(3, 1, preferred=frozenset("b")) == ({"b", "c", "d"}, [query("abcde", "cd", 3)])


def test_unaligned_devices_come_before_those_without_a_node():
    assert decide(4, 1) == ({"a", "b", "c", "d"}, [query("abcde", "cd", 4)])


def test_reusable_device_is_taken_first_wherever_it_is():
    assert decide(2, 1, reusable=frozenset("a")) == ({"a", "c"}, [query("acd", "a", 2)])


@pytest.mark.parametrize(
    ("listed", "nodes", "places"),
    [
        pytest.param([device("a", 0), device("b", 0, 1), device("c", 1)], [1], ("bc", "a", ""), id="two nodes"),
        pytest.param([device("a", -1), device("b", 5), device("c", 70)], [0], ("", "bc", "a"), id="odd nodes"),
        pytest.param([device("a", -1, 5), device("b", -1, 0)], [0], ("b", "a", ""), id="odd and usual nodes"),
        pytest.param([device("a"), device("b")], [0], ("", "", "ab"), id="no topology at all"),
        pytest.param([device("a", 0), device("b")], None, ("", "", "ab"), id="no hint"),
    ],
)
def test_devices_are_divided_by_where_they_are(listed, nodes, places):
    affinity = None if nodes is None else numa_mask(nodes)

    divided = by_affinity(frozenset(d.ID for d in listed), DeviceList.of(listed), affinity)

    assert (divided.aligned, divided.unaligned, divided.without_affinity) == tuple(map(frozenset, places))


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(-1, 66), max_size=3), max_size=6), st.integers(0, 7))
def test_each_device_is_in_one_place(nodes_of_devices, affinity):
    listed = DeviceList.of(device(str(i), *nodes) for i, nodes in enumerate(nodes_of_devices))

    divided = by_affinity(frozenset(listed), listed, affinity)

    places = [divided.aligned, divided.unaligned, divided.without_affinity]
    assert sorted(device for place in places for device in place) == sorted(listed)
