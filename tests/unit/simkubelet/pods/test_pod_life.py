from __future__ import annotations

from typing import Any

import pytest

from simkubelet.cluster.objects.objects import Key
from simkubelet.model.pod_status import ConditionType, Running, Terminated, Waiting

RESOURCE = "example.com/stub"


def container(name: str, count: int = 0, **fields: Any) -> dict[str, Any]:
    resources = {"resources": {"limits": {RESOURCE: count}}} if count else {}
    return {"name": name, "image": "none", **resources, **fields}


def events(node: Any, name: str, reason: str) -> list[str]:
    return [message for kind, message in node.pod_events(name) if kind == reason]


async def test_running_pod_tells_its_containers_and_conditions(node: Any) -> None:
    name = await node.settled_pod(None, initContainers=[container("i")])

    status = node.pod_status(name)
    assert status.phase == "Running"
    assert status.init_containers[0].state == Terminated(0, "Completed", 0.0, 0.0)
    assert status.init_containers[0].is_ready
    assert status.containers[0].state == Running(0.0)
    assert status.containers[0].is_ready
    assert {condition.type: condition.is_true for condition in status.conditions} == dict.fromkeys(
        set(ConditionType) - {ConditionType.DISRUPTION_TARGET}, True
    )


async def test_statuses_are_by_name_and_those_of_init_containers_in_order(node: Any) -> None:
    spec = {"containers": [container("z"), container("a")], "initContainers": [container("y"), container("b")]}

    name = await node.settled_pod(None, **spec)

    status = node.pod_status(name)
    assert [each.name for each in status.containers] == ["a", "z"]
    assert [each.name for each in status.init_containers] == ["y", "b"]


async def test_node_before_1_29_has_no_condition_of_the_sandbox(make_node: Any) -> None:
    node = await make_node("1.28")

    name = await node.settled_pod(None)

    assert node.pod_status(name).condition(ConditionType.READY_TO_START_CONTAINERS) is None


async def test_containers_start_in_the_order_of_their_kinds(node: Any) -> None:
    init = [container("first"), container("side", restartPolicy="Always"), container("second")]

    name = await node.settled_pod(None, initContainers=init)

    assert [event.container for event in node.of("container-started")] == ["first", "side", "second", "c"]
    assert isinstance(node.container(name, "side").state, Running)


@pytest.mark.parametrize(
    ("policy", "exit_code", "phase"),
    [
        pytest.param("Never", 0, "Succeeded", id="never-zero"),
        pytest.param("Never", 3, "Failed", id="never-error"),
        pytest.param("OnFailure", 0, "Succeeded", id="on-failure-zero"),
    ],
)
async def test_pod_ends_with_its_last_container(node: Any, policy: str, exit_code: int, phase: str) -> None:
    await node.plugin("d0")
    name = await node.settled_pod(1, restartPolicy=policy)

    await node.kubelet.complete(name, "c", exit_code)
    await node.until(lambda: node.phase(name) == phase)

    assert node.container(name).state == Terminated(exit_code, "Error" if exit_code else "Completed", 0.0, 0.0)
    ready = node.pod_status(name).condition(ConditionType.READY)
    assert ready is not None
    assert (ready.is_true, ready.reason) == (False, "PodFailed" if exit_code else "PodCompleted")
    # What it held is free for the next pod.
    assert node.devices(await node.settled_pod(1)) == ("d0",)


@pytest.mark.parametrize(("policy", "exit_code"), [("Always", 0), ("Always", 1), ("OnFailure", 1)])
async def test_first_restart_comes_at_once_with_the_same_devices(node: Any, policy: str, exit_code: int) -> None:
    plugin = await node.plugin("d0", "d1")
    plugin.options.pre_start_required = True
    await plugin.register()
    await node.until(lambda: len(node.of("devices-listed")) == 2)
    name = await node.settled_pod(1, restartPolicy=policy)

    await node.kubelet.complete(name, "c", exit_code)
    await node.until(lambda: node.container(name).restart_count == 1)

    assert node.phase(name) == "Running"
    assert node.devices(name) == ("d0",)
    assert node.container(name).last_state == Terminated(exit_code, "Error" if exit_code else "Completed", 0.0, 0.0)
    assert [call for call, _ in plugin.calls].count("PreStartContainer") == 2
    assert [call for call, _ in plugin.calls].count("Allocate") == 1


async def test_second_restart_waits_ten_seconds(node: Any) -> None:
    name = await node.settled_pod(None)
    uid = node.store.pod_named(name).uid
    await node.kubelet.complete(name, "c", 1)
    await node.until(lambda: node.container(name).restart_count == 1)

    await node.kubelet.complete(name, "c", 1)
    await node.until(lambda: isinstance(node.container(name).state, Waiting))

    message = f"back-off 10s restarting failed container=c pod={name}_default({uid})"
    assert node.container(name).state == Waiting("CrashLoopBackOff", message)
    assert node.container(name).last_state == Terminated(1, "Error", 0.0, 0.0)
    assert node.phase(name) == "Running"
    assert events(node, name, "BackOff") == [f"Back-off restarting failed container c in pod {name}_default({uid})"]

    await node.clock.advance(9.9)
    assert node.container(name).restart_count == 1
    await node.clock.advance(0.1)
    await node.until(lambda: node.container(name).restart_count == 2)


@pytest.mark.parametrize(
    ("minor", "restarts_at"),
    [
        pytest.param("1.26", [0, 10, 30], id="every-ten-seconds-of-old"),
        pytest.param("1.34", [0, 10, 30], id="every-ten-seconds"),
        pytest.param("1.35", [0, 10, 30], id="when-it-ends"),
    ],
)
async def test_minors_look_at_a_back_off_at_different_times(make_node: Any, minor: str, restarts_at: list[int]) -> None:
    node = await make_node(minor)
    name = await node.settled_pod(None)
    seen = []

    for restarts in range(1, 4):
        await node.kubelet.complete(name, "c", 1)
        if restarts > 1:
            await node.until(lambda: isinstance(node.container(name).state, Waiting))
        while node.container(name).restart_count < restarts:
            if node.container(name).state != Waiting() and restarts > 1:
                await node.clock.advance(5)
            else:
                await node.until(lambda: node.container(name).restart_count == restarts)  # noqa: B023
        seen.append(node.clock.now())

    assert seen == restarts_at


async def test_failed_init_container_of_a_pod_that_never_restarts_fails_it(make_node: Any) -> None:
    # An init container ends with 0 at once, so a sidecar stands in for the runtime that fails to start one.
    node = await make_node()
    name = await node.settled_pod(None, restartPolicy="Never", initContainers=[container("s", restartPolicy="Always")])

    await node.kubelet.complete(name, "c", 2)
    await node.until(lambda: node.phase(name) == "Failed")

    assert events(node, name, "Killing") == ["Stopping container s"]
    assert isinstance(node.container(name, "s").state, Terminated)


async def test_sidecar_that_ends_is_started_again_beside_the_app(node: Any) -> None:
    init = [container("s", restartPolicy="Always")]
    name = await node.settled_pod(None, restartPolicy="Never", initContainers=init)

    await node.kubelet.complete(name, "s", 0)
    await node.until(lambda: node.container(name, "s").restart_count == 1)

    assert node.phase(name) == "Running"
    assert node.container(name, "c").restart_count == 0


async def test_container_of_1_35_has_a_restart_policy_of_its_own(make_node: Any) -> None:
    spec = {"restartPolicy": "Never", "containers": [container("c", restartPolicy="Always")]}
    node = await make_node("1.35")
    name = await node.settled_pod(None, **spec)

    await node.kubelet.complete(name, "c", 0)

    await node.until(lambda: node.container(name).restart_count == 1)
    assert node.phase(name) == "Running"


async def test_killed_container_is_restarted_and_its_status_says_137(node: Any) -> None:
    name = await node.settled_pod(None)

    await node.kill(name)
    await node.until(lambda: node.container(name).restart_count == 1)

    last = node.container(name).last_state
    assert (last.exit_code, last.reason) == (137, "Error")
    exited = node.of("container-exited")[-1]
    assert (exited.pod, exited.container, exited.attempt, exited.exit_code) == (name, "c", 0, 137)


async def test_ended_pod_is_not_admitted_again_after_a_kubelet_restart(node: Any) -> None:
    await node.plugin("d0")
    name = await node.settled_pod(1, restartPolicy="Never")
    await node.kubelet.complete(name, "c", 0)
    await node.until(lambda: node.phase(name) == "Succeeded")

    await node.kubelet.restart()
    other = await node.settled_pod(None)

    assert node.phase(other) == "Running"
    assert node.phase(name) == "Succeeded"
    assert node.container(name).restart_count == 0


async def test_pod_waits_for_its_volume_and_tries_it_ever_later(node: Any) -> None:
    volume = {"name": "v", "configMap": {"name": "late"}}
    mounts = [{"name": "v", "mountPath": "/v"}]
    name = node.pod(None, volumes=[volume], containers=[container("c", volumeMounts=mounts)])
    said = 'MountVolume.SetUp failed for volume "v" : configmap "late" not found'
    await node.until(lambda: events(node, name, "FailedMount") == [said])
    assert (node.phase(name), node.container(name).state) == ("Pending", Waiting("ContainerCreating"))

    node.store.objects.create(Key("configmaps", "default", "late"), {})
    await node.clock.advance(0.4)
    assert node.phase(name) == "Pending"
    await node.clock.advance(0.1)

    await node.until(lambda: node.phase(name) == "Running")


async def test_container_waits_for_the_variable_of_a_mount(node: Any) -> None:
    mounts = [{"name": "v", "mountPath": "/v", "subPathExpr": "$(POD)/$(NONE)"}]
    variables = [{"name": "POD", "value": "p"}]
    name = node.pod(
        None,
        volumes=[{"name": "v", "emptyDir": {}}],
        containers=[container("c", env=variables, volumeMounts=mounts)],
    )

    await node.until(lambda: events(node, name, "Failed") == ["Error: missing value for NONE"])

    assert node.container(name).state == Waiting("CreateContainerConfigError", "missing value for NONE")


async def test_container_waits_for_the_secret_of_a_variable(node: Any) -> None:
    source = {"secretKeyRef": {"name": "late", "key": "token"}}
    name = node.pod(None, containers=[container("c", env=[{"name": "TOKEN", "valueFrom": source}])])
    await node.until(lambda: events(node, name, "Failed") == ['Error: secret "late" not found'])
    assert node.container(name).state == Waiting("CreateContainerConfigError", 'secret "late" not found')

    node.store.objects.create(Key("secrets", "default", "late"), {"data": {"token": ""}})
    await node.clock.advance(10)

    await node.until(lambda: node.phase(name) == "Running")


async def test_node_at_rest_wakes_for_nothing_but_its_status(node: Any) -> None:
    await node.plugin("d0")
    await node.settled_pod(1, initContainers=[container("s", restartPolicy="Always")])
    await node.tick()
    changes = node.store.change.count

    assert node.clock.next_deadline() == node.clock.now() + 10
    await node.clock.advance(9.9)

    assert node.store.change.count == changes
