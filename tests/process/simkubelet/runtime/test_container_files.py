"""What a container finds in its file system: mounts, device files, CDI edits, and nothing else of the host."""

from __future__ import annotations

import pytest

from fakegpu import Machine
from simkubelet.apis import cdi
from simkubelet.devices.pod_devices import DeviceNode, Mount
from simkubelet.runtime.container_runtime import ContainerStartError, StartFailure
from tests.support.decoy import Decoy

pytestmark = pytest.mark.slow


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


@pytest.fixture
def decoy(tmp_path_factory: pytest.TempPathFactory) -> Decoy:
    return Decoy(tmp_path_factory.mktemp("beside") / "decoy")


@pytest.mark.parametrize("path", ["/srv/l", "/srv/l/d", "/srv/l/new"])
async def test_mount_leads_through_no_link_out_of_the_node(node, decoy: Decoy, path: str) -> None:
    node.write("/srv/file")
    (node.root / "srv" / "l").symlink_to(f"../../../{decoy.place.parent.name}/decoy")

    with pytest.raises(ContainerStartError, match=f'failed to mkdir "{path}": mkdir {path}: '):
        await node.start("touch", "/x/file", mounts=(Mount(path, "/x", False),))

    decoy.check()


async def test_output_goes_through_no_link_of_a_plugin(node, decoy: Decoy) -> None:
    container = await node.start("true")
    await container.wait()
    logs = container.log.parents[2]
    logs.rename(node.folder / "away")
    logs.symlink_to(decoy.place)

    with pytest.raises(ContainerStartError, match="create container log directory for container main failed: "):
        await node.start("echo", "hello")

    decoy.check()


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


async def test_mount_point_that_cannot_be_made_is_a_start_error(node):
    node.write("/file")

    with pytest.raises(ContainerStartError) as raised:
        await node.start("true", mounts=(Mount("/file", "/proc/none/file", True),))

    assert raised.value.failure is StartFailure.RUN
    assert "/proc/none" in raised.value.message


async def test_nul_in_a_path_makes_no_other_argument(node):
    with pytest.raises(ContainerStartError, match="NUL"):
        await node.start("true", mounts=(Mount("/etc", "/x\0--bind\0/\0/host", True),))
