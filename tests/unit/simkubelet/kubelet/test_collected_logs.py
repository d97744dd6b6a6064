from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkubelet.kubelet import instance
from simkubelet.runtime.process_container import container_log
from tests.support.patience import until


@pytest.fixture
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "_COLLECTION_S", 0.01)


def write(log: Path) -> Path:
    log.parent.mkdir(parents=True)
    log.write_text("a line\n")
    return log.parents[1]


@pytest.mark.usefixtures("_often")
async def test_logs_of_a_pod_go_with_its_object(node: Any, tmp_path: Path) -> None:
    name = await node.settled_pod(None)
    logs = node.kubelet.container_logs
    gone = write(container_log(logs, "default_gone_0f0f", "main", 0))
    uid = node.store.pod_named(name).uid
    mine = write(container_log(logs, f"default_{name}_{uid}", "main", 0))
    others = write(tmp_path / "others/main/0.log")
    (logs / "default_link_0f0f").symlink_to(others)

    await until(lambda: not gone.exists())
    assert (mine / "main/0.log").exists()
    assert (others / "main/0.log").exists()

    await node.delete(name)
    await until(lambda: not mine.exists())


@pytest.mark.usefixtures("_often")
async def test_logs_of_pods_that_have_ended_stay_with_their_objects(node: Any) -> None:
    name = await node.settled_pod(None, restartPolicy="Never")
    uid = node.store.pod_named(name).uid
    mine = write(container_log(node.kubelet.container_logs, f"default_{name}_{uid}", "main", 0))
    await node.kubelet.reboot()
    await node.until(lambda: node.phase(name) == "Failed")

    # Elsewhere first: what is collected may go before it is written.
    logs = node.kubelet.container_logs
    gone = write(logs.parent / "aside/main/0.log").rename(logs / "default_gone_0f0f")
    await until(lambda: not gone.exists())

    assert mine.exists()
