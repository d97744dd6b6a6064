from __future__ import annotations

from typing import Any

import pytest

from simkubelet.model.errors import InputError
from simkubelet.model.pod_status import Terminated

RESOURCE = "example.com/stub"


def limits(count: int) -> dict[str, Any]:
    return {"resources": {"limits": {RESOURCE: count}}}


async def test_reboot_ends_containers_without_a_word_and_starts_them_again(node: Any) -> None:
    init = [{"name": "i", "image": "none"}, {"name": "s", "image": "none", "restartPolicy": "Always"}]
    name = await node.settled_pod(None, initContainers=init)

    await node.kubelet.reboot()
    await node.until(lambda: node.phase(name) == "Running" and node.container(name).restart_count == 1)

    assert node.container(name).last_state == Terminated(255, "Unknown", 0.0, 0.0)
    assert [node.container(name, each).restart_count for each in ("i", "s")] == [1, 1]
    assert ("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.") in node.pod_events(name)
    assert not [event for event in node.of("event") if event.reason == "Killing"]


async def test_reboot_gives_the_node_another_boot_id_and_an_event(node: Any) -> None:
    def boot_id() -> str:
        return str(node.store.node("node-1").manifest["status"]["nodeInfo"]["bootID"])

    def reboots() -> list[tuple[str, str, int]]:
        found = [event for event in node.store.objects.all_of("events") if event["reason"] == "Rebooted"]
        return [(event["type"], event["message"], event["count"]) for event in found]

    first = boot_id()
    await node.kubelet.restart()
    assert (boot_id(), reboots()) == (first, [])

    await node.kubelet.reboot()
    await node.clock.advance(30)
    second = boot_id()
    await node.kubelet.reboot()
    third = boot_id()

    assert len({first, second, third}) == 3
    assert reboots() == [
        ("Warning", f"Node node-1 has been rebooted, boot id: {second}", 1),
        ("Warning", f"Node node-1 has been rebooted, boot id: {third}", 1),
    ]


async def test_rebooted_kubelet_admits_pods_in_the_order_that_was_given(node: Any) -> None:
    await node.plugin("d0", "d1", "d2")
    names = [await node.settled_pod(1) for _ in range(3)]
    (node.folder / "kubelet_internal_checkpoint").unlink()

    await node.kubelet.reboot(pods=[names[2], names[0]])
    await node.until(lambda: all(node.container(name).restart_count == 1 for name in names))

    assert [event.pod for event in node.of("container-started")[3:]] == [names[2], names[0], names[1]]


async def test_pod_that_never_restarts_ends_with_the_node(node: Any) -> None:
    name = await node.settled_pod(None, restartPolicy="Never")

    await node.kubelet.reboot()

    await node.until(lambda: node.phase(name) == "Failed")
    assert node.container(name).state.exit_code == 255


async def test_pod_with_devices_is_refused_when_its_plugin_is_late(node: Any) -> None:
    plugin = await node.plugin("d0")
    name = await node.settled_pod(1)
    await plugin.stop()

    await node.kubelet.reboot()
    await node.until(lambda: node.phase(name) == "Failed")

    assert node.message(name) == (
        "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
        f"{RESOURCE}, which is unexpected"
    )
    # Its status never had the end that the reboot was, so nobody hears of it.
    assert node.pod_status(name).containers == ()
    assert not node.of("container-exited")


async def test_running_pod_survives_a_kubelet_restart_without_its_plugin(node: Any) -> None:
    await node.plugin("d0")
    name = await node.settled_pod(1)

    await node.kubelet.restart()
    other = await node.settled_pod(None)

    assert (node.phase(name), node.phase(other)) == ("Running", "Running")
    assert node.container(name).restart_count == 0


async def test_finished_init_container_makes_a_restarted_kubelet_refuse_its_pod(node: Any) -> None:
    await node.plugin("d0")
    name = await node.settled_pod(1, initContainers=[{"name": "i", "image": "none", **limits(1)}])

    await node.kubelet.restart()
    await node.until(lambda: node.phase(name) == "Failed")

    assert node.store.pod_named(name).status.reason == "UnexpectedAdmissionError"
    # Its cgroup is removed with the process in it, and only then is it Failed.
    assert node.container(name).state == Terminated(137, "Error", 0.0, 0.0)
    assert [event.kind for event in node.events][-3:] == ["event", "container-exited", "pod-status"]
    assert ("Killing", "Stopping container c") in node.pod_events(name)


@pytest.mark.parametrize(("minor", "phase"), [("1.26.8", "Failed"), ("1.34", "Succeeded")])
async def test_refused_pod_whose_containers_end_well_has_succeeded(make_node: Any, minor: str, phase: str) -> None:
    node = await make_node(minor)
    await node.plugin("d0")
    name = await node.settled_pod(
        1, initContainers=[{"name": "i", "image": "none", **limits(1)}], volumes=[{"name": "v", "emptyDir": {}}]
    )

    await node.kubelet.restart()
    await node.until(lambda: node.phase(name) != "Running")

    assert node.phase(name) == phase
    assert node.container(name).state == Terminated(0, "Completed", 0.0, 0.0)
    assert (node.message(name) == "") == (phase == "Succeeded")


@pytest.mark.parametrize(("minor", "phase"), [("1.34", "Failed"), ("1.34.7", "Running"), ("1.35", "Running")])
async def test_restarted_container_counts_as_running_from_the_fix_on(make_node: Any, minor: str, phase: str) -> None:
    node = await make_node(minor)
    await node.plugin("d0")
    name = await node.settled_pod(1)
    await node.kill(name)
    await node.until(lambda: node.container(name).restart_count == 1)

    await node.kubelet.restart()
    await node.settled_pod(None)

    assert node.phase(name) == phase


async def test_pods_are_admitted_again_in_the_order_of_their_creation(node: Any) -> None:
    names = [await node.settled_pod(None) for _ in range(4)]
    scheduled_late = node.pod(None, bound=False)
    early = await node.settled_pod(None)
    node.store.bind(node.store.pod_named(scheduled_late).uid, "node-1")
    await node.until(lambda: node.phase(scheduled_late) == "Running")

    await node.kubelet.reboot()
    await node.until(lambda: node.container(early).restart_count == 1)
    seen = [event.pod for event in node.of("container-started")][-6:]

    assert seen == [*names, scheduled_late, early]


async def test_kubelet_that_crashes_tells_nothing_more(node: Any) -> None:
    from simkubelet.model.errors import KubeletPanicError

    name = await node.settled_pod(None)
    node.kubelet._crash(KubeletPanicError("panic: test"))
    await node.until(lambda: node.of("kubelet-crashed"))
    assert not node.kubelet.is_running
    published = node.pod_status(name)

    await node.kubelet.complete(name, "c", 1)
    assert node.pod_status(name) == published
    assert not node.of("container-exited")

    await node.kubelet.start()
    await node.until(lambda: node.container(name).restart_count == 1)
    assert [event.exit_code for event in node.of("container-exited")] == [1]


async def test_kubelet_that_starts_right_after_a_crash_keeps_its_socket(node: Any) -> None:
    from simkubelet.model.errors import KubeletPanicError

    await node.plugin("d0")
    node.kubelet._crash(KubeletPanicError("panic: test"))
    node.kubelet._crash(KubeletPanicError("panic: the same instance's next"))
    await node.kubelet.start()

    assert len(node.of("kubelet-crashed")) == 1
    assert node.kubelet.folder.directory.joinpath("kubelet.sock").is_socket()
    await node.plugin("d0", "d1")


async def test_end_of_a_container_that_does_not_run_is_an_error_of_the_caller(node: Any) -> None:
    name = await node.settled_pod(None)

    with pytest.raises(InputError, match="does not run now"):
        await node.kubelet.complete(name, "other", 0)
    with pytest.raises(InputError, match="no pod"):
        await node.kubelet.complete("missing", "c", 0)
