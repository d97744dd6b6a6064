"""What containers may do to the host and to each other: nothing but with what they were given."""

from __future__ import annotations

import os
import socket

import pytest

from simkubelet.devices.pod_devices import DeviceNode, Mount
from simkubelet.runtime import process_runtime
from tests.support.attacks import Victim
from tests.support.patience import until

from .conftest import separated

pytestmark = pytest.mark.slow

LACKING = {
    "nothing": "",
    "landlock": "isolation._LANDLOCK_MIN_ABI = 99",
    "idmapped mounts": "isolation._MOUNT_ATTR_IDMAP = 1 << 40",
    "mounts without a place": "isolation._OPEN_TREE = 4000",
}
"""What a kernel may lack -> the statement that lets it."""
DIAL = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
LISTEN = """
import socket
one = socket.create_server(("127.0.0.1", 0))
print(one.getsockname()[1], flush=True)
one.accept()
"""


@pytest.fixture(params=LACKING)
def lacking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    begin = "isolation.__dict__)\n"
    assert process_runtime._INIT.count(begin) == 1
    monkeypatch.setattr(
        process_runtime, "_INIT", process_runtime._INIT.replace(begin, f"{begin}{LACKING[request.param]}\n")
    )
    return request.param


@separated
@pytest.mark.parametrize("is_on_host", [False, True], ids=["own network", "network of the host"])
async def test_attacks_on_the_host_are_refused(node, tmp_path, lacking, is_on_host):
    given = (DeviceNode("/dev/zero", "/dev/zero", "rwm"), DeviceNode("/dev/null", "/dev/gpu0", "rwm"))
    pod = {"hostNetwork": True} if is_on_host else {}
    with Victim(tmp_path) as victim:
        seen = await node.output(*victim.argv("python"), devices=given, pod=pod)

    # Abstract sockets are of the network namespace.
    assert seen.splitlines() == (["connects to an abstract socket"] if is_on_host and lacking == "landlock" else [])


async def test_devices_are_of_use(node, lacking):
    given = (DeviceNode("/dev/null", "/dev/gpu0", "rwm"),)

    await node.output(
        "sh", "-c", "echo x >/dev/gpu0; echo y >/dev/null; head -c 1 /dev/urandom >/dev/zero", devices=given
    )


async def test_files_of_the_node_belong_to_the_container(node, lacking):
    node.write("/data/own", "node").chmod(0o600)
    command = "cat /data/own; echo new >/data/new; mkdir -m 700 /data/more; echo x >/run/x; echo out >/dev/stdout"

    await node.output("sh", "-c", command, mounts=(Mount("/data", "/data", False),))

    made = {path.name: path.stat().st_uid for path in (node.root / "data").iterdir()}
    assert made == dict.fromkeys(["own", "new", "more"], os.geteuid())


async def test_key_of_the_host_is_not_there(node, monkeypatch):
    monkeypatch.setattr("simkubelet.runtime.bubblewrap._secrets", lambda: ("/etc/ssl", "/etc/passwd"))

    assert await node.output("sh", "-c", "ls -A /etc/ssl; ! cat /etc/passwd 2>&1 | grep root") == ""


@separated
@pytest.mark.parametrize("is_on_host", [False, True], ids=["own network", "network of the host"])
async def test_host_is_reached_with_its_network_alone(node, is_on_host):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        argv = ["python", "-c", DIAL, str(listener.getsockname()[1])]
        container = await node.start(*argv, pod={"hostNetwork": True} if is_on_host else {})

        assert (await container.wait()).code == (0 if is_on_host else 1)


@separated
async def test_containers_of_a_pod_share_their_loopback(node):
    server = await node.start("python", "-c", LISTEN, name="server", pod={"uid": "one"})
    await until(lambda: server.log.read_text().endswith("\n"))
    dial = ("python", "-c", DIAL, server.log.read_text().strip())

    other = await node.start(*dial, name="client", pod={"uid": "other"})
    client = await node.start(*dial, name="client", pod={"uid": "one"})

    assert [(await one.wait()).code for one in (other, client, server)] == [1, 0, 0]
