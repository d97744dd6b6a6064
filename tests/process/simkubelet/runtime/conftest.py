"""A node whose containers run, in sandboxes of bubblewrap and without namespaces.

Where one of the two cannot work, its tests are skipped with the reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from faker import Faker

from simkubelet._internal import sandbox
from simkubelet.apis import cdi
from simkubelet.devices.pod_devices import DeviceRunOptions
from simkubelet.model.clock import RealClock
from simkubelet.model.errors import HostError
from simkubelet.model.pod import pod_from_manifest
from simkubelet.runtime import translated_files
from simkubelet.runtime.bubblewrap import check_bubblewrap
from simkubelet.runtime.container_runtime import ExitReason, ExitStatus
from simkubelet.runtime.process_container import ProcessContainer
from simkubelet.runtime.process_runtime import ProcessRuntime

WAYS = ["separated", "supervised"]
separated = pytest.mark.parametrize("way", WAYS[:1], indirect=True)
"""For what a container has by its namespaces."""
supervised = pytest.mark.parametrize("way", WAYS[1:], indirect=True)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str | None, str]:
    """How containers run in this test: by which supervisor, and what has refused namespaces."""
    try:
        chosen = (None, "") if request.param == "separated" else (sandbox.supervisor(), "refused")
        if chosen == (None, ""):
            check_bubblewrap()
    except HostError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(translated_files, "_way", lambda: chosen)
    return chosen


class SomeNode:
    """A node's folders and its runtime; a test changes `clock` or `hook` before the first container."""

    def __init__(self, folder: Path, faker: Faker) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir()
        self.faker = faker
        self.clock: Any = RealClock()
        self.hook: Any = lambda env: cdi.ContainerEdits()
        self.memory_bytes: int | None = None
        self.runtime: ProcessRuntime | None = None

    def write(self, path: str, text: str = "") -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    async def start(self, *command: str, attempt: int = 0, **settings: Any) -> ProcessContainer:
        """Start a container; `settings` are fields of its manifest and of `DeviceRunOptions`.

        `pod` has fields of its pod's spec, and its ``uid`` where two containers are of one pod.
        """
        fields = {"envs": {}, "mounts": (), "devices": (), "annotations": {}, "cdi_devices": ()}
        options = DeviceRunOptions(**{name: settings.pop(name, none) for name, none in fields.items()})
        manifest = {"name": "main", "image": "ignored", "command": list(command), **settings}
        spec = {"containers": [manifest], **manifest.pop("pod", {})}
        uid = spec.pop("uid", None)
        pod = pod_from_manifest({"metadata": {"name": self.faker.unique.slug()}, "spec": spec})
        pod = replace(pod, uid=uid or pod.uid)
        if self.runtime is None:
            logs = self.folder / "pods-logs"
            self.runtime = ProcessRuntime(self.folder, logs, self.clock, self.hook, memory_bytes=self.memory_bytes)
        return await self.runtime.start(pod, pod.containers[0], options, attempt)

    async def output(self, *command: str, **settings: Any) -> str:
        """What a container printed that ended well."""
        container = await self.start(*command, **settings)
        status = await container.wait()
        assert status == ExitStatus(0, ExitReason.COMPLETED), container.log.read_text()
        return container.log.read_text()


@pytest.fixture
async def node(way: tuple[str | None, str], tmp_path: Path, faker: Faker) -> AsyncIterator[SomeNode]:
    node = SomeNode(tmp_path, faker)
    yield node
    if node.runtime is not None:
        await node.runtime.reboot()
