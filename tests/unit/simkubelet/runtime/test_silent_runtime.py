"""A container runtime that answers its kubelet nothing, or refuses what the kubelet asks."""

from __future__ import annotations

from typing import Any

import pytest

from simkubelet.model.clock import ManualClock
from simkubelet.model.node import NodeCondition
from simkubelet.runtime.cri import Cri, RuntimeState
from simkubelet.runtime.cri_call import CriCall

RESOURCE = "example.com/stub"
LISTS = (CriCall.LIST_CONTAINERS, CriCall.LIST_POD_SANDBOX)
NO_STATUS = "container runtime status check may not have completed yet"
NO_LIST = "PLEG is not healthy: pleg has yet to be successful"
DOWN = "container runtime is down"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cri(clock: ManualClock) -> Cri:
    return Cri(clock)


def ready_of(node: Any) -> NodeCondition:
    found: NodeCondition = node.store.nodes["node-1"].conditions[-1]
    return found


async def test_errors_begin_when_the_kubelet_has_lost_its_patience(clock: ManualClock, cri: Cri) -> None:
    state = RuntimeState(cri, clock)
    cri.pause()
    told = {0: state.errors()}

    for seconds in (29, 1, 150, 1):
        await clock.advance(seconds)
        told[int(clock.now())] = state.errors()

    silent = "PLEG is not healthy: pleg was last seen active 3m1s ago; threshold is 3m0s"
    assert told == {0: (), 29: (), 30: (DOWN,), 180: (DOWN,), 181: (DOWN, silent)}
    cri.resume()
    assert state.errors() == ()


@pytest.mark.parametrize(
    ("refused", "errors"),
    [
        pytest.param([CriCall.STATUS], (NO_STATUS,), id="status"),
        pytest.param(LISTS[:1], (NO_LIST,), id="containers"),
        pytest.param(LISTS[1:], (NO_LIST,), id="sandboxes"),
        pytest.param([], (), id="nothing"),
    ],
)
def test_kubelet_that_has_never_had_an_answer_has_no_patience(
    clock: ManualClock, cri: Cri, refused: list[CriCall], errors: tuple[str, ...]
) -> None:
    cri.refuse(refused)

    assert RuntimeState(cri, clock).errors() == errors


def test_new_kubelet_starts_without_the_old_one_s_settings(clock: ManualClock, cri: Cri) -> None:
    old = RuntimeState(cri, clock)
    cri.refuse(LISTS)

    assert (old.errors(), RuntimeState(cri, clock).errors()) == ((), (NO_LIST,))


async def test_node_is_not_ready_while_the_runtime_is_refusing(node: Any) -> None:
    node.kubelet.runtime.cri.refuse([CriCall.STATUS, *LISTS])

    await node.clock.advance(200)

    condition = ready_of(node)
    assert (condition.status, condition.reason) == ("False", "KubeletNotReady")
    assert condition.message.startswith(f"[{DOWN}, PLEG is not healthy: pleg was last seen active 3m")
    node.kubelet.runtime.cri.refuse([])
    await node.tick()
    assert ready_of(node).message == "kubelet is posting ready status"


async def test_paused_runtime_keeps_the_node_from_being_published_for_two_minutes(node: Any) -> None:
    await node.plugin("d0")
    node.kubelet.runtime.cri.pause()

    await node.clock.advance(129)
    assert (node.status(), ready_of(node).status) == ((None, None), "True")
    await node.clock.advance(1)
    await node.until(lambda: node.status() == (1, 1))

    assert (ready_of(node).status, ready_of(node).message) == ("False", DOWN)


async def test_pod_starts_when_a_paused_runtime_continues(node: Any) -> None:
    plugin = await node.plugin("d0")
    await node.tick()
    node.kubelet.runtime.cri.pause()
    name = node.pod(1)
    await node.until(lambda: node.of("devices-allocated"))

    assert (node.phase(name), node.of("container-started")) == ("Pending", [])
    node.kubelet.runtime.cri.resume()
    await node.until(lambda: node.phase(name) == "Running")

    assert [call for call, _ in plugin.calls].count("Allocate") == 1


async def test_pods_wait_for_admission_once_the_runtime_is_down(node: Any) -> None:
    await node.plugin("d0")
    await node.tick()
    node.kubelet.runtime.cri.refuse([CriCall.STATUS])
    await node.clock.advance(30)
    name = node.pod(1)
    await node.tick()

    assert (node.phase(name), node.of("devices-allocated")) == ("Pending", [])
    node.kubelet.runtime.cri.refuse([])
    await node.until(lambda: node.phase(name) == "Running")


async def test_end_of_a_container_is_reported_when_the_runtime_lists_again(node: Any) -> None:
    name = await node.settled_pod(None, restartPolicy="Never")
    node.kubelet.runtime.cri.refuse(LISTS)
    await node.kubelet.complete(name, "c", 3)
    await node.tick()

    assert (node.phase(name), node.of("container-exited")) == ("Running", [])
    node.kubelet.runtime.cri.refuse([])
    await node.until(lambda: node.phase(name) == "Failed")

    assert [event.exit_code for event in node.of("container-exited")] == [3]


async def test_deleted_pod_ends_when_a_paused_runtime_continues(node: Any) -> None:
    name = await node.settled_pod(None)
    node.kubelet.runtime.cri.pause()
    node.store.delete_pod(node.store.pod_named(name).uid)
    await node.tick()

    assert node.phase(name) == "Running"
    node.kubelet.runtime.cri.resume()
    await node.until(lambda: node.phase(name) is None)


async def test_kubelet_without_known_containers_refuses_a_running_pod(node: Any) -> None:
    await node.plugin("d0")
    name = await node.settled_pod(1)
    node.kubelet.runtime.cri.refuse(LISTS[:1])
    await node.kubelet.restart()
    await node.tick()

    assert node.phase(name) == "Running"
    node.kubelet.runtime.cri.refuse([])
    await node.until(lambda: node.phase(name) == "Failed")

    assert node.pod_status(name).reason == "UnexpectedAdmissionError"


async def test_kubelet_without_the_runtimes_status_calls_all_of_a_resource_allocatable(node: Any) -> None:
    plugin = await node.plugin("d0")
    plugin.list(["d0"], unhealthy=["d1"])
    await node.until(lambda: node.of("devices-listed")[-1].unhealthy)
    await node.tick()
    before = node.status()
    node.kubelet.runtime.cri.refuse([CriCall.STATUS])

    await node.kubelet.restart()
    await node.until(lambda: node.status() != before)

    assert (before, node.status(), ready_of(node).message) == ((2, 1), (2, 2), NO_STATUS)
    assert len(node.of("kubelet-started")) == 1
    node.kubelet.runtime.cri.refuse([])
    await node.until(lambda: node.status() == (0, 0))
    assert len(node.of("kubelet-started")) == 2


async def test_kubelet_waits_for_a_paused_runtime_and_publishes_nothing(node: Any) -> None:
    node.kubelet.runtime.cri.pause()
    await node.kubelet.restart()
    published = len(node.of("node-status"))
    await node.tick()

    assert node.kubelet.is_running
    assert (len(node.of("kubelet-started")), len(node.of("node-status"))) == (1, published)
    node.kubelet.runtime.cri.resume()
    await node.until(lambda: len(node.of("kubelet-started")) == 2)
    name = await node.settled_pod(None)
    assert node.phase(name) == "Running"


async def test_waiting_kubelet_can_be_stopped_and_started(node: Any) -> None:
    node.kubelet.runtime.cri.refuse([CriCall.STATUS])
    await node.kubelet.restart()
    await node.kubelet.stop()

    assert not node.kubelet.is_running
    assert len(node.of("kubelet-stopped")) == 2
    node.kubelet.runtime.cri.refuse([])
    await node.kubelet.start()
    assert len(node.of("kubelet-started")) == 2


async def test_reboot_restarts_the_runtime(node: Any) -> None:
    node.kubelet.runtime.cri.pause()
    node.kubelet.runtime.cri.refuse(list(CriCall))

    await node.kubelet.reboot()

    assert len(node.of("kubelet-started")) == 2
