"""A real device manager and a simulated one that get the same commands: the base of a state machine of commands.

What streams and lists do takes its time, so each such step ends with a wait until both kubelets have come as far as
they should: the list carries a device, ``mark-N``, that tells it from the one before. Where the real manager chooses
freely (devices out of a Go map), the choice is left to the plugin by GetPreferredAllocation in most runs; where it is
still free, both continue from the real one's checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import note, reject
from hypothesis.stateful import RuleBasedStateMachine

from simkubelet.devices.endpoint import KEYS_ENDPOINTS_BY_SOCKET
from simkubelet.model.version import version
from tests.support.kubelet_sides import Answer, Sides
from tests.support.stream_book import StreamBook

STUB, SECOND = "example.com/stub", "example.com/second"
MOST_STREAMS = 3
BOOKS = ("healthyDevices", "unhealthyDevices", "allocatedDevices", "devicesToReuse", "endpoints", "clients")
READING_JSON = {"checkpoint_entries", "fix_checksum"}
DECIDED = {"", "first", "last"}

ListedDevice = tuple[int, str, Sequence[int] | None]
"""Number of its id, health, NUMA nodes; None for no topology."""


class ComparedManagers(RuleBasedStateMachine):
    """Two kubelets and their plugins `a` and `b`, from an empty folder on."""

    sides: Sides
    minor: str
    uids = 0
    """Pods of all machines: a uid keeps the hint that `set_affinity` gave it, so none comes twice in a process."""
    lost_races = 0

    def __init__(self) -> None:
        super().__init__()
        self.streams = StreamBook(keys_by_socket=KEYS_ENDPOINTS_BY_SOCKET.at(version(self.minor)))
        self.is_running = False
        self.is_over = False
        self.marks = 0
        self.pods: dict[str, list[tuple[str, dict[str, int]]]] = {}
        self.active: set[str] = set()
        self.owners: dict[str, str] = {}
        self.devices: dict[str, list[Any]] = {plugin: [] for plugin in self.sides.plugins}
        self.sockets: dict[str, str] = {}
        self.resources: dict[str, str] = {}
        self.modes: dict[tuple[str, str], str] = {}
        self.books: Answer = {}
        self.options: dict[str, bool] = {}
        self.preferred: dict[str, bool] = {}

    # Asking

    def same(self, whom: str, cmd: str, **fields: Any) -> Answer:
        """Tell both the same and expect the same answer."""
        real, ours = self.sides.ask(whom, cmd, **fields)
        self.check(real, ours, whom, cmd, fields)
        return real

    def kubelet(self, cmd: str, **fields: Any) -> Answer:
        return self.same("kubelet", cmd, **fields)

    def check(self, real: Answer, ours: Answer, whom: str, cmd: str, fields: Any) -> None:
        note(f"{whom}: {cmd} {fields} -> {real}")
        if "panic" in real or "panic" in ours:
            self.is_over = True
        if cmd in READING_JSON and not real["ok"]:
            # The words are those of Go's JSON package, which the adapter does not have.
            assert not ours["ok"], f"{whom}: {cmd} {fields}: {ours}, and the real one {real}"
            return
        assert ours == real, f"{whom}: {cmd} {fields}: {ours}, and the real one {real}"

    @property
    def can_go_on(self) -> bool:
        return self.is_running and not self.is_over

    def compare_books(self) -> Answer:
        """Both managers' books, as soon as they are the same."""
        real, ours = self.sides.ask_until(
            "kubelet", "dump", lambda real, ours: self.book_of(real) == self.book_of(ours)
        )
        if real["clients"] != self.streams.clients():
            # The end of a stream, seen too late, has disconnected the client that came after it.
            type(self).lost_races += 1
            reject()
        assert self.book_of(ours) == self.book_of(real), f"{ours}, and the real one {real}"
        self.books = real
        return real

    @staticmethod
    def book_of(dump: Answer) -> Answer:
        books = {name: dump.get(name) for name in BOOKS}
        books["devicesToReuse"] = {
            pod: {name: ids for name, ids in held.items() if ids}
            for pod, held in (dump.get("devicesToReuse") or {}).items()
            if any(held.values())
        }
        books["allocatedDevices"] = {name: ids for name, ids in (dump.get("allocatedDevices") or {}).items() if ids}
        return books

    # Waiting

    def settle(self, plugin: str) -> None:
        """Wait until both kubelets know a plugin's streams and its newest list."""
        expected = self.wait_for_streams(plugin)
        if not expected:
            # The next stream begins with it.
            self.mark(plugin)
        # One stream after the other, since a list that each of several brings may come late, after the newest; and the
        # newest stream first, since its first list may still be on the way.
        for turn in range(expected, 0, -1):
            mark = self.mark(plugin)
            self.same(plugin, "send", turn=turn)
            self.sides.wait("kubelet", "dump", lambda dump: mark in unhealthy_devices(dump))  # noqa: B023
        if self.is_running:
            self.compare_books()

    def mark(self, plugin: str) -> str:
        """Give a plugin's list a device that tells it from those before; it is not sent yet."""
        self.marks += 1
        mark = f"mark-{self.marks}"
        devices = [*self.devices[plugin], {"id": mark, "health": "Unhealthy"}]
        self.same(plugin, "set_devices", devices=devices, silent=True)
        return mark

    def wait_for_streams(self, plugin: str) -> int:
        """Wait until a plugin has the streams that it should have; their number."""
        expected = self.streams.count(plugin)
        self.sides.wait(plugin, "streams", lambda answer: answer["streams"] == expected)
        return expected

    def settle_ends(self) -> None:
        """Wait until both kubelets have seen the ends of streams."""
        for plugin in self.sides.plugins:
            self.wait_for_streams(plugin)
        if self.is_running:
            gone = {STUB, SECOND} - self.streams.connected()
            self.sides.wait(
                "kubelet",
                "dump",
                lambda dump: all(dump["endpoints"].get(r, {"stopped": True})["stopped"] for r in gone),
            )
            self.compare_books()

    # The beginning and the end

    def set_up(self, layout: str, *, prefers: bool, lists: Sequence[Sequence[ListedDevice]], **settings: Any) -> None:
        """Start both kubelets with some `settings`, and their plugins; layout says what `b` is to `a`.

        `b` serves the same resource as ``replacement`` on a socket of its own or on the ``same socket``, or another
        one, ``two resources``.
        """
        self.sockets = {"a": "a.sock", "b": "a.sock" if layout == "same socket" else "b.sock"}
        self.resources = {"a": STUB, "b": SECOND if layout == "two resources" else STUB}
        self.kubelet("start", sources_ready=True, running=[], **settings)
        self.is_running = True
        for plugin, devices in zip(self.sides.plugins, lists, strict=True):
            self.sides.reset(plugin, socket=self.sockets[plugin], resource=self.resources[plugin], preferred=prefers)
            self.owners[self.sockets[plugin]] = plugin
            self.options[plugin] = prefers
            self.take_list(plugin, devices)
        for plugin in self.sides.plugins[: 2 if layout == "two resources" else 1]:
            self.register(plugin)

    def teardown(self) -> None:
        for side in self.sides.both:
            side.revive(self.sides.plugins, is_kubelet_lost=self.is_over)
            for plugin in self.sides.plugins:
                side.programs[plugin].tell("stop_server")
            for plugin in self.sides.plugins:
                side.programs[plugin].hear()
            side.programs["kubelet"].ask("stop")
            for uid in self.pods:
                side.programs["kubelet"].ask("forget_pod", pod=uid)
            side.clear_folder()

    # Plugins

    def take_list(self, plugin: str, devices: Sequence[ListedDevice]) -> None:
        self.devices[plugin] = [
            {"id": f"dev-{number}", "health": health, **({} if nodes is None else {"numa": nodes})}
            for number, health, nodes in devices
        ]
        self.settle(plugin)

    def register(self, plugin: str) -> None:
        socket, resource = self.sockets[plugin], self.resources[plugin]
        answer = self.same(plugin, "register")
        listening = self.owners[socket]
        if answer["ok"]:
            self.streams.register(listening, resource, socket)
            self.preferred[resource] = self.options[listening]
        else:
            self.streams.refuse(resource, socket)
        self.settle(listening)

    def is_found(self, plugin: str, versions: list[str]) -> None:
        socket, resource = self.sockets[plugin], self.resources[plugin]
        answer = self.kubelet("watcher_register", resource=resource, endpoint=socket, versions=versions)
        if answer["ok"]:
            self.streams.register(self.owners[socket], resource, socket)
            self.preferred[resource] = self.options[self.owners[socket]]
        elif answer["stage"] == "register":
            self.streams.refuse(resource, socket)
        self.settle(self.owners[socket])

    def can_register(self, plugin: str) -> bool:
        """Whether somebody listens on the plugin's socket, and has not enough streams already."""
        listening = self.owners.get(self.sockets[plugin])
        return listening is not None and self.streams.count(listening) < MOST_STREAMS

    def serve_anew(self, plugin: str, **options: Any) -> None:
        socket = self.sockets[plugin]
        self.sides.reset(plugin, socket=socket, resource=self.resources[plugin], **options)
        self.owners[socket] = plugin
        self.options[plugin] = bool(options.get("preferred"))
        self.modes = {key: mode for key, mode in self.modes.items() if key[0] != plugin}
        self.settle(plugin)

    # Pods

    def add_pod(self, init: Any, apps: Any, is_admitted: bool) -> None:
        ComparedManagers.uids += 1
        uid = f"u{self.uids}"
        init_containers = [
            {"name": f"i{n}", "restartable": restarts, "limits": wanted} for n, (restarts, wanted) in enumerate(init)
        ]
        containers = [{"name": f"c{n}", "limits": wanted} for n, wanted in enumerate(apps)]
        self.kubelet("add_pod", uid=uid, name=uid, init_containers=init_containers, containers=containers)
        self.pods[uid] = [(c["name"], c["limits"]) for c in [*init_containers, *containers]]
        self.active.add(uid)
        if is_admitted:
            self.allocate("admit", uid, None)

    def allocate(self, cmd: str, uid: str, container: str | None) -> None:
        """Ask for devices; where the real one chose freely, ours may have chosen otherwise."""
        before = self.books
        where = {"pod": uid} if container is None else {"pod": uid, "container": container}
        real, ours = self.sides.ask("kubelet", cmd, **where)
        note(f"kubelet: {cmd} {where} -> {real}")
        if "panic" in real or "panic" in ours:
            self.is_over = True
        asked = [wanted for name, wanted in self.pods[uid] if container in (None, name)]
        if real == ours:
            pass
        elif any(len(wanted) > 1 for wanted in asked):
            # The resources of one container come in any order: another one may have failed, or been reached.
            self.go_on_from_the_real_checkpoint()
            return
        elif cmd == "run_options" and real["ok"] and ours["ok"] and self.is_free(uid, before):
            pass
        else:
            self.check(real, ours, "kubelet", cmd, where)
        if self.is_over:
            return
        real_book, ours_book = (self.book_of(answer) for answer in self.sides.ask("kubelet", "dump"))
        is_free = self.is_free(uid, before)
        if real_book == ours_book and (not is_free or self.is_shared_out_alike(uid)):
            self.books = real_book
            return
        if any(len(wanted) > 1 for wanted in asked) and not real["ok"]:
            self.go_on_from_the_real_checkpoint()
            return
        assert is_free, (ours_book, real_book)
        held, ours_held = real_book["allocatedDevices"], ours_book["allocatedDevices"]
        assert {name: len(ids) for name, ids in ours_held.items()} == {name: len(ids) for name, ids in held.items()}
        for name, ids in ours_held.items():
            known = {*before["healthyDevices"].get(name, ()), *before["allocatedDevices"].get(name, ())}
            assert known >= set(ids)
        self.go_on_from_the_real_checkpoint()

    def is_shared_out_alike(self, uid: str) -> bool:
        """Whether each container of a pod holds the same devices on both sides."""
        answers = [self.sides.ask("kubelet", "devices", pod=uid, container=name) for name, _ in self.pods[uid]]
        return all(real == ours for real, ours in answers)

    def is_free(self, uid: str, before: Answer) -> bool:
        """Whether the real manager may have taken devices out of a set in any order."""
        init = [name for name, _ in self.pods[uid] if name.startswith("i")]
        is_decided = all(self.preferred.values()) and all(
            mode in DECIDED for (_, rpc), mode in self.modes.items() if rpc == "preferred"
        )
        return bool(init) or not is_decided

    def go_on_from_the_real_checkpoint(self) -> None:
        """Restart both on what the real one has written, which ours has to read."""
        text = self.sides.real.programs["kubelet"].ask("checkpoint")
        self.stop()
        if text["ok"]:
            self.kubelet("write_checkpoint", text=text["text"])
        self.start()

    # The kubelet

    def stop(self, cmd: str = "stop") -> None:
        self.kubelet(cmd)
        self.is_running = False
        # Streams that the manager has forgotten would stay open in the oracle, whose process does not end.
        for plugin in self.sides.plugins:
            self.sides.ask(plugin, "close_stream")
        self.streams.end_all()
        self.settle_ends()

    def start(self, **fields: Any) -> None:
        self.kubelet("start", **fields)
        self.is_running = True
        self.owners.clear()
        self.compare_books()

    def come_back(self, returning: str) -> None:
        for plugin in returning:
            self.same(plugin, "start_server")
            self.owners[self.sockets[plugin]] = plugin
            self.register(plugin)


def unhealthy_devices(dump: Answer) -> set[str]:
    """Those of all resources."""
    return {device for devices in (dump.get("unhealthyDevices") or {}).values() for device in devices}
