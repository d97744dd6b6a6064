from __future__ import annotations

from typing import Any

import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.model.pod_status import Running, Terminated, Waiting


async def test_pod_gets_its_devices_and_the_plugins_environment(node: Any):
    plugin = await node.plugin("d0", "d1", "d2")

    name = await node.settled_pod(2)

    assert node.phase(name) == "Running"
    assert node.devices(name) == ("d0", "d1")
    container = node.kubelet.runtime.containers(node.store.pod_named(name).uid)["c"]
    assert container.env == {"STUB": "d0,d1"}
    assert plugin.calls[-1] == ("Allocate", [["d0", "d1"]])


async def test_pods_own_environment_overrides_the_plugins(node: Any):
    await node.plugin("d0")
    spec = {"containers": [{"name": "c", "env": [{"name": "STUB", "value": "mine"}]}]}
    spec["containers"][0]["resources"] = {"limits": {"example.com/stub": 1}}

    name = await node.settled_pod(None, **spec)

    assert node.kubelet.runtime.containers(node.store.pod_named(name).uid)["c"].env == {"STUB": "mine"}


async def test_pod_that_asks_for_too_much_is_rejected(node: Any):
    await node.plugin("d0")

    name = await node.settled_pod(2)

    assert node.phase(name) == "Failed"
    message = (
        "Allocate failed due to requested number of devices unavailable for example.com/stub. "
        "Requested: 2, Available: 1, which is unexpected"
    )
    assert node.message(name) == f"Pod was rejected: {message}"
    assert node.store.pod_named(name).status.reason == "UnexpectedAdmissionError"
    assert node.pod_events(name) == [("UnexpectedAdmissionError", message)]


async def test_error_of_the_plugin_is_reported_as_it_is_and_the_devices_are_free_again(node: Any):
    plugin = await node.plugin("d0")

    def refuse(request: api.AllocateRequest) -> api.AllocateResponse:
        raise ValueError("no memory left")

    answer, plugin.allocate_answer = plugin.allocate_answer, refuse
    refused = await node.settled_pod(1)
    plugin.allocate_answer = answer
    admitted = await node.settled_pod(1)

    assert node.message(refused) == (
        "Pod was rejected: Allocate failed due to rpc error: code = ResourceExhausted desc = no memory left, "
        "which is unexpected"
    )
    assert node.phase(admitted) == "Running"


async def test_empty_answer_leaves_the_devices_reserved(node: Any):
    plugin = await node.plugin("d0", "d1", "d2", "d3")
    answer, plugin.allocate_answer = plugin.allocate_answer, lambda request: api.AllocateResponse()

    refused = await node.settled_pod(3)
    plugin.allocate_answer = answer
    next_one = await node.settled_pod(3)

    assert node.message(refused) == (
        "Pod was rejected: Allocate failed due to no containers return in allocation response , which is unexpected"
    )
    assert "Requested: 3, Available: 1" in node.message(next_one)


async def test_node_without_room_rejects_what_the_scheduler_would_not_have_sent(node: Any):
    spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "9"}}}]}

    name = await node.settled_pod(None, **spec)

    assert node.message(name) == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 8000"
    )
    assert node.store.pod_named(name).status.reason == "OutOfcpu"


async def test_pod_that_asks_for_an_unknown_resource_is_admitted_without_it(node: Any):
    name = await node.settled_pod(1)

    assert node.phase(name) == "Running"
    assert node.devices(name) == ()


@pytest.mark.parametrize(
    ("minor", "phase"),
    [pytest.param("1.30", "Failed", id="counts"), pytest.param("1.31", "Running", id="leaves-out")],
)
async def test_minors_count_an_unknown_resource_of_an_init_container_differently(
    make_node: Any, minor: str, phase: str
):
    node = await make_node(minor)
    init = [{"name": "i", "resources": {"limits": {"example.com/other": 1}}}]

    name = await node.settled_pod(None, initContainers=init)

    assert node.phase(name) == phase
    if phase == "Failed":
        assert node.store.pod_named(name).status.reason == "OutOfexample.com/other"
        assert node.message(name) == (
            "Pod was rejected: Node didn't have enough resource: example.com/other, requested: 1, used: 0, capacity: 0"
        )


@pytest.mark.parametrize(
    ("minor", "told"),
    [
        ("1.34.9", "95%!f(MISSING)ull"),
        ("1.34.10", "95%full"),
        ("1.35", "95%!f(MISSING)ull"),
        ("1.36", "95%full"),
    ],
)
async def test_per_cent_sign_in_a_rejection_is_formatted_in_the_event_of_old_minors(
    make_node: Any, minor: str, told: str
):
    node = await make_node(minor)
    plugin = await node.plugin("d0")

    def refuse(request: api.AllocateRequest) -> api.AllocateResponse:
        raise ValueError("95%full")

    plugin.allocate_answer = refuse

    name = await node.settled_pod(1)

    assert node.message(name).endswith("desc = 95%full, which is unexpected")
    (message,) = [message for reason, message in node.pod_events(name) if reason == "UnexpectedAdmissionError"]
    assert message.endswith(f"desc = {told}, which is unexpected")


async def test_sidecar_is_an_init_container_to_a_kubelet_that_knows_none(make_node: Any):
    node = await make_node("1.27")
    side = {"name": "s", "image": "none", "restartPolicy": "Always", **limits(1)}
    await node.plugin("d0")

    name = await node.settled_pod(1, initContainers=[side])

    assert node.phase(name) == "Running"
    assert node.container(name, "s").is_ready
    assert isinstance(node.container(name, "s").state, Terminated)
    assert (node.devices(name, "s"), node.devices(name)) == (("d0",), ("d0",))


@pytest.mark.parametrize(("minor", "gate"), [("1.28", None), ("1.29", False)])
async def test_sidecar_is_refused_while_its_gate_is_off(make_node: Any, minor: str, gate: bool | None):
    node = await make_node(minor, feature_gates={} if gate is None else {"SidecarContainers": gate})
    side = {"name": "s", "image": "none", "restartPolicy": "Always"}

    name = await node.settled_pod(None, initContainers=[side])

    assert node.store.pod_named(name).status.reason == "InitContainerRestartPolicyForbidden"
    assert node.message(name) == 'Pod was rejected: Init container "s" may not have a non-default restartPolicy'


async def test_sidecar_of_1_28_runs_with_its_gate(make_node: Any):
    node = await make_node("1.28", feature_gates={"SidecarContainers": True})

    name = await node.settled_pod(None, initContainers=[{"name": "s", "image": "none", "restartPolicy": "Always"}])

    assert isinstance(node.container(name, "s").state, Running)


async def test_devices_of_an_ended_pod_go_to_the_next(node: Any):
    await node.plugin("d0")
    first = await node.settled_pod(1)

    await node.delete(first)
    second = await node.settled_pod(1)

    assert node.devices(second) == ("d0",)
    assert ("Killing", "Stopping container c") in [(e.reason, e.message) for e in node.of("event")]


async def test_preferred_allocation_is_asked_and_followed(node: Any):
    plugin = await node.plugin("d0", "d1", "d2")
    plugin.options.get_preferred_allocation_available = True
    plugin.preferred = ["d2"]
    await plugin.register()
    await node.until(lambda: len(node.of("devices-listed")) == 2)

    name = await node.settled_pod(1)

    assert node.devices(name) == ("d2",)
    assert ("GetPreferredAllocation", (["d0", "d1", "d2"], [])) in plugin.calls


async def test_container_starts_after_pre_start_container(node: Any):
    plugin = await node.plugin("d0")
    plugin.options.pre_start_required = True
    plugin.pre_start_error = "not yet"
    await plugin.register()
    await node.until(lambda: len(node.of("devices-listed")) == 2)

    name = node.pod(1)
    await node.until(lambda: node.pod_events(name))
    assert node.phase(name) == "Pending"
    assert node.pod_events(name) == [
        (
            "Failed",
            "Error: device plugin PreStartContainer rpc failed with err: rpc error: code = Internal desc = not yet",
        )
    ]

    # The new sandbox is noticed after a second; from then on every ten seconds.
    await node.clock.advance(1)
    await node.until(lambda: [call for call, _ in plugin.calls].count("PreStartContainer") == 2)
    plugin.pre_start_error = None
    await node.until(lambda: node.clock.next_deadline() == 10)
    await node.clock.advance(9.9)
    assert node.phase(name) == "Pending"
    await node.clock.advance(0.1)
    await node.until(lambda: node.phase(name) == "Running")
    assert plugin.calls[-1] == ("PreStartContainer", ["d0"])


async def test_late_allocate_that_fails_holds_the_container_back_with_the_plugins_words_only(node: Any):
    name = await node.settled_pod(1)
    plugin = await node.plugin("d0")
    answer = plugin.allocate_answer

    def refuse(request: api.AllocateRequest) -> api.AllocateResponse:
        raise ValueError("no memory left")

    plugin.allocate_answer = refuse
    await node.kubelet.complete(name, "c", 1)
    await node.until(lambda: isinstance(node.container(name).state, Waiting))

    assert node.container(name).state == Waiting("CreateContainerConfigError", "no memory left")
    assert ("Failed", "Error: no memory left") in node.pod_events(name)
    plugin.allocate_answer = answer
    await node.clock.advance(10)
    await node.until(lambda: node.devices(name) == ("d0",))


def limits(count: int) -> dict[str, object]:
    return {"resources": {"limits": {"example.com/stub": count}}}


@pytest.mark.parametrize(
    ("init", "app", "expected"),
    [
        pytest.param([{"name": "i", **limits(2)}], 1, {"i": ("d0", "d1"), "c": ("d0",)}, id="init-two-app-one"),
        pytest.param([{"name": "i", **limits(1)}], 2, {"i": ("d0",), "c": ("d0", "d1")}, id="init-one-app-two"),
        pytest.param(
            [{"name": "i", "restartPolicy": "Always", **limits(1)}], 1, {"i": ("d0",), "c": ("d1",)}, id="sidecar"
        ),
        pytest.param(
            [{"name": "i", **limits(2)}, {"name": "s", "restartPolicy": "Always", **limits(1)}],
            1,
            {"i": ("d0", "d1"), "s": ("d0",), "c": ("d1",)},
            id="init-then-sidecar-then-app",
        ),
    ],
)
async def test_init_containers_leave_their_devices_to_the_next_container(node: Any, init, app, expected):
    await node.plugin("d0", "d1")

    name = await node.settled_pod(app, initContainers=init)

    assert {container: node.devices(name, container) for container in expected} == expected


async def test_devices_with_numa_nodes_stand_under_them_in_the_checkpoint(node: Any):
    plugin = await node.plugin()
    plugin.list(["d0"], numa_node=1)
    await node.until(lambda: len(node.of("devices-listed")) == 2)

    await node.settled_pod(1)

    assert '"DeviceIDs":{"1":["d0"]}' in (node.folder / "kubelet_internal_checkpoint").read_text()


async def test_pods_are_admitted_in_the_order_in_which_they_are_bound(node: Any):
    names = [node.pod(None, bound=False) for _ in range(3)]
    await node.settled_pod(None)

    for name in reversed(names):
        node.store.bind(node.store.pod_named(name).uid, "node-1")
    await node.until(lambda: all(node.phase(name) == "Running" for name in names))

    assert [event.pod for event in node.of("container-started")][-3:] == names[::-1]
