"""A kubelet's checkpoint is the other's too: what one wrote the other loads, and a file that is odd is odd to both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.kubelet_sides import Answer, Sides

pytestmark = pytest.mark.oracle

STUB, SECOND = "example.com/stub", "example.com/second"
# One of each that is a map: Go writes maps in any order.
RESPONSE = {
    "envs": {"ODD": '<&> \u2028 é 𝄞 \\ " \n'},
    "mounts": [{"containerPath": "/c", "hostPath": "/h", "readOnly": True}],
    "devices": [{"containerPath": "/dev/c", "hostPath": "/dev/h", "permissions": "rw"}],
    "annotations": {"a": "b"},
    "cdiDevices": [{"name": "vendor.com/class=one"}],
}
# One resource a container: the real manager asks for several in any order.
PODS = {
    "u1": ([("i", False, {STUB: 1}), ("s", True, {STUB: 1})], [("c", {STUB: 1}), ("d", {SECOND: 2})]),
    "u2": ([], [("c", {SECOND: 1}), ("d", {STUB: 0}), ("e", {})]),
}

DEVICES = [
    {"id": f"dev-{number}", "health": "Healthy", **({} if nodes is None else {"numa": nodes})}
    for number, nodes in enumerate([[0], [1], [0, 1], [], None, [0]])
]


@pytest.fixture
def book(sides: Sides) -> Iterator[Book]:
    book = Book(sides)
    yield book
    book.close()


class Book:
    """Both kubelets with plugins of two resources and the pods of `PODS`."""

    def __init__(self, sides: Sides) -> None:
        self.sides = sides
        for side in sides.both:
            side.revive(sides.plugins, is_kubelet_lost=False)

    def same(self, whom: str, cmd: str, **fields: Any) -> Answer:
        real, ours = self.sides.ask(whom, cmd, **fields)
        assert ours == real, (whom, cmd, fields)
        return real

    def fill(self) -> None:
        """Give the pods their devices, chosen by the plugins, on both sides."""
        self.same("kubelet", "start", sources_ready=True, running=[], numa=[0, 1], topology_policy="none")
        self.tell_of_pods()
        self.plugins_come()
        self.same("b", "set_rpc", rpc="allocate", mode="custom", response={"containerResponses": [RESPONSE]})
        for pod in PODS:
            self.same("kubelet", "admit", pod=pod)

    def tell_of_pods(self) -> None:
        for uid, (init, apps) in PODS.items():
            init_containers = [{"name": name, "restartable": again, "limits": limits} for name, again, limits in init]
            containers = [{"name": name, "limits": limits} for name, limits in apps]
            self.same("kubelet", "add_pod", uid=uid, name=uid, init_containers=init_containers, containers=containers)

    def plugins_come(self) -> None:
        for plugin, resource in (("a", STUB), ("b", SECOND)):
            self.sides.reset(plugin, socket=f"{plugin}.sock", resource=resource, preferred=True)
            self.same(plugin, "set_devices", devices=DEVICES)
            self.same(plugin, "register")
            self.sides.wait(
                "kubelet", "capacity", lambda answer, name=resource: answer["allocatable"].get(name) == len(DEVICES)
            )

    def texts(self) -> tuple[str, str]:
        """The files of both, when they say the same."""
        self.sides.wait_until_alike("kubelet", "checkpoint_entries")
        self.same("kubelet", "checkpoint_entries")
        real, ours = self.sides.ask("kubelet", "checkpoint")
        return real["text"], ours["text"]

    def look(self) -> None:
        """Compare what both know and what they do for the pods."""
        for cmd in ("capacity", "allocatable_devices", "should_reset"):
            self.same("kubelet", cmd)
        for call in ("list", "allocatable"):
            self.same("kubelet", "pod_resources", call=call)
        real, ours = self.sides.ask("kubelet", "dump")
        for name in ("healthyDevices", "unhealthyDevices", "allocatedDevices", "endpoints"):
            assert ours[name] == real[name], name
        for uid, (init, apps) in PODS.items():
            for container in [*(each[0] for each in init), *(each[0] for each in apps)]:
                for cmd in ("devices", "run_options", "allocate"):
                    self.same("kubelet", cmd, pod=uid, container=container)

    def restart_on(self, real: str, ours: str) -> None:
        """Stop both, give each a file, and start them."""
        for side, text in zip(self.sides.both, (real, ours), strict=True):
            side.programs["kubelet"].ask("stop")
            side.programs["kubelet"].ask("write_checkpoint", text=text)
        self.same("kubelet", "start")

    def close(self) -> None:
        for side in self.sides.both:
            for plugin in self.sides.plugins:
                side.programs[plugin].ask("stop_server")
            side.programs["kubelet"].ask("stop")
            for uid in PODS:
                side.programs["kubelet"].ask("forget_pod", pod=uid)
            side.clear_folder()


def test_each_loads_what_the_other_wrote(book: Book):
    book.fill()
    real, ours = book.texts()

    book.restart_on(real=ours, ours=real)

    book.look()
    book.plugins_come()
    book.look()
    assert book.texts() == book.texts()
    for whose in (real, ours):
        answer = book.same("kubelet", "checksum", text=whose)
        assert answer["checksum"] == answer["stored"]


Edit = Callable[[dict[str, Any]], None]


def entry(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["Data"]["PodDeviceEntries"][0]
    return found


def in_old_format(document: dict[str, Any]) -> None:
    """As Kubernetes 1.19 wrote it: without NUMA nodes."""
    for each in document["Data"]["PodDeviceEntries"]:
        each["DeviceIDs"] = sorted({device for devices in each["DeviceIDs"].values() for device in devices})


def renamed(document: dict[str, Any]) -> None:
    document["data"] = {name.lower(): value for name, value in document.pop("Data").items()}


# With the checksum that fits.
EDITS: dict[str, Edit] = {
    "nothing": lambda document: None,
    "unknown fields": lambda document: document.update(More=1) or entry(document).update(More=[1]),
    "no entries": lambda document: document["Data"].update(PodDeviceEntries=None),
    "an empty list of entries": lambda document: document["Data"].update(PodDeviceEntries=[]),
    "no registered resources": lambda document: document["Data"].update(RegisteredDevices=None),
    "registered devices null": lambda document: document["Data"]["RegisteredDevices"].update({STUB: None}),
    "a foreign resource": lambda document: document["Data"]["RegisteredDevices"].update({"other.com/x": ["1"]}),
    "a pod nobody knows": lambda document: entry(document).update(PodUID="gone"),
    "no pod": lambda document: entry(document).pop("PodUID"),
    "no response": lambda document: entry(document).update(AllocResp=None),
    "an empty response": lambda document: entry(document).update(AllocResp=""),
    "a response that is no message": lambda document: entry(document).update(AllocResp="//8="),
    "an entry twice": lambda document: document["Data"]["PodDeviceEntries"].append(dict(entry(document))),
    "no devices": lambda document: entry(document).update(DeviceIDs={}),
    "devices null": lambda document: entry(document).update(DeviceIDs=None),
    "devices of a node null": lambda document: entry(document).update(DeviceIDs={"0": None}),
    "a far NUMA node": lambda document: entry(document).update(DeviceIDs={"63": ["dev-0"], "-1": ["dev-1"]}),
    "the format before NUMA nodes": in_old_format,
    "keys in lower case": renamed,
}
# As they are.
TEXTS: dict[str, Callable[[str], str]] = {
    "empty": lambda text: "",
    "blank": lambda text: " \n",
    "cut in the middle": lambda text: text[: len(text) // 2],
    "cut at the end": lambda text: text[:-1],
    "more after the end": lambda text: text + "x",
    "a line end": lambda text: text + "\n",
    "spaces": lambda text: json.dumps(json.loads(text), indent=2),
    "null": lambda text: "null",
    "an empty object": lambda text: "{}",
    "a list": lambda text: "[]",
    "a number": lambda text: "1",
    "a text": lambda text: '"x"',
    "foreign words": lambda text: "apiVersion: v1\nkind: Config\n",
    "bytes of zero": lambda text: "\0" * 100,
    "a byte order mark": lambda text: "\ufeff" + text,
    "another digit in the checksum": lambda text: text.replace('"Checksum":', '"Checksum":1'),
    "no checksum": lambda text: json.dumps({"Data": json.loads(text)["Data"]}),
    "the checksum as a text": lambda text: text.replace('"Checksum":', '"Checksum":"').replace("}", '"}')[:-3] + '"}',
    "a checksum below zero": lambda text: text.replace('"Checksum":', '"Checksum":-'),
    "a checksum with a fraction": lambda text: text[:-1] + ".5}",
    "a checksum with an exponent": lambda text: text[:-1] + "e0}",
    "too large a checksum": lambda text: text[:-1] + "0" * 20 + "}",
    "data that is a list": lambda text: '{"Data": [], "Checksum": 1}',
    "entries that are an object": lambda text: '{"Data": {"PodDeviceEntries": {}}, "Checksum": 1}',
    "a pod that is a number": lambda text: text.replace('"PodUID":"u1"', '"PodUID":1'),
    "a device that is a number": lambda text: text.replace('"dev-0"', "0"),
    "a NUMA node that is no number": lambda text: text.replace('"-1":', '"x":'),
    "a device renamed": lambda text: text.replace("dev-0", "dev-9"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edited_checkpoint_with_right_checksum_is_read_alike(book: Book, edit: str):
    book.fill()
    document = json.loads(book.texts()[0])
    EDITS[edit](document)
    mended, _ = book.sides.ask("kubelet", "fix_checksum", text=json.dumps(document))
    text = mended["text"] if mended["ok"] else json.dumps(document)

    book.restart_on(text, text)

    book.look()
    book.plugins_come()
    book.look()


@pytest.mark.parametrize("edit", TEXTS)
def test_odd_file_is_the_same_to_both(book: Book, edit: str):
    book.fill()
    text = TEXTS[edit](book.texts()[0])

    book.restart_on(text, text)

    book.look()
    book.plugins_come()
    book.look()
