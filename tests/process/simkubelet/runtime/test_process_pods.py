"""Pods whose containers are processes, from the plugin's answer to the status; under the real bubblewrap."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simkubelet._internal import open_files
from simkubelet._internal.bounds import version_of_cgroups
from simkubelet.apis import deviceplugin as api
from simkubelet.model.config import RuntimeKind
from simkubelet.model.pod_status import Running, Terminated, Waiting

pytestmark = pytest.mark.slow


@pytest.fixture
async def process_node(make_node: Any) -> Any:
    return await make_node(runtime=RuntimeKind.PROCESS)


def write(folder: Path, path: str, text: str) -> None:
    """A file at a path of the node, before the kubelet's own folder in which its root file system lies."""
    place = folder / "root" / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def spec_of(name: str) -> str:
    edits = {"env": ["FROM_CDI=yes"], "deviceNodes": [{"path": "/dev/cdi0"}]}
    devices = [{"name": name, "containerEdits": edits}]
    return json.dumps({"cdiVersion": "0.6.0", "kind": "vendor.com/gpu", "devices": devices})


def answer(**fields: Any) -> Any:
    response = api.ContainerAllocateResponse(**fields)
    return lambda request: api.AllocateResponse(container_responses=[response])


def limited(script: str) -> dict[str, Any]:
    resources = {"limits": {"example.com/stub": 1}}
    return {"containers": [{"name": "c", "image": "none", "command": ["sh", "-c", script], "resources": resources}]}


async def test_container_finds_all_that_its_plugin_asked_for(process_node: Any, short_folder: Path) -> None:
    write(short_folder, "/dev/stub0", "a device")
    write(short_folder, "/dev/cdi0", "")
    write(short_folder, "/opt/driver/version", "7")
    write(short_folder, "/etc/cdi/vendor.json", spec_of("0"))
    plugin = await process_node.plugin("d0")
    plugin.allocate_answer = answer(
        envs={"STUB": "d0"},
        devices=[api.DeviceSpec(host_path="/dev/stub0", container_path="/dev/mine", permissions="r")],
        mounts=[api.Mount(host_path="/opt/driver", container_path="/driver", read_only=True)],
        cdi_devices=[api.CDIDevice(name="vendor.com/gpu=0")],
    )
    script = (
        'exec >/dev/termination-log; echo "$STUB $FROM_CDI $(cat /dev/mine) $(cat /driver/version)"; ls /dev/cdi0; '
        "touch /driver/x 2>/dev/null || exit 7"
    )

    name = await process_node.settled_pod(None, restartPolicy="Never", **limited(script))
    await process_node.until(lambda: process_node.phase(name) == "Failed")

    end = process_node.container(name).state
    assert isinstance(end, Terminated)
    assert (end.exit_code, end.reason, end.message) == (7, "Error", "d0 yes a device 7\n/dev/cdi0\n")


@pytest.fixture
def raised_limit() -> Iterator[int]:
    """The limit on open files is another than at the start of this process, which is this."""
    first, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first - 1, hard))
    yield first
    resource.setrlimit(resource.RLIMIT_NOFILE, (first, hard))


async def test_container_has_the_limit_on_open_files_that_the_simulator_began_with(
    process_node: Any, raised_limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "FIRST_LIMIT", raised_limit)
    plain = _plain("ulimit -Sn >/dev/termination-log")

    name = await process_node.settled_pod(None, restartPolicy="Never", **plain)
    await process_node.until(lambda: process_node.phase(name) == "Succeeded")

    end = process_node.container(name).state
    assert isinstance(end, Terminated)
    assert end.message == f"{raised_limit}\n"


@pytest.mark.skipif(not version_of_cgroups(), reason="no cgroup can be made here")
async def test_oom_killed_container_is_restarted_by_its_policy(process_node: Any) -> None:
    limits = {"limits": {"memory": "32Mi"}}
    command = [sys.executable, "-c", "bytearray(2**27)"]
    containers = [{"name": "c", "image": "none", "command": command, "resources": limits}]

    name = await process_node.settled_pod(None, restartPolicy="OnFailure", containers=containers)
    await process_node.until(lambda: process_node.container(name).restart_count == 1)

    end = process_node.container(name).last_state
    assert isinstance(end, Terminated)
    assert (end.exit_code, end.reason) == (137, "OOMKilled")


async def test_container_with_unknown_cdi_devices_waits_for_them(process_node: Any, short_folder: Path) -> None:
    plugin = await process_node.plugin("d0")
    plugin.allocate_answer = answer(cdi_devices=[api.CDIDevice(name="vendor.com/gpu=9")])
    message = (
        "failed to create containerd container: CDI device injection failed: unresolvable CDI devices vendor.com/gpu=9"
    )

    name = process_node.pod(None, **limited("exec sleep 1000"))
    await process_node.until(lambda: process_node.pod_events(name))

    assert process_node.container(name).state == Waiting("CreateContainerError", message)
    assert process_node.pod_events(name) == [("Failed", f"Error: {message}")]
    assert process_node.phase(name) == "Pending"

    write(short_folder, "/dev/cdi0", "")
    write(short_folder, "/etc/cdi/vendor.json", spec_of("9"))
    await process_node.clock.advance(10)
    await process_node.until(lambda: process_node.phase(name) == "Running")
    assert process_node.container(name).restart_count == 0


async def test_containers_continue_while_the_kubelet_restarts_and_end_with_the_pod(process_node: Any) -> None:
    name = await process_node.settled_pod(None, **_plain("trap 'exit 0' TERM; while :; do sleep 0.01; done"))

    await process_node.kubelet.restart()
    other = await process_node.settled_pod(None, **_plain("exec sleep 1000"))

    assert isinstance(process_node.container(name).state, Running)
    assert process_node.container(name).restart_count == 0
    await process_node.delete(name)
    assert process_node.of("container-exited")[-1].exit_code == 0
    assert process_node.phase(other) == "Running"


async def test_program_that_is_not_there_is_tried_again_at_once_and_then_with_a_back_off(process_node: Any) -> None:
    name = process_node.pod(None, containers=[{"name": "c", "image": "none", "command": ["no-such-program"]}])
    await process_node.until(lambda: "BackOff" in dict(process_node.pod_events(name)))

    assert process_node.clock.now() == 0
    assert process_node.container(name).restart_count == 1
    assert process_node.container(name).state.reason == "CrashLoopBackOff"
    end = process_node.container(name).last_state
    assert (end.exit_code, end.reason) == (128, "StartError")
    assert end.message.endswith('exec: "no-such-program": executable file not found in $PATH: unknown')
    await process_node.clock.advance(10)
    await process_node.until(lambda: process_node.container(name).restart_count == 2)


def _plain(script: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "none", "command": ["sh", "-c", script]}]}
