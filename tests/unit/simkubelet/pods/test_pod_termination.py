from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from simkubelet.model.pod_status import Condition, ConditionType, PodPhase, PodStatus, Running, Terminated
from simkubelet.runtime.container_runtime import ExitStatus

RESOURCE = "example.com/stub"


class StubbornContainer:
    """A container that takes no notice of SIGTERM, so that only the end of its grace ends it."""

    def __init__(self, node: Any, handle: Any) -> None:
        self.graces: list[float] = []
        self._node = node
        self._handle = handle

    async def wait(self) -> ExitStatus:
        return await self._handle.wait()

    async def stop(self, grace_s: float) -> ExitStatus:
        self.graces.append(grace_s)
        await self._node.clock.sleep(grace_s)
        return await self._handle.stop(0)


def make_stubborn(node: Any, *names: str) -> dict[str, StubbornContainer]:
    """Containers of these names ignore SIGTERM from now on."""
    runtime, made = node.kubelet.runtime._runtime, {}
    start = runtime.start

    async def start_stubborn(pod: Any, container: Any, options: Any, attempt: int = 0) -> Any:
        handle = await start(pod, container, options, attempt)
        if container.name not in names:
            return handle
        made[container.name] = StubbornContainer(node, handle)
        return made[container.name]

    runtime.start = start_stubborn
    return made


def killed(node: Any) -> list[str]:
    return [event.message for event in node.of("event") if event.reason == "Killing"]


async def begin_delete(node: Any, name: str, grace_s: float | None = None) -> None:
    node.store.delete_pod(node.store.pod_named(name).uid, grace_s)
    await node.until(lambda: killed(node))


async def test_deleted_pod_ends_well_and_goes(node: Any) -> None:
    name = await node.settled_pod(None)

    await node.delete(name)

    assert killed(node) == ["Stopping container c"]
    assert [event.phase for event in node.of("pod-status")] == ["Running", "Succeeded"]


async def test_pod_of_1_26_goes_without_a_terminal_phase(make_node: Any) -> None:
    node = await make_node("1.26")
    name = await node.settled_pod(None)

    await node.delete(name)

    assert [event.phase for event in node.of("pod-status")] == ["Running"]


async def test_container_that_ignores_the_signal_ends_with_the_grace(node: Any) -> None:
    await node.plugin("d0")
    make_stubborn(node, "c")
    name = await node.settled_pod(1)
    await begin_delete(node, name)

    refused = await node.settled_pod(1)
    assert node.message(refused).endswith("Requested: 1, Available: 0, which is unexpected")
    await node.clock.advance(29.9)
    assert node.store.pod_named(name) is not None
    await node.clock.advance(0.1)
    await node.until(lambda: node.store.pod_named(name) is None)

    assert node.of("container-exited")[-1].exit_code == 137
    assert node.devices(await node.settled_pod(1)) == ("d0",)


@pytest.mark.parametrize(("spec_s", "asked_s", "expected_s"), [(5, None, 5.0), (30, 7, 7.0), (0, None, 0.0)])
async def test_grace_is_that_of_the_deletion_or_of_the_manifest(
    node: Any, spec_s: int, asked_s: float | None, expected_s: float
) -> None:
    stubborn = make_stubborn(node, "c")
    name = await node.settled_pod(None, terminationGracePeriodSeconds=spec_s)

    await begin_delete(node, name, asked_s)

    # A grace of 0 takes the object at once; the container still gets two seconds.
    assert stubborn["c"].graces == [max(expected_s, 2.0)]
    assert (node.store.pod_named(name) is None) is (expected_s == 0)


async def test_later_deletion_shortens_the_grace(node: Any) -> None:
    stubborn = make_stubborn(node, "c")
    name = await node.settled_pod(None)
    await begin_delete(node, name)

    node.store.delete_pod(node.store.pod_named(name).uid, 3)
    await node.until(lambda: len(stubborn["c"].graces) == 2)
    await node.clock.advance(3)
    await node.until(lambda: node.store.pod_named(name) is None)

    assert stubborn["c"].graces == [30.0, 3]


async def test_sidecars_end_after_the_app_and_in_reverse(node: Any) -> None:
    stubborn = make_stubborn(node, "c")
    init = [{"name": n, "image": "none", "restartPolicy": "Always"} for n in ("first", "second")]
    name = await node.settled_pod(None, initContainers=init)
    await begin_delete(node, name)
    assert isinstance(node.container(name, "first").state, Running)

    await node.clock.advance(30)
    await node.until(lambda: node.store.pod_named(name) is None)

    assert sorted(killed(node)) == [f"Stopping container {n}" for n in ("c", "first", "second")]
    assert stubborn["c"].graces == [30.0]
    assert {event.container for event in node.of("container-exited")} == {"c", "first", "second"}
    assert node.of("container-exited")[0].container == "c" or node.of("container-exited")[0].exit_code == 0


async def test_sidecar_waits_for_the_next_one_only(node: Any) -> None:
    stubborn = make_stubborn(node, "third")
    init = [{"name": n, "image": "none", "restartPolicy": "Always"} for n in ("first", "second", "third")]
    name = await node.settled_pod(None, initContainers=init)
    for life in range(2):
        await node.kubelet.complete(name, "second", 1)
        await node.until(lambda seen=life: len(node.of("container-exited")) == seen + 1)
        await node.until(lambda seen=life: seen or node.container(name, "second").restart_count == 1)

    await begin_delete(node, name)
    await node.until(lambda: node.of("container-exited")[-1].container == "first")

    # The second is in its back-off, so nothing holds the first although the third still runs.
    assert stubborn["third"].graces == [30.0]
    await node.clock.advance(30)
    await node.until(lambda: node.store.pod_named(name) is None)


@pytest.mark.parametrize(("volumes", "grace_s"), [([], 0.0), ([{"name": "v", "emptyDir": {}}], 2.0)])
async def test_containers_of_an_orphan_end_all_at_once(node: Any, volumes: list[Any], grace_s: float) -> None:
    stubborn = make_stubborn(node, "c", "side")
    init = [{"name": "side", "image": "none", "restartPolicy": "Always"}]
    name = await node.settled_pod(None, initContainers=init, volumes=volumes)
    await node.kubelet.stop()
    node.store.delete_pod(node.store.pod_named(name).uid, 0)

    await node.kubelet.start()
    await node.until(lambda: all(container.graces for container in stubborn.values()))

    assert [container.graces for container in stubborn.values()] == [[grace_s], [grace_s]]
    await node.clock.advance(grace_s)
    await node.until(lambda: len(node.of("container-exited")) == 2)
    assert {event.exit_code for event in node.of("container-exited")} == {137}


async def test_container_that_runs_on_in_an_ended_pod_gets_the_grace_of_its_pod(node: Any) -> None:
    stubborn = make_stubborn(node, "c")
    name = await node.settled_pod(None, terminationGracePeriodSeconds=7)
    await node.kubelet.stop()
    pod = node.store.pod_named(name)
    node.store.set_pod_status(pod.uid, replace(pod.status, phase=PodPhase.FAILED))

    await node.kubelet.start()
    await node.until(lambda: stubborn["c"].graces)
    await node.clock.advance(7)
    await node.until(lambda: node.of("container-exited"))

    assert stubborn["c"].graces == [7.0]
    assert node.phase(name) == "Failed"


async def test_ended_pod_has_no_sandbox(node: Any) -> None:
    name = await node.settled_pod(None, restartPolicy="Never")

    await node.kubelet.complete(name, "c", 0)
    await node.until(lambda: node.phase(name) == "Succeeded")

    assert node.pod_status(name).condition(ConditionType.READY_TO_START_CONTAINERS) == Condition(
        ConditionType.READY_TO_START_CONTAINERS, False
    )


async def test_terminal_phase_waits_for_the_sidecars_and_what_ended_is_reported_before(node: Any) -> None:
    make_stubborn(node, "side")
    init = [{"name": "side", "image": "none", "restartPolicy": "Always"}]
    name = await node.settled_pod(None, restartPolicy="Never", initContainers=init)

    await node.kubelet.complete(name, "c", 0)
    await node.until(lambda: killed(node))

    assert node.phase(name) == "Running"
    assert node.container(name).state == Terminated(0, "Completed", 0.0, 0.0)
    await node.clock.advance(30)
    await node.until(lambda: node.phase(name) == "Succeeded")


async def test_pod_deleted_before_it_ran_ends_with_containers_that_nobody_found(node: Any) -> None:
    plugin = await node.plugin("d0")
    plugin.options.pre_start_required = True
    plugin.pre_start_error = "not yet"
    await plugin.register()
    await node.until(lambda: len(node.of("devices-listed")) == 2)
    name = node.pod(1)
    await node.until(lambda: node.pod_events(name))
    statuses = []
    publish = node.store.set_pod_status
    node.store.set_pod_status = lambda uid, status: (statuses.append(status), publish(uid, status))

    node.store.delete_pod(node.store.pod_named(name).uid)
    await node.until(lambda: node.store.pod_named(name) is None)

    text = "The container could not be located when the pod was terminated"
    assert statuses[-1].phase == "Failed"
    assert statuses[-1].containers[0].state == Terminated(137, "ContainerStatusUnknown", 0.0, 0.0, text)


async def test_deletion_during_a_start_lets_the_other_containers_start_first(node: Any) -> None:
    spec = {"containers": [{"name": name, "image": "none"} for name in ("a", "b")]}
    start = node.kubelet.runtime._runtime.start

    async def start_and_delete(pod: Any, container: Any, options: Any, attempt: int = 0) -> Any:
        if container.name == "a":
            worker, is_told = node.kubelet._instance.pods._workers[pod.uid], asyncio.Event()
            update = worker.update
            worker.update = lambda pod: (update(pod), is_told.set())
            node.store.delete_pod(pod.uid)
            await is_told.wait()
        return await start(pod, container, options, attempt)

    node.kubelet.runtime._runtime.start = start_and_delete
    name = node.pod(None, **spec)
    await node.until(lambda: node.of("pod-removed"))

    assert [event.container for event in node.of("container-started")] == ["a", "b"]
    assert sorted(killed(node)) == ["Stopping container a", "Stopping container b"]
    assert node.store.pod_named(name) is None


async def test_forced_deletion_frees_the_devices_before_the_container_has_ended(node: Any) -> None:
    await node.plugin("d0")
    make_stubborn(node, "c")
    name = await node.settled_pod(1)

    node.store.delete_pod(node.store.pod_named(name).uid, 0)
    assert node.store.pod_named(name) is None
    other = await node.settled_pod(1)

    assert node.devices(other) == ("d0",)


async def test_kubelet_that_was_down_ends_what_was_deleted_meanwhile(node: Any) -> None:
    name = await node.settled_pod(None)
    uid = node.store.pod_named(name).uid
    await node.kubelet.stop()
    node.store.delete_pod(uid, 0)
    assert node.kubelet.runtime.containers(uid)["c"].is_running

    await node.kubelet.start()

    await node.until(lambda: not node.kubelet.runtime.is_any_running(uid))
    assert killed(node) == ["Stopping container c"]


async def test_pod_deleted_while_the_kubelet_is_down_ends_at_its_start(node: Any) -> None:
    name = await node.settled_pod(None)
    await node.kubelet.stop()
    node.store.delete_pod(node.store.pod_named(name).uid)
    assert node.store.pod_named(name) is not None

    await node.kubelet.start()

    await node.until(lambda: node.store.pod_named(name) is None)


async def test_deleted_pod_that_has_ended_goes_at_the_next_start(node: Any) -> None:
    await node.kubelet.stop()
    name = node.pod(None)
    uid = node.store.pod_named(name).uid
    node.store.delete_pod(uid)
    node.store.set_pod_status(uid, PodStatus(PodPhase.SUCCEEDED))
    assert node.store.pod_named(name) is not None

    await node.kubelet.start()

    await node.until(lambda: node.store.pod_named(name) is None)
    assert not killed(node)
