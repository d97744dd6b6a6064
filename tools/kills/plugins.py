"""Plugins' processes that are killed while pods come and go: the kubelet and the next process agree with the journal.

The kubelet is one process that stays. A killed plugin is started again, as its DaemonSet does it: it replaces its dead
socket, registers, and lists the same devices; pods have the devices that they had, and no other pod gets one of these.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fakegpu import Machine

from .forked import Kill, Program
from .journal import Journal
from .kubelet import Kubelet

_LIVES_S: Final = 0.3
"""How long a process may run, from its beginning or from its list."""


@dataclass(frozen=True, slots=True)
class _Plugin:
    """A plugin on its node.

    Attributes:
        arguments: Of ``simkubelet plugin``, without the kubelet's folder.
        resource: What it serves.
        devices: How many.
        environment: Added to the process' own.
    """

    arguments: tuple[object, ...]
    resource: str
    devices: int
    environment: Mapping[str, str] = field(default_factory=dict)


def _nvidia(folder: Path) -> _Plugin:
    machine = Machine.create(folder / "machine", profile="t4", count=4, seed="kills")
    (folder / "sys").symlink_to(machine.sys)
    # A process that is forked has loaded its libraries' paths before.
    libraries = folder / "driver" / "usr" / "lib64"
    libraries.mkdir(parents=True)
    (libraries / machine.library.name).symlink_to(machine.library)
    arguments = ("nvidia", "--host-root", folder, "--driver-root-ctr-path", "/driver")
    return _Plugin(arguments, "nvidia.com/gpu", 4, machine.environment())


def _generic(folder: Path) -> _Plugin:
    config = folder / "seat.yaml"
    config.write_text("{resource: example.com/seat, count: 16}", encoding="utf-8")
    return _Plugin(("generic", "--config", config), "example.com/seat", 16)


def _gopher(folder: Path) -> _Plugin:
    gophers = folder / "etc" / "gophers"
    gophers.mkdir(parents=True)
    for number in range(8):
        (gophers / f"g{number}").touch()
    return _Plugin(("gopher", "--host-root", folder), "lixueduan.com/gopher", 8)


PLUGINS: Final[tuple[Callable[[Path], _Plugin], ...]] = (_nvidia, _generic, _gopher)
"""Each gets its share of the kills."""


def kill_plugins(kills: int, chance: random.Random, folder: Path, journal: Journal) -> None:
    """Kill so many processes of plugins."""
    for number, make in enumerate(PLUGINS):
        place = folder / str(number)
        place.mkdir()
        share = kills * (number + 1) // len(PLUGINS) - kills * number // len(PLUGINS)
        _kill(make(place), share, chance, place, journal)


def _kill(plugin: _Plugin, kills: int, chance: random.Random, folder: Path, journal: Journal) -> None:
    kubelet = Kubelet(folder, plugin.resource, plugin.devices, chance, journal)
    arguments = [*plugin.arguments, "--kubelet-dir", kubelet.folder]

    def process() -> Program:
        return Program("plugin", arguments, folder / "plugin.log", environment=plugin.environment)

    with kubelet.spawn():
        kubelet.start()
        for _ in range(kills):
            with process() as victim:
                kill = Kill(victim)
                begin = victim.began
                if chance.random() >= 1 / 4:
                    # The others are killed while they start, or soon after.
                    kubelet.wait()
                    kubelet.compare()
                    kubelet.admit(kill)
                    begin = time.monotonic()
                kill.moment = begin + chance.uniform(0, _LIVES_S)
                kubelet.admit_and_remove(kill)
            journal.kills += 1
        with process():
            kubelet.wait()
            kubelet.compare()
