"""Containers whose image stands for a plugin are that plugin's processes; all others are the node's runtime's."""

from __future__ import annotations

import asyncio
import copy
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from scenarios.backends.world.child import PluginCommand, spawn_process
from scenarios.backends.world.node import SimNode
from scenarios.backends.world.plugin_forks import PluginForks
from scenarios.story.specs import NodeSpec, PluginSpec
from scenarios.trace.events import PluginExited, PluginStarted
from scenarios.trace.trace import Trace
from scenarios.up.plugin_images import BUNDLED_IMAGES, PluginImages
from simkubelet.apis.deviceplugin import DEVICE_PLUGIN_PATH
from simkubelet.devices.pod_devices import DeviceRunOptions
from simkubelet.kubelet.kubelet import CONTAINER_LOGS
from simkubelet.model.clock import ManualClock, RealClock
from simkubelet.model.errors import HostError
from simkubelet.model.pod import Pod, pod_from_manifest
from simkubelet.runtime.container_runtime import (
    BookKeepingContainer,
    BookKeepingRuntime,
    ContainerStartError,
    ExitStatus,
)
from tests.support.patience import LIMIT_S, until
from tests.support.plugin_kubelet import FakeKubelet

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
        "volumeMounts": [{"name": "sockets", "mountPath": DEVICE_PLUGIN_PATH}],
    }
    volume = {"name": "sockets", "hostPath": {"path": DEVICE_PLUGIN_PATH}}
    return pod_from_manifest({"metadata": {"name": "pod"}, "spec": {"containers": [container], "volumes": [volume]}})


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


def with_volume(pod: Pod, path: str, **mount: str) -> Pod:
    """A pod with another volume than its own, of a folder of the node."""
    manifest = copy.deepcopy(dict(pod.manifest))
    manifest["spec"]["volumes"] = [{"name": "other", "hostPath": {"path": path}}]
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "other", **mount}]
    return pod_from_manifest(manifest)


def with_mounts(pod: Pod, places: dict[str, str]) -> Pod:
    """A pod with other volumes than its own: folder of the node -> where it is mounted."""
    manifest = copy.deepcopy(dict(pod.manifest))
    named = {f"v{index}": pair for index, pair in enumerate(places.items())}
    manifest["spec"]["volumes"] = [{"name": name, "hostPath": {"path": path}} for name, (path, _) in named.items()]
    manifest["spec"]["containers"][0]["volumeMounts"] = [
        {"name": name, "mountPath": place} for name, (_, place) in named.items()
    ]
    return pod_from_manifest(manifest)


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
    # Without it, and without a kubelet within five seconds, the plugin ends by itself.
    (node.root / "etc" / "gophers").mkdir(parents=True)
    async with FakeKubelet(node.plugin_folder) as kubelet:
        container = await runtime.start(pod, pod.containers[0], NO_DEVICES)
        await kubelet.registration()

        assert forks._server is not None
        assert await container.stop(grace_s=LIMIT_S) == ExitStatus.of(0)
    await forks.close()


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/run/prometheus", {"mountPath": DEVICE_PLUGIN_PATH}),
        ("/var/lib/kubelet/pod-resources", {"mountPath": "/var/lib/kubelet/pod-resources"}),
        ("/var/lib", {"mountPath": "/var/lib", "subPath": "other"}),
    ],
)
@pytest.mark.parametrize("plugin", [SHELL, BUNDLED_IMAGES["simkubelet/gopher"]], ids=["foreign", "bundled"])
async def test_plugin_without_the_volume_finds_no_folder_of_sockets(
    node: SimNode, plugin: PluginSpec, path: str, mount: dict[str, str]
) -> None:
    args = [f"ls {DEVICE_PLUGIN_PATH}"] if plugin is SHELL else []
    pod = with_volume(a_pod("example.com/plugin", *args), path, **mount)
    (node.root / "etc" / "gophers").mkdir(parents=True)

    container = await images(node, plugin).start(pod, pod.containers[0], NO_DEVICES)

    assert (await container.wait()).code == 2
    assert DEVICE_PLUGIN_PATH in log_of(node, pod)
    assert "no such file or directory" in log_of(node, pod).lower()


@pytest.mark.parametrize(
    ("path", "mount", "seen"),
    [
        ("/var/lib/kubelet/device-plugins/", {"mountPath": "/sockets/"}, "/sockets"),
        ("/var/lib/kubelet", {"mountPath": "/var/lib/kubelet"}, DEVICE_PLUGIN_PATH),
        ("/", {"mountPath": "/var/lib", "subPath": "var/lib"}, DEVICE_PLUGIN_PATH),
    ],
)
async def test_plugin_finds_the_folder_of_sockets_where_a_volume_shows_it(
    node: SimNode, path: str, mount: dict[str, str], seen: str
) -> None:
    (node.plugin_folder / "kubelet.sock").touch()
    pod = with_volume(a_pod("example.com/plugin", f"ls {seen}"), path, **mount)

    container = await images(node).start(pod, pod.containers[0], NO_DEVICES)

    assert await container.wait() == ExitStatus.of(0)
    assert log_of(node, pod) == "kubelet.sock\n"


def with_folders(node: SimNode) -> dict[str, Path]:
    """Folders of the node that pods mount -> where they are, each with a file of its own name."""
    kubelet = {f"/var/lib/kubelet/{one}": node.directory / one for one in ("plugins_registry", "pod-resources")}
    folders = {**kubelet, "/run/cdi": node.root / "run/cdi", "/etc/cdi": node.root / "etc/cdi"}
    for path, folder in folders.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.replace("/", "-")).touch()
    return folders


@pytest.mark.parametrize(
    "folder", ["/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/pod-resources", "/run/cdi", "/etc/cdi"]
)
async def test_plugin_sees_a_folder_of_the_node_only_where_it_mounts_it(node: SimNode, folder: str) -> None:
    folders = with_folders(node)
    list_all = f"for one in {' '.join(folders)} /elsewhere; do ls $one 2>/dev/null; done; ls {DEVICE_PLUGIN_PATH}"
    runtime, without = images(node), a_pod("example.com/plugin", list_all)
    (node.plugin_folder / "kubelet.sock").touch()
    mounted = with_mounts(a_pod("example.com/plugin", list_all), {folder: folder, DEVICE_PLUGIN_PATH: "/elsewhere"})

    for pod, seen, status in (
        (without, ["kubelet.sock"], 0),
        (mounted, [folder.replace("/", "-"), "kubelet.sock"], 2),
    ):
        container = await runtime.start(pod, pod.containers[0], NO_DEVICES)

        assert (await container.wait()).code == status
        assert [line for line in log_of(node, pod).splitlines() if DEVICE_PLUGIN_PATH not in line] == seen


async def test_pod_without_a_folder_takes_it_from_no_other(node: SimNode) -> None:
    folders = with_folders(node)
    held = "/var/lib/kubelet/pod-resources"
    first = with_mounts(
        a_pod("example.com/plugin", f"echo ready; read line </later; ls {held}"), {held: held, "/later": "/later"}
    )
    runtime = images(node)
    os.mkfifo(node.root / "later")
    holder = await runtime.start(first, first.containers[0], NO_DEVICES)
    await until(lambda: "ready" in log_of(node, first))
    second = with_mounts(a_pod("example.com/plugin", "true"), {"/var/lib/kubelet/plugins_registry": "/var/lib/x"})

    other = await runtime.start(second, second.containers[0], NO_DEVICES)
    await other.wait()
    await asyncio.to_thread((node.root / "later").write_text, "go\n")
    await holder.wait()

    assert log_of(node, first).splitlines()[-1] == held.replace("/", "-")
    assert folders[held].is_dir()


async def test_what_a_plugin_writes_without_a_mount_is_its_own(node: SimNode) -> None:
    folders = with_folders(node)
    write = "cd /run/cdi && echo x > spec && ls; mkdir -p /var/lib/kubelet/plugins/mine && ls /var/lib/kubelet"
    pod = a_pod("example.com/plugin", write)

    container = await images(node).start(pod, pod.containers[0], NO_DEVICES)

    assert (await container.wait()).code == 0
    assert log_of(node, pod).splitlines() == ["spec", "device-plugins", "plugins"]
    assert names_in(folders["/run/cdi"]) == ["-run-cdi"]
    assert not (node.directory / "plugins").exists()
    assert names_in(node.directory / "containers") == []


@pytest.mark.parametrize("folder", ["/var/run/cdi", "/run", "/etc/cdi"])
async def test_bundled_plugin_writes_specifications_only_into_a_folder_that_it_mounts(
    node: SimNode, folder: str
) -> None:
    asked: list[PluginCommand] = []

    async def spawn(command: PluginCommand, output: object) -> NoReturn:
        asked.append(command)
        raise HostError("not started")

    runtime = PluginImages(node, BUNDLED_IMAGES, BookKeepingRuntime(), RealClock(), lambda *_: None, Trace(), spawn)
    pod = with_mounts(a_pod("simkubelet/nvidia"), {DEVICE_PLUGIN_PATH: DEVICE_PLUGIN_PATH, folder: folder})

    with pytest.raises(ContainerStartError):
        await runtime.start(pod, pod.containers[0], NO_DEVICES)

    assert ("--cdi-spec-dir=" in asked[0].argv) == (folder == "/etc/cdi")


async def test_mount_in_a_folder_begins_where_a_variable_says(node: SimNode) -> None:
    with_folders(node)
    pod = with_volume(
        a_pod("example.com/plugin", "ls /here", PART="lib/kubelet"),
        "/var",
        mountPath="/here",
        subPathExpr="$(PART)/pod-resources",
    )

    container = await images(node).start(pod, pod.containers[0], NO_DEVICES)
    await container.wait()

    assert log_of(node, pod) == "-var-lib-kubelet-pod-resources\n"


@pytest.fixture
def decoy(tmp_path: Path) -> Path:
    """A folder of the host with a secret, and with programs and modules that leave a file ``ran`` when they run."""
    folder = tmp_path / "decoy"
    folder.mkdir()
    (folder / "secret").write_text("key: [s3cret\n")
    for name in ("setpriv", "nvidia-cuda-mps-control"):
        (folder / name).write_text(f"#!/bin/sh\n: >'{folder}/ran'\n")
        (folder / name).chmod(0o755)
    (folder / "sitecustomize.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")
    return folder


def names_in(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


LOADED = {"PYTHONPATH": "{decoy}", "PYTHONHOME": "{decoy}", "PATH": "{decoy}", "LD_PRELOAD": "{decoy}/no.so"}


@pytest.mark.parametrize("is_forked", [True, False], ids=["forked", "executed"])
@pytest.mark.parametrize("padding", [0, 4096], ids=["short", "long"])
async def test_variables_of_a_container_load_nothing_into_a_bundled_plugin(
    node: SimNode, decoy: Path, is_forked: bool, padding: int
) -> None:
    forks = PluginForks()
    spawn = forks.spawn if is_forked else spawn_process
    runtime = PluginImages(node, BUNDLED_IMAGES, BookKeepingRuntime(), RealClock(), lambda *_: None, Trace(), spawn)
    (node.root / "etc" / "gophers").mkdir(parents=True)
    env = {name: text.format(decoy=decoy) for name, text in LOADED.items()}
    pod = a_pod("simkubelet/gopher", **env, SIMKUBELET_PLUGIN="", PADDING="x" * padding)

    container = await runtime.start(pod, pod.containers[0], NO_DEVICES)
    await until(lambda: log_of(node, pod) != "")

    assert await container.stop(grace_s=10) == ExitStatus.of(0)
    assert "preload" not in log_of(node, pod)
    assert not (decoy / "ran").exists()
    await forks.close()


async def test_variables_of_a_container_are_obeyed_only_in_the_view_of_a_foreign_plugin(
    node: SimNode, decoy: Path
) -> None:
    env = {name: text.format(decoy=decoy) for name, text in LOADED.items() if name != "PATH"}
    pod = a_pod("example.com/plugin", "exit 0", **env)

    container = await images(node).start(pod, pod.containers[0], NO_DEVICES)

    assert await container.wait() == ExitStatus.of(0)
    # The loader's complaint about the program itself.
    assert log_of(node, pod).count("cannot be preloaded") == 1
    assert not (decoy / "ran").exists()


async def test_arguments_and_variables_of_a_container_show_no_files_of_the_host(node: SimNode, decoy: Path) -> None:
    pod = a_pod("example.com/plugin", f"cat {decoy}/secret $SECRET $0", str(decoy / "secret"), SECRET=f"{decoy}/secret")

    container = await images(node).start(pod, pod.containers[0], NO_DEVICES)

    assert await container.wait() == ExitStatus.of(1)
    assert "s3cret" not in log_of(node, pod)


@pytest.mark.parametrize(
    ("plugin", "args", "env"),
    [
        ("generic", ("--config", "{decoy}/secret"), {}),
        ("generic", ("--config", "/../../../../../../../../{decoy}/secret"), {}),
        ("generic", ("--host-root", "/", "--config={decoy}/secret"), {}),
        ("generic", ("--config", "/link"), {}),
        ("iluvatar", ("--config-file", "{decoy}/secret"), {}),
        ("nvidia", ("--config-file", "{decoy}/secret"), {}),
        ("nvidia", (), {"CONFIG_FILE": "{decoy}/secret"}),
        ("nvidia-mps", (), {"CONFIG_FILE": "{decoy}/secret"}),
        ("gopher", ("--kubelet-dir", "{decoy}", "--directory", "/"), {}),
        ("gopher", ("--host-root", "{decoy}", "--kubelet-dir={decoy}"), {}),
        ("gopher", ("--directory", "/no", "--container", "{{}}"), {}),
        ("gopher", ("--",), {}),
        ("gpushare", ("--query-kubelet",), {"KUBECONFIG": "{decoy}/secret", "NODE_NAME": "node-1"}),
        ("gpu-memory", (), {"KUBECONFIG": "{decoy}/secret"}),
        ("volcano", (), {"CONFIG_FILE": "{decoy}/secret"}),
    ],
)
async def test_bundled_plugin_neither_reads_nor_changes_files_of_the_host_for_a_container(
    node: SimNode, decoy: Path, plugin: str, args: tuple[str, ...], env: dict[str, str]
) -> None:
    before = names_in(decoy)
    (node.root / "link").symlink_to(decoy / "secret")
    spec = BUNDLED_IMAGES[f"simkubelet/{plugin}"]
    given = {name: text.format(decoy=decoy) for name, text in env.items()}
    pod = a_pod("example.com/plugin", *(arg.format(decoy=decoy) for arg in args), **given)

    container = await images(node, spec).start(pod, pod.containers[0], NO_DEVICES)
    await until(lambda: log_of(node, pod) != "")
    await container.stop(grace_s=10)

    assert "s3cret" not in log_of(node, pod)
    assert "Traceback" not in log_of(node, pod)
    assert names_in(decoy) == before


async def test_bundled_plugin_reads_the_files_of_its_node(node: SimNode) -> None:
    (node.root / "config").mkdir()
    (node.root / "config" / "serial.yaml").write_text("resource: example.com/line\ncount: 0\n")
    pod = a_pod("example.com/plugin", "--config", "/config/serial.yaml")

    container = await images(node, BUNDLED_IMAGES["simkubelet/generic"]).start(pod, pod.containers[0], NO_DEVICES)
    await container.wait()

    assert "/config/serial.yaml:2: count: 0 is out of range" in log_of(node, pod)


@pytest.mark.parametrize("text", ["\0", "\ud800", "x" * (1 << 17)], ids=["zero", "surrogate", "long"])
@pytest.mark.parametrize("plugin", [SHELL, BUNDLED_IMAGES["simkubelet/gopher"]], ids=["foreign", "bundled"])
async def test_word_that_no_process_takes_is_refused(node: SimNode, plugin: PluginSpec, text: str) -> None:
    pod = a_pod("example.com/plugin", VALUE=text)

    with pytest.raises(ContainerStartError):
        await images(node, plugin).start(pod, pod.containers[0], NO_DEVICES)


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
