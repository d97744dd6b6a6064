"""Hints of the device manager on known machines; the first table is what the kubelet v1.34.4 was seen to answer."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.apis.deviceplugin import ContainerAllocateResponse, Device
from simkubelet.devices.device_list import DeviceList
from simkubelet.devices.device_manager import DeviceManager
from simkubelet.devices.pod_devices import Allocation, AllocationEntry, DeviceID
from simkubelet.devices.topology_hints import DeviceHintProvider, Request, hints_for
from simkubelet.model.errors import KubeletPanicError
from simkubelet.model.pod import Container, ContainerKind, Pod, PodUID
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import version
from simkubelet.topology.hint import EndlessEnumerationError, TopologyHint, Walk, nodes_in, numa_mask

GPU = ResourceName("example.com/gpu")
UID = PodUID("u1")


def device(device_id: str, *nodes: int, health: str = "Healthy") -> Device:
    listed = Device(ID=device_id, health=health)
    for node in nodes:
        listed.topology.nodes.add(ID=node)
    return listed


def container(size: int, name: str = "c", kind: ContainerKind = ContainerKind.APP) -> Container:
    return Container(name, kind, {GPU: size}, {GPU: size}, {})


def pod(*containers: Container) -> Pod:
    return Pod(UID, "default", "p", containers)


def give(manager: DeviceManager, *devices: str, container: str = "c", uid: str = "u1") -> None:
    allocation = Allocation({-1: tuple(map(DeviceID, devices))}, ContainerAllocateResponse())
    manager.pod_devices.insert(AllocationEntry(PodUID(uid), container, GPU, allocation))
    manager.forget_reservations()


def provider(
    manager: DeviceManager,
    *,
    numa_nodes: tuple[int, ...] = (0, 1),
    reusable: Mapping[ResourceName, frozenset[DeviceID]] | None = None,
    minor: str = "1.34",
) -> DeviceHintProvider:
    return DeviceHintProvider(
        manager,
        numa_nodes,
        version(minor),
        reusable=lambda uid: reusable or {},
        enter_admission=lambda pod: None,
    )


def manager_with(*devices: Device) -> DeviceManager:
    manager = DeviceManager(None, 0.0, version("1.34"))
    manager.update(GPU, DeviceList.of(devices))
    return manager


def four_on_two_nodes() -> DeviceManager:
    return manager_with(device("d0", 0), device("d1", 1), device("d2", 0), device("d3", 1))


def readable(hints) -> list[tuple[tuple[int, ...], bool]] | None:
    return None if hints is None else [(nodes_in(hint.nodes), hint.preferred) for hint in hints]


ONE_NODE_DOES = [((0,), True), ((1,), True), ((0, 1), False)]


@pytest.mark.parametrize(
    ("size", "hints"),
    [
        pytest.param(1, ONE_NODE_DOES, id="one device"),
        pytest.param(2, ONE_NODE_DOES, id="as many as a node has"),
        pytest.param(3, [((0, 1), True)], id="more than a node has"),
        pytest.param(5, [], id="more than there are"),
        pytest.param(0, ONE_NODE_DOES, id="none"),
    ],
)
def test_hints_of_a_container_and_of_its_pod_as_the_kubelet_was_seen_to_give_them(size, hints):
    asked = container(size)
    subject = provider(four_on_two_nodes())

    assert readable(subject.container_hints(pod(asked), asked)[GPU]) == hints
    assert readable(subject.pod_hints(pod(asked))[GPU]) == hints


def test_devices_without_topology_have_no_preference():
    asked = container(1)

    assert provider(manager_with(device("d0"))).container_hints(pod(asked), asked) == {GPU: None}


def test_resource_that_the_device_manager_does_not_know_is_left_out():
    asked = container(1)

    assert provider(DeviceManager(None, 0.0, version("1.34"))).container_hints(pod(asked), asked) == {}


@pytest.mark.parametrize("node", [-1, 5, 70])
def test_devices_on_nodes_that_the_machine_has_not_give_no_hint(node):
    asked = container(1)

    assert readable(provider(manager_with(device("d0", node))).container_hints(pod(asked), asked)[GPU]) == []


def test_devices_of_others_and_unhealthy_ones_are_not_available_but_count_for_what_is_preferred():
    manager = manager_with(device("d0", 0), device("d1", 0), device("d2", 1), device("d3", 1, health="Unhealthy"))
    give(manager, "d0", uid="u2")
    asked = container(2)

    hints = provider(manager).container_hints(pod(asked), asked)[GPU]

    assert readable(hints) == [((0, 1), False)]


def test_container_that_has_its_devices_gets_their_nodes_again():
    manager = four_on_two_nodes()
    give(manager, "d1", "d3")
    asked = container(2)

    assert readable(provider(manager).container_hints(pod(asked), asked)[GPU]) == [((1,), True), ((0, 1), False)]


def test_container_that_asks_for_another_number_than_it_has_gets_no_hint():
    manager = four_on_two_nodes()
    give(manager, "d1")
    asked = container(2)

    assert readable(provider(manager).container_hints(pod(asked), asked)[GPU]) == []
    assert readable(provider(manager).pod_hints(pod(asked))[GPU]) == []


def test_pod_asks_for_what_its_containers_need_at_one_time():
    init, app, other = container(3, "i", ContainerKind.INIT), container(1, "a"), container(1, "b")

    assert readable(provider(four_on_two_nodes()).pod_hints(pod(init, app, other))[GPU]) == [((0, 1), True)]


def test_nodes_without_all_reusable_devices_are_no_answer():
    manager = four_on_two_nodes()
    give(manager, "d1", container="i")
    asked = container(2)
    reusable = {GPU: frozenset({DeviceID("d1")})}

    hints = provider(manager, reusable=reusable).container_hints(pod(asked), asked)[GPU]

    assert readable(hints) == [((1,), True), ((0, 1), False)]


def test_reusable_device_that_names_no_node_leaves_no_answer_and_one_without_topology_does_not_matter():
    nameless = device("d1")
    nameless.topology.SetInParent()
    request = Request(1, frozenset({DeviceID("d0")}), frozenset({DeviceID("d1")}))

    def hints(reusable: Device) -> tuple[TopologyHint, ...]:
        return hints_for(request, DeviceList.of([device("d0", 0), reusable]).numa_nodes, (0,))

    assert hints(nameless) == ()
    assert hints(device("d1")) == (TopologyHint(numa_mask([0]), preferred=True),)


@pytest.mark.parametrize(
    ("minor", "hints"),
    [
        ("1.35", [((1,), True), ((0, 1), False), ((1, 2), False), ((0, 1, 2), False)]),
        ("1.36", [((1,), True)]),
    ],
)
def test_only_nodes_with_devices_are_proposed_from_1_36_on(minor, hints):
    asked = container(1)
    subject = provider(manager_with(device("d0", 1)), numa_nodes=(0, 1, 2), minor=minor)

    assert readable(subject.container_hints(pod(asked), asked)[GPU]) == hints


def test_machine_of_36_nodes_is_never_done_before_1_36():
    manager = manager_with(device("d0", 0), device("d1", 1))
    asked = container(1)

    with pytest.raises(EndlessEnumerationError, match="68719476735 sets of NUMA nodes") as raised:
        provider(manager, numa_nodes=tuple(range(36)), minor="1.35").container_hints(pod(asked), asked)
    hints = provider(manager, numa_nodes=tuple(range(36)), minor="1.36").container_hints(pod(asked), asked)

    assert raised.value.walk is Walk.MASKS
    assert readable(hints[GPU]) == ONE_NODE_DOES


def test_held_device_that_left_the_list_ends_a_kubelet_from_1_34_on():
    manager = four_on_two_nodes()
    give(manager, "gone")
    asked = container(1)

    with pytest.raises(KubeletPanicError, match="nil pointer dereference"):
        provider(manager, minor="1.34").container_hints(pod(asked), asked)

    assert readable(provider(manager, minor="1.33").container_hints(pod(asked), asked)[GPU]) == []


nodes_of_a_device = st.lists(st.integers(0, 3), max_size=2)


@pytest.mark.slow
@given(st.lists(st.tuples(nodes_of_a_device, st.booleans()), min_size=1, max_size=6), st.integers(0, 4))
def test_hints_are_the_sets_of_nodes_with_enough_candidates(machine, size):
    listed = {DeviceID(f"d{i}"): nodes for i, (nodes, _) in enumerate(machine)}
    candidates = frozenset(DeviceID(f"d{i}") for i, (_, is_free) in enumerate(machine) if is_free)

    hints = hints_for(Request(size, candidates), listed, range(4))

    def on(nodes: set[int], devices) -> int:
        return sum(not nodes.isdisjoint(listed[device]) for device in devices)

    sets = [set(nodes_in(mask)) for mask in range(1, 16)]
    needed = min((len(nodes) for nodes in sets if on(nodes, listed) >= size), default=4)
    expected = {numa_mask(nodes): len(nodes) == needed for nodes in sets if on(nodes, candidates) >= size}
    assert {hint.nodes: hint.preferred for hint in hints} == expected
    assert [hint.nodes.bit_count() for hint in hints] == sorted(hint.nodes.bit_count() for hint in hints)
