"""Nothing stays of what clients wrote, once it is gone and the history and the Events are over."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from simkubelet.cluster.objects import objects as module
from simkubelet.cluster.objects.objects import Key
from simkubelet.model.node import NodeStatus
from simkubelet.model.pod_status import ContainerStatus, PodPhase, PodStatus, Running

from .conftest import Cluster, manifest

TEXT_BYTES = 1 << 20
TIMES = 8
OVER_S = 3700.0
RUNNING = PodStatus(PodPhase.RUNNING, containers=(ContainerStatus("c", Running(0.0)),))


@pytest.fixture(autouse=True)
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Memory is counted, and small histories are forgotten as large ones are."""
    monkeypatch.setattr(module, "_LEAST_REMEMBERED_BYTES", 0)
    tracemalloc.start()
    yield
    tracemalloc.stop()


def run_pod_of_image(cluster: Cluster, text: str) -> None:
    body = manifest("a")
    body["spec"]["containers"][0]["image"] = text
    pod = cluster.store.create_pod(body)
    cluster.store.bind(pod.uid, "n")
    cluster.store.set_pod_status(pod.uid, RUNNING)
    cluster.store.remove_pod(pod.uid)


def record_message(cluster: Cluster, text: str) -> None:
    pod = cluster.store.create_pod(manifest("a"))
    cluster.store.record(pod, "Warning", "Failed", text, "kubelet")
    cluster.store.record(pod, "Warning", "Failed", text, "scheduler", action="Scheduling")
    cluster.store.remove_pod(pod.uid)


def run_pod_on_node_of_version(cluster: Cluster, text: str) -> None:
    key = Key("nodes", "", "n")
    node = cluster.objects.get(key)
    assert node is not None
    other = {**node["status"], "nodeInfo": {**node["status"]["nodeInfo"], "kubeletVersion": text}}
    cluster.objects.replace(key, {**node, "status": other})
    run_pod_of_image(cluster, "busybox")
    cluster.objects.replace(key, node)


def run_pod_of_annotation(cluster: Cluster, text: str) -> None:
    body = manifest("a")
    body["metadata"]["annotations"] = {"a": text}
    cluster.store.remove_pod(cluster.store.create_pod(body).uid)


async def until_over(cluster: Cluster) -> None:
    """Let Events and history expire; the history does at a write."""
    await cluster.clock.advance(OVER_S)
    cluster.store.recorder.expire()
    await cluster.clock.advance(OVER_S)
    cluster.objects.create(Key("leases", "", "a"), {})
    cluster.objects.remove(Key("leases", "", "a"))
    cluster.told.clear()
    gc.collect()


@pytest.mark.parametrize(
    "use",
    [run_pod_of_image, record_message, run_pod_on_node_of_version, run_pod_of_annotation],
    ids=lambda f: f.__name__,
)
async def test_nothing_stays_of_long_texts(cluster: Cluster, use: Callable[[Cluster, str], None]) -> None:
    cluster.store.register_node("n", NodeStatus())
    use(cluster, "short")
    await until_over(cluster)
    before, _ = tracemalloc.get_traced_memory()

    for number in range(TIMES):
        use(cluster, f"{number}{'x' * TEXT_BYTES}")
    await until_over(cluster)

    assert tracemalloc.get_traced_memory()[0] - before < TEXT_BYTES
