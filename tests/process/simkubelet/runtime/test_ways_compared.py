"""A container finds the same in a sandbox and under a supervisor, but for what namespaces alone give it."""

from __future__ import annotations

import os
import shutil

import pytest

from simkubelet._internal import sandbox
from simkubelet.apis import cdi
from simkubelet.devices.pod_devices import DeviceNode, Mount
from simkubelet.runtime import translated_files
from simkubelet.runtime.bubblewrap import HostImage
from simkubelet.runtime.container_runtime import ExitStatus

from .conftest import SomeNode, separated

pytestmark = pytest.mark.slow

LOOK = r"""
IFS=:; for folder in $LEFT_OUT; do leave_out+=(-path "$folder" -prune -o); done; unset IFS
find / "${leave_out[@]}" -printf '%p %y %l\n' | sort
ls /usr/lib /usr/bin /sys /proc/sys /proc/scsi /proc/acpi 2>&1
md5sum /etc/passwd /etc/ld.so.cache /data/f /opt/lib.so /usr/lib/vendor/lib.so 2>&1
env | sort; pwd; umask; ulimit -n; ulimit -d; ulimit -c; id -u; id -g
grep -E "^($STATUS)" /proc/self/status
for path in /etc/passwd /usr/x /data/f /read/f /new /dev/null /dev/gpu0 /dev/x /proc/sys/kernel/hostname /sys/x; do
    (echo x >>$path) 2>/dev/null; echo "$path $?"  # another user has another error
done
mkdir /run/a /var/tmp/b /data/c /read/d /usr/e; rm -r /run/a /data/c
mv /data/f /data/g; ln -s /data/g /tmp/l; cat /tmp/l
readlink /bin /proc/self/exe /proc/self/cwd; cd /data; /bin/pwd; head -c 4 /dev/zero | od; test -t 0; echo $?
echo err >&2; echo message >/dev/termination-log; { sh -c 'kill -9 $$$$'; } 2>/dev/null; echo $?; exit 7
"""


LEFT_OUT = ("/proc", "/sys", "/dev/pts/?*", "/.mounts", "/.image", *HostImage.of_this_host().folders)
"""What is the kernel's or the host's, or for a sandbox alone."""
STATUS = f"Sig[^Q]|Shd|NoNew|Cap{'' if os.geteuid() == 0 else '[^B]'}"
"""Lines of a process's status; a user cannot lower the bound of capabilities that no program gains any more."""


async def seen_in(node: SomeNode) -> tuple[str, ExitStatus, tuple[str, ...]]:
    shutil.rmtree(node.root / "srv", ignore_errors=True)
    for path in ("/srv/data/f", "/srv/read/f", "/driver/lib.so", "/dev/gpu0"):
        node.write(path, path)
    words = ("nvidia-cdi-hook", "create-symlinks", "--link", "lib.so::/usr/lib/vendor/lib.so.1")
    node.hook = lambda env: cdi.ContainerEdits(
        env=("HOOKED=yes",),
        device_nodes=(cdi.DeviceNode("/dev/gpu1", type="c", major=7),),
        mounts=(cdi.Mount("/driver/lib.so", "/usr/lib/vendor/lib.so", ("ro",)),),
        hooks=(cdi.Hook("createContainer", words[0], words), cdi.Hook("prestart", "/bin/x", ("x",))),
    )
    mounts = (Mount("/srv/data", "/data", False), Mount("/srv/read", "/read", True), Mount("/srv/new", "/opt", False))
    devices = (DeviceNode("/dev/gpu0", "/dev/gpu0", "rwm"), DeviceNode("/dev/zero", "/dev/nought", "r"))
    pod = {"uid": "11111111-2222-3333-4444-555555555555"}
    settings = {"env": [{"name": "A", "value": "b c"}], "workingDir": "/work-of/none", "pod": pod}
    envs = {"LEFT_OUT": ":".join(LEFT_OUT), "STATUS": STATUS}
    container = await node.start("bash", "-c", LOOK, mounts=mounts, devices=devices, envs=envs, **settings)
    status = await container.wait()
    return container.log.read_text(), status, container.limits


@separated
async def test_container_finds_the_same(node: SomeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.faker.unique.clear()
    node.faker.seed_instance(7)
    in_sandbox = await seen_in(node)
    monkeypatch.setattr(translated_files, "_way", lambda: (sandbox.supervisor(), "refused"))
    node.faker.unique.clear()
    node.faker.seed_instance(7)
    under_supervisor = await seen_in(node)

    assert under_supervisor[0].splitlines() == in_sandbox[0].splitlines()
    assert under_supervisor[1:] == in_sandbox[1:]
    assert list(node.folder.glob("containers/*")) == []
