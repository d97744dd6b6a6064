"""A few kills of each kind of process that a thousand of the session `kills` take: nothing is lost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from simkubelet.devices import CHECKPOINT_NAME
from tests.support.short_paths import short_place
from tools.kills.forked import Kill, Program
from tools.kills.journal import Journal
from tools.kills.kubelet import Kubelet, kill_kubelets
from tools.kills.machine import kill_commands
from tools.kills.plugins import kill_plugins
from tools.kills.signals import signal_commands

KILLS = 5
RESOURCE = "example.com/gpu"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for sockets."""
    with TemporaryDirectory(prefix="kills-", dir=short_place()) as name:
        yield Path(name)


@pytest.mark.parametrize("kill", [kill_kubelets, kill_plugins, kill_commands, signal_commands])
def test_nothing_that_was_acknowledged_is_lost_by_kills(kill, folder: Path) -> None:
    journal = Journal()

    kill(KILLS, random.Random(kill.__name__), folder, journal)  # noqa: S311 - a seed

    assert (journal.kills, journal.lost) == (KILLS, [])
    assert journal.acknowledged


def test_lost_checkpoint_is_a_loss(folder: Path) -> None:
    journal = Journal()
    node = Kubelet(folder, RESOURCE, 1, random.Random(1), journal)  # noqa: S311 - a seed
    arguments = ["stub", "--kubelet-dir", node.folder, "--resource", RESOURCE, "--device", "gpu-0"]

    with Program("plugin", arguments, folder / "plugin.log"):
        with node.spawn() as process:
            node.start()
            node.wait()
            node.admit(Kill(process))
        (node.folder / CHECKPOINT_NAME).unlink()
        with node.spawn():
            node.start()
            node.wait()
            node.compare()

    assert journal.lost == [
        "after 0 kills: pod-1 had ['gpu-0'], its entry has []",
        "after 0 kills: pod-1 had ['gpu-0'], the device manager says []",
    ]
