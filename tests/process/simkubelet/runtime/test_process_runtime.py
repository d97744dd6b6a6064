"""Containers that run, under the real bubblewrap; where it cannot work these tests are skipped with its reason."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from faker import Faker

from fakegpu import Machine
from simkubelet.apis import cdi
from simkubelet.devices.pod_devices import DeviceNode, DeviceRunOptions, Mount
from simkubelet.model.clock import ManualClock, RealClock
from simkubelet.model.errors import HostError
from simkubelet.model.pod import pod_from_manifest
from simkubelet.runtime.container_runtime import ContainerStartError, ExitReason, ExitStatus, StartFailure
from simkubelet.runtime.process_container import ProcessContainer
from simkubelet.runtime.process_runtime import ProcessRuntime
from tests.support.patience import LIMIT_S

pytestmark = pytest.mark.slow

CREATED = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
)
IN_INIT = f"{CREATED}unable to start container process: error during container init: "


class SomeNode:
    """A node's folders and its runtime; a test changes `clock` or `hook` before the first container."""

    def __init__(self, folder: Path, faker: Faker) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir()
        self.faker = faker
        self.clock: Any = RealClock()
        self.hook: Any = lambda env: cdi.ContainerEdits()
        self.runtime: ProcessRuntime | None = None

    def write(self, path: str, text: str = "") -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    async def start(self, *command: str, attempt: int = 0, **settings: Any) -> ProcessContainer:
        """Start a container; `settings` are fields of its manifest and of `DeviceRunOptions`."""
        fields = {"envs": {}, "mounts": (), "devices": (), "annotations": {}, "cdi_devices": ()}
        options = DeviceRunOptions(**{name: settings.pop(name, none) for name, none in fields.items()})
        manifest = {"name": "main", "image": "ignored", "command": list(command), **settings}
        name = self.faker.unique.slug()
        pod = pod_from_manifest({"metadata": {"name": name}, "spec": {"containers": [manifest]}})
        if self.runtime is None:
            self.runtime = ProcessRuntime(self.folder, self.folder / "pods-logs", self.clock, self.hook)
        return await self.runtime.start(pod, pod.containers[0], options, attempt)

    async def output(self, *command: str, **settings: Any) -> str:
        """What a container printed that ended well."""
        container = await self.start(*command, **settings)
        status = await container.wait()
        assert status == ExitStatus(0, ExitReason.COMPLETED), container.log.read_text()
        return container.log.read_text()


@pytest.fixture
async def node(tmp_path: Path, faker: Faker) -> AsyncIterator[SomeNode]:
    node = SomeNode(tmp_path, faker)
    yield node
    if node.runtime is not None:
        await node.runtime.reboot()


async def test_environment_is_the_containers_to_the_letter(node, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    own = [{"name": "with.dot", "value": "a=b"}, {"name": "WHO", "value": "pod"}]

    seen = await node.output("cat", "/proc/self/environ", env=own, envs={"WHO": "plugin", "GPU": "g 0"})

    variables = dict(entry.split("=", 1) for entry in seen.strip("\0").split("\0"))
    assert variables.pop("PATH").endswith(":/usr/bin:/sbin:/bin")
    assert variables.pop("HOSTNAME")
    assert variables == {"with.dot": "a=b", "WHO": "pod", "GPU": "g 0", "HOME": "/root"}


async def test_program_is_process_1_and_a_user_without_capabilities(node):
    seen = await node.output(
        "sh", "-c", "echo $$$$; id -u; grep CapEff /proc/self/status; cat /proc/sys/kernel/hostname"
    )

    process_id, user, capabilities, hostname = seen.splitlines()
    assert (process_id, user) == ("1", "0")
    assert int(capabilities.split()[1], 16) == 0
    assert hostname != os.uname().nodename


async def test_container_has_no_descriptors_but_the_three(node):
    assert await node.output("ls", "/proc/self/fd") == "0\n1\n2\n3\n"  # 3 is the folder that ls reads


async def test_hosts_own_files_are_not_there(node, tmp_path):
    seen = await node.output("sh", "-c", f"ls -A /run; test -e {tmp_path} || echo hidden")

    assert seen == "hidden\n"


@pytest.mark.parametrize(("code", "reason"), [(0, ExitReason.COMPLETED), (3, ExitReason.ERROR)])
async def test_exit_status_is_the_programs(node, code, reason):
    container = await node.start("sh", "-c", f"exit {code}")

    assert await container.wait() == ExitStatus(code, reason)
    assert await container.wait() == ExitStatus(code, reason)


async def test_output_goes_to_a_file_per_attempt(node):
    first = await node.start("echo", "out")
    await first.wait()
    second = await node.start("sh", "-c", "echo err >&2", attempt=1)
    await second.wait()

    namespace_pod_uid = first.log.relative_to(node.folder / "pods-logs").parts[0]
    assert namespace_pod_uid.startswith("default_")
    assert namespace_pod_uid.count("_") == 2
    assert (first.log.parent.name, first.log.name, first.log.read_text()) == ("main", "0.log", "out\n")
    assert (second.log.name, second.log.read_text()) == ("1.log", "err\n")


@pytest.mark.parametrize(
    ("command", "settings", "words"),
    [
        pytest.param(["nonsense"], {}, 'exec: "nonsense": executable file not found in $PATH', id="not-on-the-path"),
        pytest.param(["/no"], {}, 'exec: "/no": stat /no: no such file or directory', id="no-such-file"),
        pytest.param(["/etc"], {}, 'exec: "/etc": is a directory', id="folder"),
        pytest.param(["/etc/passwd"], {}, 'exec: "/etc/passwd": permission denied', id="not-executable"),
        pytest.param(
            ["true"],
            {"workingDir": "/etc/passwd"},
            'chdir to cwd ("/etc/passwd") set in config.json failed: not a directory',
            id="no-working-directory",
        ),
        pytest.param(["true", "\0"], {}, "embedded null byte", id="nul-in-an-argument"),
        pytest.param(["true", "x" * 200_000], {}, "argument list too long", id="argument-too-long"),
    ],
)
async def test_program_that_cannot_be_started_is_a_start_error(node, command, settings, words):
    with pytest.raises(ContainerStartError) as raised:
        await node.start(*command, **settings)

    assert raised.value.failure is StartFailure.RUN
    assert raised.value.message.startswith(IN_INIT)
    assert words in raised.value.message


async def test_container_without_a_command_is_refused(node):
    with pytest.raises(
        ContainerStartError, match=r'^failed to generate container ".*" spec: .*: no command specified$'
    ):
        await node.start()


async def test_program_that_the_kernel_refuses_ends_with_255(node):
    script = node.write("broken", "#!/no/interpreter\n")
    script.chmod(0o755)

    container = await node.start("/opt/broken", mounts=(Mount("/broken", "/opt/broken", True),))

    assert (await container.wait()).code == 255
    assert container.log.read_text() == "exec /opt/broken: no such file or directory\n"


async def test_working_directory_is_made(node):
    assert await node.output("pwd", workingDir="/data/deep") == "/data/deep\n"


async def test_references_in_command_and_arguments_are_expanded(node):
    own = [{"name": "B", "value": "<$(A)>"}]

    assert await node.output("echo", "$(A)", args=["$$(A)", "$(B)", "$(NO)"], env=own, envs={"A": "a"}) == (
        "a $(A) <$(A)> $(NO)\n"
    )


async def test_mounts_come_from_the_node_first_and_then_from_the_host(node):
    node.write("/etc/passwd", "the node's")
    on_host = node.folder / "on-host"
    on_host.mkdir()
    mounts = (Mount("/etc/passwd", "/data/node", True), Mount(str(on_host), "/data/host", False))

    assert await node.output("sh", "-c", "cat /data/node; echo hello >/data/host/file", mounts=mounts) == "the node's"

    assert (on_host / "file").read_text() == "hello\n"


async def test_read_only_mount_refuses_writes(node):
    node.write("/data/file")

    container = await node.start("touch", "/data/new", mounts=(Mount("/data", "/data", True),))

    assert (await container.wait()).code == 1
    assert "Read-only file system" in container.log.read_text()


async def test_missing_source_of_a_mount_is_made_on_the_node(node):
    await node.output("touch", "/x/file", mounts=(Mount("/var/lib/plugin/../made", "/x", False),))

    assert (node.root / "var/lib/made/file").exists()


async def test_deeper_mount_is_not_hidden_by_a_higher_one(node):
    node.write("/a/sub/file", "deep")
    node.write("/b/sub/other")
    mounts = (Mount("/a/sub", "/data/sub", True), Mount("/b", "/data", True))

    assert await node.output("cat", "/data/sub/file", mounts=mounts) == "deep"


async def test_file_is_mounted_where_the_image_has_nothing(node):
    node.write("/driver/lib.so", "driver")
    node.write("/driver/tool", "#!/bin/sh\ncat /lib/firmware-of-none/deep/lib.so\n").chmod(0o755)
    mounts = (
        Mount("/driver/lib.so", "/lib/firmware-of-none/deep/lib.so", True),
        Mount("/driver/tool", "/usr/bin/tool-of-none", True),
    )

    seen = await node.output("sh", "-c", "tool-of-none; ls /usr/bin/env; python -c 'print(1)'", mounts=mounts)

    assert seen == "driver/usr/bin/env\n1\n"


async def test_device_files_of_the_node_are_in_dev(node):
    node.write("/dev/nvidia0", "fake")
    devices = (DeviceNode("/dev/nvidia0", "/dev/nvidia7", "rw"), DeviceNode("/dev/zero", "/dev/nought", "rwm"))

    seen = await node.output(
        "sh", "-c", "cat /dev/nvidia7; head -c 2 /dev/nought; ls /dev | grep nvidia", devices=devices
    )

    assert seen == "fake\0\0nvidia7\n"


async def test_device_without_write_permission_cannot_be_written(node):
    node.write("/dev/nvidia0")

    container = await node.start(
        "sh", "-c", ">/dev/nvidia0", devices=(DeviceNode("/dev/nvidia0", "/dev/nvidia0", "r"),)
    )

    assert (await container.wait()).code != 0


async def test_permissions_that_a_real_device_does_not_take_are_reported(node):
    container = await node.start("true", devices=(DeviceNode("/dev/zero", "/dev/nought", "r"),))

    assert container.limits == ("device /dev/nought: permissions 'r': the file's own ones hold",)


async def test_missing_device_is_refused(node):
    with pytest.raises(ContainerStartError, match=r"lstat /dev/none: no such file or directory$") as raised:
        await node.start("true", devices=(DeviceNode("/dev/none", "/dev/none", "rw"),))

    assert raised.value.failure is StartFailure.CREATE


CDI_SPEC = """
cdiVersion: 0.6.0
kind: vendor.com/gpu
containerEdits:
  env: [ALL=1, GPU=none]
devices:
  - name: 0
    containerEdits:
      env: [GPU=0]
      deviceNodes: [{path: /dev/gpu0}, {path: /dev/block, type: b, major: 1, minor: 5}]
      mounts: [{hostPath: /driver, containerPath: /usr/lib/vendor, options: [ro, nosuid]}]
      hooks: [{hookName: createContainer, path: /usr/bin/hook}]
"""


async def test_cdi_devices_are_applied(node):
    node.write("/var/run/cdi/vendor.yaml", CDI_SPEC)
    node.write("/dev/gpu0", "gpu")
    node.write("/driver/lib", "-driver")
    script = "cat /dev/gpu0 /usr/lib/vendor/lib; echo -$ALL$GPU; ls /dev/block"

    container = await node.start("sh", "-c", script, cdi_devices=("vendor.com/gpu=0",), envs={"GPU": "plugin"})

    assert (await container.wait()).code == 0
    assert container.log.read_text() == "gpu-driver-10\n/dev/block\n"
    assert container.limits == (
        "device /dev/block: making b 1:5 takes a privilege, a plain file stands for it",
        "hook createContainer /usr/bin/hook: no OCI runtime, so it did not run",
    )


async def test_packages_of_the_simulators_python_are_there(node):
    assert await node.output("python", "-c", "import simkubelet, yaml; print(yaml.__name__)") == "yaml\n"


LINKING_SPEC = """
cdiVersion: 0.6.0
kind: vendor.com/gpu
devices:
  - name: 0
    containerEdits:
      mounts: [{hostPath: /driver/lib, containerPath: /usr/lib/lib-of-none.so.1.2, options: [ro]}]
      hooks:
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args: [nvidia-cdi-hook, create-symlinks, --link, "lib-of-none.so.1.2::/usr/lib/lib-of-none.so.1",
                 --link, "/usr/lib/lib-of-none.so.1::/usr/bin/env", --link, "nothing::/opt/deep/link"]
"""


async def test_links_of_a_cdi_hook_are_made_whatever_is_there(node):
    node.write("/etc/cdi/vendor.yaml", LINKING_SPEC)
    node.write("/driver/lib", "driver")
    script = "cat /usr/lib/lib-of-none.so.1 /usr/bin/env; readlink /usr/lib/lib-of-none.so.1 /opt/deep/link"

    container = await node.start("sh", "-c", script, cdi_devices=("vendor.com/gpu=0",))

    assert (await container.wait()).code == 0
    assert container.log.read_text() == "driverdriverlib-of-none.so.1.2\nnothing\n"
    assert container.limits == ()


async def test_cdi_devices_come_from_annotations_too(node):
    node.write("/etc/cdi/vendor.yaml", CDI_SPEC)
    node.write("/dev/gpu0")
    node.write("/driver/lib")

    assert await node.output("printenv", "GPU", annotations={"cdi.k8s.io/plugin": "vendor.com/gpu=0"}) == "0\n"


async def test_unresolvable_cdi_devices_are_named(node):
    node.write("/etc/cdi/broken.json", "{")

    with pytest.raises(ContainerStartError) as raised:
        await node.start("true", cdi_devices=("vendor.com/gpu=0", "vendor.com/gpu=1"))

    assert raised.value.failure is StartFailure.CREATE
    assert raised.value.message == (
        "failed to create containerd container: CDI device injection failed: "
        "unresolvable CDI devices vendor.com/gpu=0, vendor.com/gpu=1"
    )
    assert "broken.json" in raised.value.__notes__[0]


async def test_container_with_gpus_sees_the_fake_machine_that_the_node_hooks_in(node):
    machine = Machine.create(node.folder / "machine", profile="t4", count=2)
    (node.root / "dev").symlink_to(machine.dev)
    (node.root / "sys").symlink_to(machine.sys)
    node.hook = lambda env: toolkit(machine) if env.get("NVIDIA_VISIBLE_DEVICES") else cdi.ContainerEdits()
    script = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(1)))"
    device = DeviceNode("/dev/nvidia1", "/dev/nvidia1", "rw")

    seen = await node.output(
        *("sh", "-c", f"python -c '{script}'; ls -d /dev/nvidia* /sys/*"),
        envs={"NVIDIA_VISIBLE_DEVICES": machine.gpus[1].uuid},
        devices=(device,),
    )

    assert seen.split() == [machine.gpus[1].uuid, "/dev/nvidia1", "/dev/nvidiactl", "/sys/bus"]


def toolkit(machine: Machine) -> cdi.ContainerEdits:
    """What a vendor's toolkit adds to a container: the driver's library and control device."""
    segment = machine.environment()["FAKEGPU_SEGMENT"]
    return cdi.ContainerEdits(
        env=("FAKEGPU_SEGMENT=/run/nvidia/segment",),
        device_nodes=(cdi.DeviceNode("/dev/nvidiactl"),),
        mounts=(
            cdi.Mount(str(machine.library), "/lib/libnvidia-ml.so.1", ("ro",)),
            cdi.Mount(segment, "/run/nvidia/segment"),
        ),
    )


async def test_program_that_handles_sigterm_ends_by_itself(node):
    container = await node.start(
        "sh", "-c", "trap 'exit 5' TERM; echo ready >/out/fifo; while :; do sleep 0.01; done", mounts=fifo(node)
    )
    await opened(node)

    assert await container.stop(grace_s=30) == ExitStatus(5, ExitReason.ERROR)


async def test_program_has_real_time_to_end_while_the_nodes_time_leaps(node):
    node.clock = ManualClock()
    script = "trap 'echo asked >/out/fifo; read line </out/go; exit 5' TERM; echo ready >/out/fifo; sleep 1000 & wait"
    mounts = fifo(node)
    os.mkfifo(node.folder / "out" / "go")
    container = await node.start("sh", "-c", script, mounts=mounts)
    await opened(node)

    stopping = asyncio.create_task(container.stop(grace_s=30))
    await opened(node)
    await node.clock.advance(30)
    assert container.is_running
    await asyncio.to_thread((node.folder / "out" / "go").write_text, "on\n")

    assert await stopping == ExitStatus(5, ExitReason.ERROR)


async def test_program_that_does_not_is_killed_after_the_grace_of_the_nodes_clock(node):
    node.clock = ManualClock()
    container = await node.start("sh", "-c", "sleep 1000 & echo ready >/out/fifo; wait", mounts=fifo(node))
    await opened(node)

    stopping = asyncio.create_task(container.stop(grace_s=30))
    await node.clock.advance(29)
    assert container.is_running
    await node.clock.advance(1)

    assert await stopping == ExitStatus(137, ExitReason.ERROR)


async def test_stop_of_an_ended_container_gives_its_status(node):
    container = await node.start("false")
    await container.wait()

    assert await container.stop(grace_s=30) == ExitStatus(1, ExitReason.ERROR)


async def test_reboot_ends_what_runs_and_leaves_what_has_ended(node):
    ended = await node.start("true")
    await ended.wait()
    running = [await node.start("sleep", "1000") for _ in range(3)]

    await node.runtime.reboot()

    assert [await container.wait() for container in running] == [ExitStatus(255, ExitReason.UNKNOWN)] * 3
    assert (await ended.wait()).code == 0


async def test_start_that_is_cancelled_leaves_no_process(node):
    mounts = fifo(node)
    reader = os.open(node.folder / "out" / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    for turns in range(4):
        start = asyncio.create_task(node.start("sh", "-c", "exec 9>/out/fifo; sleep 1000", mounts=mounts))
        for _ in range(turns):
            await asyncio.sleep(0)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start

    assert os.read(reader, 1) == b""  # nobody has it open for writing
    os.close(reader)


SIMULATOR = """
import asyncio, sys
from pathlib import Path
from simkubelet.model.clock import RealClock
from simkubelet.model.pod import pod_from_manifest
from simkubelet.runtime.process_runtime import ProcessRuntime
from simkubelet.devices.pod_devices import DeviceRunOptions, Mount

async def main():
    command = ["sh", "-c", "exec 9>/out/fifo; echo ready >&9; setsid sleep 1000 & sleep 1000"]
    container = {"name": "c", "command": command}
    pod = pod_from_manifest({"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    options = DeviceRunOptions({}, (Mount(sys.argv[2], "/out", False),), (), {}, ())
    runtime = ProcessRuntime(Path(sys.argv[1]), Path(sys.argv[1]) / "logs", RealClock())
    running = await runtime.start(pod, pod.containers[0], options)
    await running.wait()

asyncio.run(main())
"""


async def test_container_changes_nothing_of_the_host(node, tmp_path_factory):
    host = tmp_path_factory.mktemp("host")
    (host / "file").touch()
    shown = host.stat().st_mtime_ns
    mounts = (Mount(str(host), "/data", False),)
    devices = (DeviceNode(str(host), "/dev/folder", "rwm"), DeviceNode("/dev/full", "/dev/full0", "rwm"))

    script = (
        "for path in /data/new /dev/folder/new; do touch $path 2>/dev/null && echo made $path; done;"
        "chmod 600 /data/file 2>/dev/null && echo changed; (echo x >/dev/full0) 2>/dev/null || echo full"
    )
    said = await node.output("sh", "-c", script, mounts=mounts, devices=devices)

    assert said == "full\n"
    assert (list(host.iterdir()), host.stat().st_mtime_ns) == ([host / "file"], shown)


async def test_container_sees_what_a_plugin_wrote_into_a_shared_folder(node):
    written = node.folder / "view" / "etc" / "skt-written"
    written.mkdir(parents=True)
    (written / "file").write_text("written")
    hidden = node.folder / "view" / "etc" / "ssl"
    hidden.mkdir()
    hidden.chmod(0o1555)

    mounts = (Mount("/etc/skt-written", "/data", False), Mount("/etc/ssl", "/ssl", True))
    said = await node.output("sh", "-c", "cat /data/file; ls -d /ssl/certs; echo more >>/data/file", mounts=mounts)

    assert said == "written/ssl/certs\n"
    assert (written / "file").read_text() == "writtenmore\n"


async def test_containers_end_when_the_simulator_is_killed(node):
    fifo(node)
    simulator = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SIMULATOR, node.folder, node.folder / "out"),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    reader = await asyncio.to_thread((node.folder / "out" / "fifo").open, "rb", 0)
    with reader:
        assert await asyncio.to_thread(reader.read, 6) == b"ready\n"
        simulator.send_signal(signal.SIGKILL)
        await simulator.wait()

        # The end of the file comes when the last process of the container is gone.
        assert await asyncio.wait_for(asyncio.to_thread(reader.read), LIMIT_S) == b""


async def test_message_that_the_container_leaves_is_in_its_status(node):
    container = await node.start("sh", "-c", "echo out of luck >/dev/termination-log; exit 1")

    assert await container.wait() == ExitStatus(1, ExitReason.ERROR, "out of luck\n")


@pytest.mark.parametrize(("code", "message"), [(1, "last words\n"), (0, "")])
async def test_end_of_the_log_replaces_the_message_of_a_failure(node, code, message):
    script = f"echo last words; exit {code}"

    container = await node.start("sh", "-c", script, terminationMessagePolicy="FallbackToLogsOnError")

    assert (await container.wait()).message == message


async def test_mount_point_that_cannot_be_made_is_a_start_error(node):
    node.write("/file")

    with pytest.raises(ContainerStartError) as raised:
        await node.start("true", mounts=(Mount("/file", "/proc/none/file", True),))

    assert raised.value.failure is StartFailure.RUN
    assert "/proc/none" in raised.value.message


async def test_nul_in_a_path_makes_no_other_argument(node):
    with pytest.raises(ContainerStartError, match="NUL"):
        await node.start("true", mounts=(Mount("/etc", "/x\0--bind\0/\0/host", True),))


async def test_missing_bubblewrap_is_reported(node, monkeypatch):
    monkeypatch.setenv("PATH", str(node.folder))

    with pytest.raises(HostError, match="install the package bubblewrap"):
        await node.start("true")


async def test_refused_namespaces_are_reported(node, monkeypatch):
    fake = node.folder / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(node.folder))

    with pytest.raises(
        HostError, match=r"cannot make a container here \(setting up uid map: Permission denied\); allow"
    ):
        await node.start("true")


def fifo(node: SomeNode) -> tuple[Mount, ...]:
    """A mount in which a container opens a fifo to say that it is there."""
    folder = node.folder / "out"
    folder.mkdir()
    os.mkfifo(folder / "fifo")
    return (Mount(str(folder), "/out", False),)


async def opened(node: SomeNode) -> None:
    with await asyncio.to_thread((node.folder / "out" / "fifo").open, "rb", 0) as reader:
        await asyncio.to_thread(reader.read)
