"""Fed in: descriptions, files that come and go; observed: complaints, device lists, what a container gets."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.cli import main
from plugin.errors import UsageError
from plugin.framework import AllocationRefusedError, DeviceID, DeviceList, Health
from plugin.generic.description import Description, DeviceGlob, Mount
from plugin.generic.device_plugin import GenericPlugin
from simkubelet.apis import deviceplugin as api
from tests.support.patience import LIMIT_S


def described(tmp_path: Path, text: str) -> Description:
    file = tmp_path / "d.yaml"
    file.write_text(textwrap.dedent(text))
    return Description.read(file)


def test_description_is_read_in_full(tmp_path: Path) -> None:
    description = described(
        tmp_path,
        """\
        resource: example.com/serial
        devices: [/dev/ttyUSB*, {glob: /dev/ttyS0, permissions: r}, {glob: /run/x.sock, mount: true}]
        replicas: 2
        env: {LINES: "{paths}"}
        mounts: [{hostPath: /opt/a}, {hostPath: /opt/b, mountPath: /c, readOnly: false}]
        """,
    )

    assert description == Description(
        "example.com/serial",
        (
            DeviceGlob("/dev/ttyUSB*"),
            DeviceGlob("/dev/ttyS0", "r"),
            DeviceGlob("/run/x.sock", is_mount=True),
        ),
        replicas=2,
        env={"LINES": "{paths}"},
        mounts=(Mount("/opt/a", "/opt/a"), Mount("/opt/b", "/c", is_read_only=False)),
    )
    assert description.socket_name == "example.com-serial.sock"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", ": the file is empty", id="empty"),
        pytest.param("a: [", ":1: while parsing a flow node", id="no YAML"),
        pytest.param("[" * 500, ":1: exceeded max depth", id="deep"),
        pytest.param("resource: 2020-99-99\ncount: 1", ":1: resource: found '2020-99-99'; write", id="no date"),
        pytest.param("resource: !x y\ncount: 1", ":1: resource: found 'y'; write", id="unknown tag"),
        pytest.param("- a", ":1: found a list; write a mapping with 'resource' and 'devices'", id="list"),
        pytest.param("count: 1", ":1: no 'resource'; name it", id="no resource"),
        pytest.param("resource: a.b/c", ":1: neither 'devices' nor 'count'", id="no devices"),
        pytest.param("resource: a.b/c\ncount: 1\ndevices: [/x]", ":2: count: both 'devices' and 'count'", id="both"),
        pytest.param("resource: gpu\ncount: 1", ":1: resource: 'gpu' is no extended resource; write", id="no domain"),
        pytest.param("resource: a.b/c/d\ncount: 1", "'a.b/c/d' is no extended resource", id="two slashes"),
        pytest.param("resource: a.b/\ncount: 1", "'a.b/' is no extended resource", id="no name"),
        pytest.param("resource: x.kubernetes.io/c\ncount: 1", "a domain of Kubernetes itself; take", id="their domain"),
        pytest.param("resource: 4\ncount: 1", ":1: resource: found '4'; write a name such as", id="number"),
        pytest.param("resource:\ncount: 1", ":1: resource: found nothing; write a name", id="nothing"),
        pytest.param("resource: a.b/c\ncount: 0", ":2: count: 0 is out of range; write a number from 1", id="zero"),
        pytest.param("resource: a.b/c\ncount: yes", ":2: count: found 'yes'; write a whole number", id="truth value"),
        pytest.param("resource: a.b/c\ncount: 1\ncuont: 1", ":3: cuont: unknown key; the keys here are", id="typo"),
        pytest.param("resource: a.b/c\ncount: 1\ncount: 2", ":3: count: this key is there twice", id="twice"),
        pytest.param("resource: a.b/c\ndevices: /dev/x", ":2: devices: found '/dev/x'; write a list", id="no list"),
        pytest.param("resource: a.b/c\ndevices: []", ":2: devices: no globs; name files", id="no globs"),
        pytest.param("resource: a.b/c\ndevices:\n- /a\n- dev/x", ":4: devices[1]: 'dev/x' is not the path", id="path"),
        pytest.param("resource: a.b/c\ndevices: [/a/../b]", "without ..", id="upwards"),
        pytest.param("resource: a.b/c\ndevices: [/a/**]", "would search the whole node", id="everywhere"),
        pytest.param(
            "resource: a.b/c\ndevices:\n- {glob: /a, permissions: x}",
            ":3: devices[0].permissions: 'x' are no permissions; write one or more of the letters r, w and m",
            id="permissions",
        ),
        pytest.param(
            "resource: a.b/c\ndevices:\n- {glob: /a, permissions: ''}", "'' are no permissions", id="no permissions"
        ),
        pytest.param("resource: a.b/c\ndevices: [{glob: /a, permissions: [r]}]", "found a list", id="list of letters"),
        pytest.param("resource: a.b/c\ndevices: [{permissions: r}]", ":2: devices[0]: no 'glob'", id="no glob"),
        pytest.param("resource: a.b/c\ncount: 1\nenv: {A: 1}", ":3: env.A: found '1'; write a text", id="variable"),
        pytest.param("resource: a.b/c\ncount: 1\nenv: {A: '{x}'}", ":3: env.A: unknown placeholder {x}", id="blank"),
        pytest.param("resource: a.b/c\ncount: 1\nmounts: [{}]", ":3: mounts[0]: no 'hostPath'", id="no path"),
        pytest.param(
            "resource: a.b/c\ncount: 1\nmounts: [{hostPath: /a, readOnly: 1}]",
            ":3: mounts[0].readOnly: found '1'; write true or false",
            id="no truth value",
        ),
    ],
)
def test_wrong_description_is_reported_with_its_line_and_how_to_fix_it(
    tmp_path: Path, text: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(text)

    status = main(["generic", "--config", str(file), "--kubelet-dir", str(tmp_path)])

    said = capsys.readouterr().err
    assert status == 2
    assert len(said.splitlines()) == 1
    assert said.startswith(f"error: {file}:")
    assert complaint in said


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: str | bytes) -> None:
    file = tmp_path_factory.mktemp("any") / "d.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(UsageError) as refusal:
        Description.read(file)

    assert str(refusal.value).startswith(f"{file}:")


@pytest.mark.parametrize("permissions", ["r", "rw", "rwm", "mrw", "wr", "m", "rrw"])
def test_permissions_are_taken_in_any_order(tmp_path: Path, permissions: str) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(f"resource: a.b/c\ndevices: [{{glob: /a, permissions: {permissions}}}]")

    (found,) = Description.read(file).globs

    assert found.permissions == permissions


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory; name a file that can be read"):
        Description.read(tmp_path / "none")


class Served:
    """A plugin whose lists are read one by one."""

    def __init__(self, root: Path, plugin: GenericPlugin) -> None:
        self.root = root
        self.plugin = plugin
        self.lists = plugin.devices()

    async def until(self, **expected: str) -> None:
        """Wait for a list of these devices; a dash in a name is written as __."""
        wanted = {name.replace("__", "/"): health for name, health in expected.items()}
        async with asyncio.timeout(LIMIT_S):
            while {device.device_id: str(device.health) for device in await anext(self.lists)} != wanted:
                pass


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """Two folders of files, looked for with three globs."""
    (tmp_path / "dev/in").mkdir(parents=True)
    (tmp_path / "dev/a0").touch()
    (tmp_path / "dev/b").touch()
    globs = (DeviceGlob("/dev/a*", "r"), DeviceGlob("/dev/in*/x?", is_mount=True), DeviceGlob("/dev/a0", "rwm"))
    description = Description(
        "example.com/file",
        globs,
        env={"NAMES": "{devices}", "PATHS": "at {paths}", "PLAIN": "x"},
        mounts=(Mount("/opt/lib", "/lib/x"),),
    )
    served = Served(tmp_path, GenericPlugin(description, tmp_path))
    async with aclosing(served.lists):
        yield served


async def test_files_of_the_globs_are_devices(served: Served) -> None:
    (served.root / "dev/in/x1").touch()
    await served.until(a0="Healthy", in__x1="Healthy")


async def test_new_file_is_a_new_device(served: Served) -> None:
    await served.until(a0="Healthy")
    (served.root / "dev/in/x1").touch()
    await served.until(a0="Healthy", in__x1="Healthy")


async def test_file_in_a_new_folder_is_found(served: Served) -> None:
    await served.until(a0="Healthy")
    (served.root / "dev/in2").mkdir()
    (served.root / "dev/in2/x1").touch()
    await served.until(a0="Healthy", in2__x1="Healthy")


async def test_vanished_file_is_unhealthy_until_it_is_back(served: Served) -> None:
    await served.until(a0="Healthy")
    (served.root / "dev/a0").rename(served.root / "dev/a1")
    await served.until(a0="Unhealthy", a1="Healthy")
    (served.root / "dev/a0").touch()
    await served.until(a0="Healthy", a1="Healthy")


async def test_folder_that_is_made_again_is_followed(served: Served) -> None:
    (served.root / "dev/in/x1").touch()
    await served.until(a0="Healthy", in__x1="Healthy")
    (served.root / "dev/in").rename(served.root / "away")
    await served.until(a0="Healthy", in__x1="Unhealthy")
    (served.root / "dev/in").mkdir()
    (served.root / "dev/in/x1").touch()
    await served.until(a0="Healthy", in__x1="Healthy")


async def test_container_finds_files_mounts_and_variables(served: Served) -> None:
    (served.root / "dev/in/x1").touch()
    await served.until(a0="Healthy", in__x1="Healthy")

    answer = served.plugin.allocate([DeviceID("in/x1"), DeviceID("a0")])

    assert answer == api.ContainerAllocateResponse(
        devices=[api.DeviceSpec(host_path="/dev/a0", container_path="/dev/a0", permissions="r")],
        mounts=[
            api.Mount(host_path="/dev/in/x1", container_path="/dev/in/x1", read_only=False),
            api.Mount(host_path="/opt/lib", container_path="/lib/x", read_only=True),
        ],
        envs={"NAMES": "in/x1,a0", "PATHS": "at /dev/in/x1,/dev/a0", "PLAIN": "x"},
    )


@pytest.mark.parametrize("device_id", ["", "b", "a1", "a0::0", "/dev/a0"])
async def test_unknown_device_is_refused(served: Served, device_id: str) -> None:
    await served.until(a0="Healthy")

    with pytest.raises(AllocationRefusedError, match=r"^example\.com/file has no device '"):
        served.plugin.allocate([DeviceID(device_id)])


async def test_device_whose_file_has_gone_is_refused(served: Served) -> None:
    await served.until(a0="Healthy")
    (served.root / "dev/a0").unlink()
    await served.until(a0="Unhealthy")

    with pytest.raises(AllocationRefusedError, match="/dev/a0 has gone"):
        served.plugin.allocate([DeviceID("a0")])


async def test_count_and_replicas_make_devices_without_files(tmp_path: Path) -> None:
    plugin = GenericPlugin(Description("example.com/seat", count=2, replicas=2, env={"SEATS": "{devices}"}), tmp_path)

    async with aclosing(plugin.devices()) as lists:
        first: DeviceList = await anext(lists)

    assert [device.device_id for device in first] == ["0::0", "0::1", "1::0", "1::1"]
    assert {device.health for device in first} == {Health.HEALTHY}
    assert dict(plugin.allocate([DeviceID("1::1"), DeviceID("1::0")]).envs) == {"SEATS": "1"}


@pytest.mark.parametrize("device_id", ["0", "2::0", "1::2", "1::x", "::0", "-1::0", "²::0"])
def test_device_beyond_the_count_is_refused(tmp_path: Path, device_id: str) -> None:
    plugin = GenericPlugin(Description("example.com/seat", count=2, replicas=2), tmp_path)

    with pytest.raises(AllocationRefusedError):
        plugin.allocate([DeviceID(device_id)])
