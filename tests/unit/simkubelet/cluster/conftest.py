from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from simkubelet.cluster import Objects, Store, WallTime
from simkubelet.model.clock import ManualClock
from simkubelet.model.events import NodeEvent

BEGIN = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class Cluster:
    """A store with its objects, and its notifications."""

    clock: ManualClock = field(default_factory=ManualClock)
    told: list[NodeEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.objects = Objects(WallTime(self.clock, BEGIN))
        self.store = Store(self.objects, self.told.append)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.told]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def manifest(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }
