"""Volumes that can and cannot be set up: with the kubelet's texts, and only in the node's own folder."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faker import Faker

from simkubelet.cluster import Objects, Store, WallTime
from simkubelet.cluster.objects.objects import Key
from simkubelet.model.clock import ManualClock
from simkubelet.model.pod import pod_from_manifest
from simkubelet.node_tree import node_tree
from simkubelet.pods.volumes import Volumes


@pytest.fixture
def node() -> Iterator[Path]:
    """A node's folder, with a short path as a socket is made in it."""
    with tempfile.TemporaryDirectory(prefix="vol-") as folder:
        (Path(folder) / "root").mkdir()
        yield Path(folder)


@pytest.fixture
def objects() -> Objects:
    return Objects(WallTime(ManualClock()))


@pytest.fixture
def volumes(node: Path, objects: Objects) -> Volumes:
    return Volumes(node, Store(objects, lambda event: None))


def faults(volumes: Volumes, *sources: dict[str, Any], is_mounted: bool = True) -> list[str]:
    named = [{"name": f"v{index}", **source} for index, source in enumerate(sources)]
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in named if is_mounted]
    container = {"name": "main", "image": "none", "volumeMounts": mounts}
    spec = {"containers": [container], "volumes": named}
    return volumes.set_up(pod_from_manifest({"metadata": {"name": "p"}, "spec": spec}))


def on_host(path: str, type_: str) -> dict[str, Any]:
    return {"hostPath": {"path": path, "type": type_}}


def test_folder_or_file_that_is_not_there_is_made_in_the_nodes_folder(volumes: Volumes, node: Path) -> None:
    assert faults(volumes, on_host("/etc/gophers/deep", "DirectoryOrCreate")) == []
    assert faults(volumes, on_host("/etc/gophers/file", "FileOrCreate")) == []
    assert faults(volumes, on_host("/var/lib/kubelet/device-plugins/own", "DirectoryOrCreate")) == []

    assert (node / "root/etc/gophers/deep").is_dir()
    assert (node / "root/etc/gophers/file").is_file()
    assert (node / "device-plugins/own").is_dir()
    assert not Path("/etc/gophers").exists()


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        ("/etc/own", "Directory"),
        ("/etc/own", "DirectoryOrCreate"),
        ("/etc/file", "File"),
        ("/etc/file", "FileOrCreate"),
        ("/etc/socket", "Socket"),
        ("/dev/stand-in", "CharDevice"),
        ("/dev/null", "CharDevice"),
        ("/usr", "Directory"),
        ("/var/lib/kubelet/", "Directory"),
        ("/var/lib/kubelet/pods", "Directory"),
        ("/not/there", ""),
    ],
)
def test_path_of_its_type_is_set_up(volumes: Volumes, node: Path, path: str, type_: str) -> None:
    furnish(node)
    assert faults(volumes, on_host(path, type_)) == []


@pytest.mark.parametrize(
    ("path", "type_", "why"),
    [
        ("/etc/file", "Directory", "/etc/file is not a directory"),
        ("/etc/file", "DirectoryOrCreate", "/etc/file is not a directory"),
        ("/not/there", "Directory", "/not/there is not a directory"),
        ("/etc/own", "FileOrCreate", "/etc/own is not a file"),
        ("/not/there", "File", "/not/there is not a file"),
        ("/etc/file", "Socket", "/etc/file is not a socket file"),
        ("/etc/file", "CharDevice", "/etc/file is not a character device"),
        ("/dev/null", "BlockDevice", "/dev/null is not a block device"),
    ],
)
def test_path_of_another_type_is_refused(volumes: Volumes, node: Path, path: str, type_: str, why: str) -> None:
    furnish(node)
    said = f'MountVolume.SetUp failed for volume "v0" : hostPath type check failed: {why}'
    assert faults(volumes, on_host(path, type_)) == [said]


def furnish(node: Path) -> None:
    (node / "root/etc/own").mkdir(parents=True)
    (node / "root/etc/file").touch()
    (node / "root/dev").mkdir()
    (node / "root/dev/stand-in").touch()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(node / "root/etc/socket"))


@pytest.mark.parametrize(
    ("path", "type_", "why"),
    [
        ("/etc/passwd/folder", "DirectoryOrCreate", "mkdir /etc/passwd: not a directory"),
        ("/etc/passwd/file", "FileOrCreate", "open /etc/passwd/file: not a directory"),
        ("/not/there/file", "FileOrCreate", "open /not/there/file: no such file or directory"),
        ("/out/folder", "DirectoryOrCreate", "mkdir /out: file exists"),
        ("/out/folder/in/folder", "DirectoryOrCreate", "mkdir /out: file exists"),
        ("/etc/../up", "DirectoryOrCreate", "invalid HostPath `/etc/../up`: must not contain '..'"),
        ("/x", "Sometimes", "Sometimes is an invalid volume type"),
        ("/x\0y", "DirectoryOrCreate", "mkdir /x\0y: invalid argument"),
        ("/x\0y", "FileOrCreate", "open /x\0y: invalid argument"),
        ("/x\0y", "File", "hostPath type check failed: /x\0y is not a file"),
    ],
)
def test_path_that_cannot_be_made_is_refused_and_the_host_stays(
    volumes: Volumes, node: Path, tmp_path: Path, path: str, type_: str, why: str
) -> None:
    (node / "root/out").symlink_to(tmp_path)

    assert faults(volumes, on_host(path, type_)) == [f'MountVolume.SetUp failed for volume "v0" : {why}']
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        ({"configMap": {"name": "c", "items": [{"key": "x"}]}}, "configmap references non-existent config key: x"),
        ({"secret": {"secretName": "s", "items": [{"key": "x"}]}}, "references non-existent secret key: x"),
        ({"projected": {"sources": [{"configMap": {"name": "none"}}]}}, 'configmap "none" not found'),
        (
            {"projected": {"sources": [{"configMap": {"name": "n"}}, {"secret": {"name": "n"}}]}},
            '[configmap "n" not found, secret "n" not found]',
        ),
    ],
)
def test_content_that_is_not_there_is_refused(
    volumes: Volumes, objects: Objects, source: dict[str, Any], why: str
) -> None:
    furnish_cluster(objects)
    assert faults(volumes, source) == [f'MountVolume.SetUp failed for volume "v0" : {why}']


@pytest.mark.parametrize(
    "source",
    [
        {"configMap": {"name": "c", "items": [{"key": "a"}, {"key": "b"}]}},
        {"secret": {"secretName": "s"}},
        {"configMap": {"name": "none", "optional": True}},
        {"projected": {"sources": [{"secret": {"name": "none", "optional": True}}, {"downwardAPI": {"items": []}}]}},
        {"emptyDir": {}},
    ],
)
def test_content_that_is_there_or_optional_is_set_up(
    volumes: Volumes, objects: Objects, source: dict[str, Any]
) -> None:
    furnish_cluster(objects)
    assert faults(volumes, source) == []


def furnish_cluster(objects: Objects) -> None:
    objects.create(Key("configmaps", "default", "c"), {"data": {"a": ""}, "binaryData": {"b": ""}})
    objects.create(Key("secrets", "default", "s"), {"data": {"a": ""}})


def test_volume_that_no_container_has_is_not_set_up(volumes: Volumes, faker: Faker) -> None:
    assert faults(volumes, {"configMap": {"name": faker.word()}}, is_mounted=False) == []


def test_every_volume_that_fails_is_named(volumes: Volumes) -> None:
    assert faults(volumes, {"configMap": {"name": "none"}}, {"secret": {"secretName": "none"}}) == [
        'MountVolume.SetUp failed for volume "v0" : configmap "none" not found',
        'MountVolume.SetUp failed for volume "v1" : secret "none" not found',
    ]


@pytest.mark.parametrize("type_", ["Directory", "DirectoryOrCreate", "File", "FileOrCreate"])
def test_path_of_a_million_names_is_refused_at_once(volumes: Volumes, node: Path, type_: str) -> None:
    path = "/" + "a/" * 500_000 + "f"

    (fault,) = faults(volumes, on_host(path, type_))

    assert fault.endswith(": file name too long" if type_.endswith("OrCreate") else " is not a " + type_.lower())
    assert list((node / "root").iterdir()) == []


def test_folder_as_deep_as_a_path_can_be_is_made(volumes: Volumes, node: Path) -> None:
    assert faults(volumes, on_host("/" + "a/" * 2000, "DirectoryOrCreate")) == []
    assert node_tree(node).is_folder("/" + "a/" * 2000)
    node_tree(node).remove_folder("/a")
