"""Containers whose image stands for a plugin are that plugin's processes; all others are the node's runtime's."""

from __future__ import annotations

import asyncio
import copy
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.backends.world.child import spawn_process
from scenarios.backends.world.node import SimNode
from scenarios.backends.world.plugin_forks import PluginForks
from scenarios.story.specs import NodeSpec, PluginSpec
from scenarios.trace.events import PluginExited, PluginStarted
from scenarios.trace.trace import Trace
from scenarios.up.plugin_images import BUNDLED_IMAGES, PluginImages
from simkubelet.devices.pod_devices import DeviceRunOptions
from simkubelet.kubelet.kubelet import CONTAINER_LOGS
from simkubelet.model.clock import ManualClock, RealClock
from simkubelet.model.pod import Pod, pod_from_manifest
from simkubelet.runtime.container_runtime import BookKeepingContainer, BookKeepingRuntime, ExitStatus
from tests.support.patience import until

NO_DEVICES = DeviceRunOptions(envs={}, mounts=(), devices=(), annotations=(), cdi_devices=())
SHELL = PluginSpec(name="shell", command=("sh", "-c"))


@pytest.fixture
def node() -> Iterator[SimNode]:
    with tempfile.TemporaryDirectory(prefix="up-") as folder:
        node = SimNode(NodeSpec(name="node-1"), Path(folder, "node-1"))
        node.create()
        node.plugin_folder.mkdir()
        yield node


def a_pod(image: str, *args: str, **env: str) -> Pod:
    container = {
        "name": "main",
        "image": image,
        "args": list(args),
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }
    return pod_from_manifest({"metadata": {"name": "pod"}, "spec": {"containers": [container]}})


def images(
    node: SimNode, plugin: PluginSpec = SHELL, noted: list[str] | None = None, trace: Trace | None = None
) -> PluginImages:
    notes = [] if noted is None else noted
    return PluginImages(
        node,
        {"example.com/plugin": plugin},
        BookKeepingRuntime(),
        RealClock(),
        lambda pod, container, message: notes.append(message),
        Trace() if trace is None else trace,
        spawn_process,
    )


def with_command(pod: Pod, *command: str) -> Pod:
    manifest = copy.deepcopy(dict(pod.manifest))
    manifest["spec"]["containers"][0]["command"] = list(command)
    return pod_from_manifest(manifest)


def log_of(node: SimNode, pod: Pod, attempt: int = 0) -> str:
    return (node.directory / CONTAINER_LOGS / f"default_pod_{pod.uid}" / "main" / f"{attempt}.log").read_text()


@pytest.mark.parametrize("image", ["example.com/plugin", "example.com/plugin:v2", "example.com/plugin:v2@sha256:0a"])
async def test_image_is_the_plugin_with_the_arguments_and_variables_of_its_container(node: SimNode, image: str) -> None:
    pod = a_pod(image, "echo $GREETING $(NAME); exit 3", GREETING="hello", NAME="plugin")

    container = await images(node).start(pod, pod.containers[0], NO_DEVICES)

    assert await container.wait() == ExitStatus.of(3)
    assert log_of(node, pod) == "hello plugin\n"


async def test_start_and_end_of_a_plugin_are_recorded_once(node: SimNode) -> None:
    pod, trace = a_pod("example.com/plugin", "echo bye; exit 3"), Trace()

    container = await images(node, trace=trace).start(pod, pod.containers[0], NO_DEVICES, attempt=1)
    await container.wait()
    await container.stop(grace_s=0)

    events = [entry.event for entry in trace]
    assert events == [PluginStarted("pod", "node-1", 2), PluginExited("pod", "node-1", 3, "bye")]


async def test_other_images_are_left_to_the_nodes_runtime(node: SimNode) -> None:
    pod = a_pod("example.com/plugin-of-another:v1")

    container = await images(node).start(pod, pod.containers[0], NO_DEVICES)

    assert isinstance(container, BookKeepingContainer)


@pytest.mark.parametrize(
    ("plugin", "command", "said"),
    [
        (("echo",), [], "args"),
        (("echo",), ["/usr/bin/echo"], "args"),
        (("echo",), ["/usr/bin/echo", "--flag"], "--flag args"),
        (("sh", "/opt/../bin/echo"), ["/bin/sh", "/app/echo", "--flag"], None),
        (("echo",), ["vendor-device-plugin-v2", "--flag"], "--flag args"),
    ],
)
async def test_command_that_names_the_plugin_runs_it_with_its_arguments(
    node: SimNode, plugin: tuple[str, ...], command: list[str], said: str | None
) -> None:
    pod = with_command(a_pod("example.com/plugin", "args"), *command)
    noted: list[str] = []

    container = await images(node, PluginSpec(name="image", command=plugin), noted).start(
        pod, pod.containers[0], NO_DEVICES
    )
    await container.wait()

    assert noted == []
    if said is not None:
        assert log_of(node, pod) == f"{said}\n"


@pytest.mark.parametrize("command", [["sh", "-c", "sleep 1"], ["gpu-feature-discovery"], ["/bin/true", "simkubelet"]])
async def test_command_of_another_program_is_no_plugin_and_says_so(node: SimNode, command: list[str]) -> None:
    pod = with_command(a_pod("example.com/plugin:v1"), *command)
    noted: list[str] = []

    container = await images(node, PluginSpec(name="nvidia", builtin="nvidia"), noted).start(
        pod, pod.containers[0], NO_DEVICES
    )

    assert isinstance(container, BookKeepingContainer)
    assert noted == [
        f"image example.com/plugin:v1 stands for the plugin nvidia, and this container runs {command[0]}: it is "
        "started as a container of any other image; leave 'command' out, or name the plugin's program in it"
    ]


async def test_plugin_may_end_by_itself_on_request(node: SimNode) -> None:
    pod = a_pod("example.com/plugin", "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
    container = await images(node).start(pod, pod.containers[0], NO_DEVICES)
    await until(lambda: "ready" in log_of(node, pod))

    assert await container.stop(grace_s=10) == ExitStatus.of(0)
    assert log_of(node, pod).splitlines()[-1] == "bye"


async def test_plugin_that_does_not_end_is_killed_after_its_grace(node: SimNode) -> None:
    clock = ManualClock()
    runtime = PluginImages(
        node,
        {"example.com/plugin": SHELL},
        BookKeepingRuntime(),
        clock,
        lambda pod, container, message: None,
        Trace(),
        spawn_process,
    )
    pod = a_pod("example.com/plugin", "trap '' TERM; echo ready; while :; do sleep 0.01; done")
    container = await runtime.start(pod, pod.containers[0], NO_DEVICES)
    await until(lambda: "ready" in log_of(node, pod))
    stopped = asyncio.ensure_future(container.stop(grace_s=30))
    await until(lambda: clock.next_deadline() is not None)
    await clock.advance(30)

    assert await stopped == ExitStatus.of(128 + 9)


async def test_container_of_a_bundled_plugin_is_forked(node: SimNode) -> None:
    forks = PluginForks()
    runtime = PluginImages(
        node, BUNDLED_IMAGES, BookKeepingRuntime(), RealClock(), lambda *_: None, Trace(), forks.spawn
    )
    pod = a_pod("simkubelet/gopher:v1", NAME="plugin")
    # Without it the plugin ends by itself.
    (node.root / "etc" / "gophers").mkdir(parents=True)
    container = await runtime.start(pod, pod.containers[0], NO_DEVICES)
    # It logs when it has handlers of signals.
    await until(lambda: log_of(node, pod) != "")

    assert forks._server is not None
    assert await container.stop(grace_s=10) == ExitStatus.of(0)
    await forks.close()


async def test_reboot_ends_all(node: SimNode) -> None:
    runtime = images(node)
    pods = [a_pod("example.com/plugin", "sleep 1000"), a_pod("none")]
    containers = [await runtime.start(pod, pod.containers[0], NO_DEVICES) for pod in pods]

    await runtime.reboot()

    assert [await container.wait() for container in containers] == [ExitStatus.power_cut()] * 2


async def test_program_that_is_not_there_ends_as_in_a_shell(node: SimNode) -> None:
    gone = PluginSpec(name="gone", command=("/no/such/program",))
    runtime = images(node, gone)
    pod = a_pod("example.com/plugin")

    container = await runtime.start(pod, pod.containers[0], NO_DEVICES)

    assert (await container.wait()).code == 127
    assert "/no/such/program" in log_of(node, pod)
