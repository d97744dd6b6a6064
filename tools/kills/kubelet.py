"""A kubelet's process that is killed while pods come and go: what it has answered is there after the next start.

The plugin is a stub that stays. The journal has each pod whose admission was answered with its devices. After a start
the checkpoint and the device manager have to have exactly these; the pod whose admission was under way may have its
devices or none. No device is in two entries.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any, Final

from .forked import EndedError, Kill, Program
from .journal import Journal

_RESOURCE: Final = "example.com/gpu"
_DEVICES: Final = 24
_MOST: Final = 3
"""Devices of a pod."""
_CONTAINER: Final = "main"
_REMOVED: Final = 0.4
_STARTS_S: Final = 0.15
_LIVES_S: Final = 0.25
"""How long a process may run, from its beginning and from the time at which it has started."""
_COMES_WITHIN_MS: Final = 30_000


class Kubelet:
    """The kubelet of a folder, one process after the other, and the pods on it.

    Args:
        folder: Its path has to be short.
        resource: What pods ask for.
        devices: How many the plugin has.
        chance: Decides everything.
        journal: Takes what is answered and what is lost.
    """

    def __init__(self, folder: Path, resource: str, devices: int, chance: random.Random, journal: Journal) -> None:
        self.folder = folder / "dp"
        self.folder.mkdir()
        self._resource = resource
        self._devices = devices
        self._log = folder / "kubelet.log"
        self._chance = chance
        self._journal = journal
        self._held: dict[str, frozenset[str]] = {}
        self._in_doubt: str | None = None
        self._gone: set[str] = set()
        self._pods = 0
        self._program: Program | None = None

    def spawn(self) -> Program:
        """Begin a process, which the caller ends; `start` has to follow."""
        self._program = Program("simkubelet.stdio", ["--dir", self.folder], self._log, has_lines=True)
        return self._program

    def start(self, kill: Kill | None = None) -> None:
        """Start the device manager, with all pods of the journal.

        Raises:
            EndedError: It was killed.
        """
        running = [_running(pod) for pod in self._held]
        self._ask("start", kill, sources_ready=False, running=running)
        for pod, held in self._held.items():
            self._ask("add_pod", kill, **_pod(pod, self._resource, len(held)))
        self._ask("set_sources_ready", kill, value=True)

    def wait(self, kill: Kill | None = None) -> None:
        """Wait until the plugin has listed all its devices.

        Raises:
            EndedError: It was killed.
        """
        wanted = {"resource": self._resource, "allocatable": self._devices, "timeout_ms": _COMES_WITHIN_MS}
        answer = self._ask("wait_capacity", kill, **wanted)
        if not answer["ok"]:
            self._journal.lose(f"{self._devices} of {self._resource} are not allocatable again: {answer}")

    def compare(self) -> None:
        """Compare what is there with the journal; what was in doubt is certain afterwards."""
        answer = self._ask("checkpoint_entries")
        if not answer["ok"] and self._held:
            self._journal.lose(f"the checkpoint cannot be read: {answer['error']}")
        written: dict[str, frozenset[str]] = {}
        holders: dict[str, str] = {}
        for entry in answer.get("entries", ()):
            pod, ids = entry["pod"], frozenset(one for devices in entry["devices"].values() for one in devices)
            written[pod] = ids
            twice = sorted(device for device in ids if holders.setdefault(device, pod) != pod)
            self._journal.lose_each(f"{device} is in the entries of {holders[device]} and {pod}" for device in twice)
        for pod, held in self._held.items():
            if written.get(pod) != held:
                self._journal.lose(f"{pod} had {sorted(held)}, its entry has {sorted(written.get(pod, ()))}")
            if (now := self._devices_of(pod)) != held:
                self._journal.lose(f"{pod} had {sorted(held)}, the device manager says {sorted(now)}")
        unknown = written.keys() - self._held.keys() - self._gone - {self._in_doubt}
        self._journal.lose_each(f"{pod} has an entry, and was never admitted" for pod in sorted(unknown))
        if self._in_doubt is not None:
            self._journal.found_done += self._in_doubt in written
            self._gone.add(self._in_doubt)
            self._in_doubt = None

    def admit_and_remove(self, kill: Kill) -> None:
        """Let pods come and go until the kill is done.

        Raises:
            EndedError: It was the kubelet that was killed.
        """
        while not kill.is_done:
            kill.do_if_due()
            if self._held and (self._chance.random() < _REMOVED or len(self._held) * _MOST > self._devices):
                self._remove(self._chance.choice(sorted(self._held)), kill)
            else:
                self.admit(kill)

    def admit(self, kill: Kill) -> None:
        """Admit a new pod.

        Raises:
            EndedError: It was the kubelet that was killed.
        """
        self._pods += 1
        pod = f"pod-{self._pods}"
        self._ask("add_pod", kill, **_pod(pod, self._resource, self._chance.randint(1, min(_MOST, self._devices))))
        self._in_doubt = pod
        answer = self._ask("admit", kill, pod=pod)
        held = self._devices_of(pod) if answer["ok"] else frozenset()
        self._in_doubt = None
        if held:
            self._held[pod] = held
            self._journal.acknowledged += 1
        else:
            # It was refused, or the kubelet does not know the resource yet.
            self._forget(pod, kill)

    def _remove(self, pod: str, kill: Kill) -> None:
        # From here on the entry may go at any time.
        del self._held[pod]
        self._forget(pod, kill)

    def _forget(self, pod: str, kill: Kill) -> None:
        self._gone.add(pod)
        self._ask("remove_pod", kill, pod=pod)
        self._ask("forget_pod", kill, pod=pod)

    def _devices_of(self, pod: str) -> frozenset[str]:
        found = self._ask("devices", pod=pod, container=_CONTAINER).get("devices", {})
        return frozenset(one["id"] for one in found.get(self._resource, ()))

    def _ask(self, cmd: str, kill: Kill | None = None, **fields: object) -> dict[str, Any]:
        assert self._program is not None  # noqa: S101  # it was begun
        return self._program.ask(cmd, kill, **fields)


def _pod(name: str, resource: str, count: int) -> dict[str, object]:
    return {"uid": name, "name": name, "containers": [{"name": _CONTAINER, "limits": {resource: count}}]}


def _running(pod: str) -> dict[str, object]:
    return {"pod_uid": pod, "container": _CONTAINER, "container_id": f"{pod}-{_CONTAINER}", "running": True}


def kill_kubelets(kills: int, chance: random.Random, folder: Path, journal: Journal) -> None:
    """Kill so many processes of a kubelet; each fourth while it starts, or soon after."""
    kubelet = Kubelet(folder, _RESOURCE, _DEVICES, chance, journal)
    devices = [word for number in range(_DEVICES) for word in ("--device", f"gpu-{number}")]
    arguments = ["stub", "--kubelet-dir", kubelet.folder, "--resource", _RESOURCE, *devices]
    with Program("plugin", arguments, folder / "plugin.log"):
        for _ in range(kills):
            with kubelet.spawn() as process:
                kill = Kill(process)
                if chance.random() < 1 / 4:
                    kill.moment = process.began + chance.uniform(0, _STARTS_S)
                try:
                    kubelet.start(kill)
                    kubelet.wait(kill)
                    kubelet.compare()
                    kubelet.admit(kill)
                    kill.moment = min(kill.moment, time.monotonic() + chance.uniform(0, _LIVES_S))
                    kubelet.admit_and_remove(kill)
                except EndedError as error:
                    if not kill.is_done:
                        journal.lose(str(error))
            journal.kills += 1
        with kubelet.spawn():
            kubelet.start()
            kubelet.wait()
            kubelet.compare()
