from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from simkubelet.apis import podresources as v1
from simkubelet.apis import podresources_v1alpha1 as v1alpha1
from simkubelet.apis.grpcwire.client import ClientConnection, RpcError
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.devices.pod_devices import NO_NUMA_NODE
from simkubelet.model.config import KubeletConfig
from simkubelet.model.errors import HostError
from simkubelet.model.metrics import Metrics, PodResourcesMethod
from simkubelet.model.pod import Pod, pod_from_manifest
from simkubelet.model.version import version
from simkubelet.monitoring import pod_resources
from simkubelet.monitoring.pod_resources import PodResourcesServer, RateLimit, allocatable_devices, container_devices
from tests.support.grpc_peers import POD_RESOURCES, POD_RESOURCES_V1ALPHA1, Calls, calls, connected

GPU = "example.com/gpu"
NIC = "example.com/nic"


class Books:
    """Books of a kubelet that a test fills."""

    def __init__(self) -> None:
        self.known: list[Pod] = []
        self.ended: set[str] = set()
        self.held: dict[tuple[str, str], dict[str, dict[int, list[str]]]] = {}
        self.healthy: dict[str, dict[str, list[int] | None]] = {}
        self.updates = 0

    def pods(self) -> list[Pod]:
        return self.known

    def active_pods(self) -> list[Pod]:
        return [pod for pod in self.known if pod.name not in self.ended]

    def update_allocated_devices(self) -> None:
        self.updates += 1

    def devices_of(self, pod: str, container: str) -> Any:
        return self.held.get((pod, container), {})

    def allocatable_devices(self) -> Any:
        return self.healthy

    def dynamic_resources(self, pod: Pod, container: str) -> Any:
        return ()


@pytest.fixture
def books() -> Books:
    return Books()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def serve(short_folder: Path, books: Books, metrics: Metrics) -> AsyncIterator[Callable[..., Any]]:
    """Serves the API of a minor and gives a connection to it: ``await serve("1.33")``."""
    async with AsyncExitStack() as stack:

        async def serve(minor: str = "1.34", **gates: bool) -> ClientConnection:
            config = KubeletConfig("node", version(minor), feature_gates=gates)
            server = PodResourcesServer(short_folder / "pod-resources", books, config, metrics)
            server.start()
            stack.push_async_callback(server.stop)
            return await stack.enter_async_context(connected(server.socket))

        yield serve


def make_pod(name: str, namespace: str = "default", sidecars: tuple[str, ...] = (), inits: tuple[str, ...] = ()) -> Pod:
    return pod_from_manifest(
        {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "initContainers": [
                    *({"name": init, "image": "i"} for init in inits),
                    *({"name": sidecar, "image": "i", "restartPolicy": "Always"} for sidecar in sidecars),
                ],
                "containers": [{"name": "app", "image": "i"}],
            },
        }
    )


def as_tuples(devices: Any) -> list[tuple[str, str, int | None]]:
    """(resource, id, NUMA node) of messages that have one id and at most one node each."""
    told = []
    for device in devices:
        (identifier,) = device.device_ids
        (node,) = [node.ID for node in device.topology.nodes] if device.HasField("topology") else [None]
        told.append((device.resource_name, identifier, node))
    return sorted(told, key=str)


def test_device_is_listed_once_for_each_of_its_numa_nodes():
    held = {GPU: {0: ["a", "b"], 1: ["b"], NO_NUMA_NODE: ["c"]}, NIC: {1: ["n"]}}

    assert as_tuples(container_devices(held)) == [
        (GPU, "a", 0),
        (GPU, "b", 0),
        (GPU, "b", 1),
        (GPU, "c", None),
        (NIC, "n", 1),
    ]


def test_device_held_with_and_without_topology_stands_by_its_node_only():
    assert as_tuples(container_devices({GPU: {NO_NUMA_NODE: ["a"], 1: ["a"]}})) == [(GPU, "a", 1)]


def test_allocatable_device_whose_topology_names_no_node_is_left_out():
    assert as_tuples(allocatable_devices({GPU: {"a": None, "b": [], "c": [0, 1]}})) == [
        (GPU, "a", None),
        (GPU, "c", 0),
        (GPU, "c", 1),
    ]


async def test_list_reports_sidecars_and_app_containers_in_order(serve, books: Books):
    pod = make_pod("p", namespace="team", sidecars=("s",), inits=("i",))
    books.known = [pod]
    books.held = {
        (pod.uid, "app"): {GPU: {0: ["a"]}},
        (pod.uid, "s"): {GPU: {0: ["b"]}},
        (pod.uid, "i"): {GPU: {0: ["c"]}},
    }

    response = await Calls(await serve(), POD_RESOURCES).List(v1.ListPodResourcesRequest())

    (told,) = response.pod_resources
    assert (told.name, told.namespace) == ("p", "team")
    assert [(c.name, as_tuples(c.devices)) for c in told.containers] == [
        ("s", [(GPU, "b", 0)]),
        ("app", [(GPU, "a", 0)]),
    ]
    assert not [item for c in told.containers for item in (*c.cpu_ids, *c.memory, *c.dynamic_resources)]
    assert books.updates == 1


@pytest.mark.parametrize(("minor", "names"), [("1.29", ["app"]), ("1.30", ["s", "app"])])
async def test_sidecars_are_reported_from_1_30(serve, books: Books, minor: str, names: list[str]):
    books.known = [make_pod("p", sidecars=("s",))]

    response = await Calls(await serve(minor), POD_RESOURCES).List(v1.ListPodResourcesRequest())

    assert [container.name for container in response.pod_resources[0].containers] == names


@pytest.mark.parametrize(
    ("minor", "gates", "names"),
    [
        pytest.param("1.33", {}, ["ended", "runs"], id="1.33"),
        pytest.param("1.34", {}, ["runs"], id="1.34"),
        pytest.param("1.34", {"KubeletPodResourcesListUseActivePods": False}, ["ended", "runs"], id="1.34-gate-off"),
    ],
)
async def test_ended_pods_are_listed_up_to_1_33(serve, books: Books, minor: str, gates: Any, names: list[str]):
    books.known = [make_pod("ended"), make_pod("runs")]
    books.ended = {"ended"}

    response = await Calls(await serve(minor, **gates), POD_RESOURCES).List(v1.ListPodResourcesRequest())

    assert [pod.name for pod in response.pod_resources] == names


@pytest.mark.parametrize(
    ("release", "finds"), [("1.34.5", True), ("1.34.7", False), ("1.35.3", True), ("1.35.4", False), ("1.36", False)]
)
async def test_get_finds_a_pod_that_has_ended_up_to_some_patches(serve, books: Books, release: str, finds: bool):
    books.known = [make_pod("p"), make_pod("p", namespace="team")]
    books.ended = {"p"}
    request = v1.GetPodResourcesRequest(pod_name="p", pod_namespace="team")
    asking = Calls(await serve(release), POD_RESOURCES).Get(request)

    if finds:
        assert (await asking).pod_resources.namespace == "team"
    else:
        with pytest.raises(RpcError, match="pod p in namespace team not found"):
            await asking


@pytest.mark.parametrize(
    ("minor", "gates", "code", "text"),
    [
        pytest.param(
            "1.26", {}, "UNIMPLEMENTED", "unknown method Get for service v1.PodResourcesLister", id="1.26-has-none"
        ),
        pytest.param("1.33", {}, "UNKNOWN", "PodResources API Get method disabled", id="1.33-gate-is-off"),
        pytest.param(
            "1.27", {"KubeletPodResourcesGet": True}, "UNKNOWN", "pod p in namespace default not found", id="gate-on"
        ),
        pytest.param("1.34", {}, "UNKNOWN", "pod p in namespace default not found", id="1.34"),
        pytest.param(
            "1.34", {"KubeletPodResourcesGet": False}, "UNKNOWN", "PodResources API Get method disabled", id="gate-off"
        ),
    ],
)
async def test_get_that_fails(serve, minor: str, gates: Any, code: str, text: str):
    stub = Calls(await serve(minor, **gates), POD_RESOURCES)

    with pytest.raises(RpcError) as refusal:
        await stub.Get(v1.GetPodResourcesRequest(pod_name="p", pod_namespace="default"))

    assert (Code(refusal.value.code).name, refusal.value.text) == (code, text)


async def test_v1alpha1_lists_all_pods_and_app_containers_without_topology(serve, books: Books):
    pod = make_pod("p", sidecars=("s",))
    books.known, books.ended = [pod], {"p"}
    books.held = {(pod.uid, "app"): {GPU: {0: ["a"], 1: ["a"]}}}

    response = await Calls(await serve(), POD_RESOURCES_V1ALPHA1).List(v1alpha1.ListPodResourcesRequest())

    (container,) = response.pod_resources[0].containers
    assert container.name == "app"
    assert [list(device.device_ids) for device in container.devices] == [["a"], ["a"]]


async def test_allocatable_devices_are_reported(serve, books: Books):
    books.healthy = {GPU: {"a": [1]}, NIC: {}}

    response = await Calls(await serve(), POD_RESOURCES).GetAllocatableResources(v1.AllocatableResourcesRequest())

    assert as_tuples(response.devices) == [(GPU, "a", 1)]
    assert not response.cpu_ids
    assert not response.memory


async def test_calls_beyond_the_burst_are_rejected(serve, monkeypatch: pytest.MonkeyPatch):
    # However long the calls take together.
    monkeypatch.setattr(pod_resources, "_CALLS_PER_SECOND", 0.0)
    stub = Calls(await serve(), POD_RESOURCES)

    answers = await asyncio.gather(
        *(stub.List(v1.ListPodResourcesRequest()) for _ in range(200)), return_exceptions=True
    )

    errors = [answer for answer in answers if isinstance(answer, RpcError)]
    assert {(error.code, error.text) for error in errors} == {(Code.RESOURCE_EXHAUSTED, "rejected by rate limit")}
    assert len(answers) - len(errors) == 10


async def test_1_26_takes_any_number_of_calls(serve):
    stub = Calls(await serve("1.26"), POD_RESOURCES)

    for _ in range(50):
        await stub.List(v1.ListPodResourcesRequest())


def test_rate_limit_fills_up_with_time_to_the_burst():
    now = 0.0
    limit = RateLimit(100, 10, now=lambda: now)

    assert [limit.allows() for _ in range(11)] == [True] * 10 + [False]
    now = 0.025
    assert [limit.allows() for _ in range(3)] == [True, True, False]
    now = 60
    assert sum(limit.allows() for _ in range(20)) == 10


async def test_calls_are_counted(serve, metrics: Metrics):
    connection = await serve()
    stub = Calls(connection, POD_RESOURCES)
    await stub.List(v1.ListPodResourcesRequest())
    await stub.GetAllocatableResources(v1.AllocatableResourcesRequest())
    with pytest.raises(RpcError):
        await stub.Get(v1.GetPodResourcesRequest(pod_name="p"))
    await Calls(connection, POD_RESOURCES_V1ALPHA1).List(v1alpha1.ListPodResourcesRequest())

    assert metrics.pod_resources_requests == {"v1": 3, "v1alpha1": 1}
    assert metrics.pod_resources_methods == Counter({(method, "v1"): 1 for method in PodResourcesMethod})
    assert metrics.pod_resources_get_errors == {"v1": 1}


async def test_1_26_counts_get_allocatable_resources_twice(serve, metrics: Metrics):
    stub = Calls(await serve("1.26"), POD_RESOURCES)

    await stub.GetAllocatableResources(v1.AllocatableResourcesRequest())

    assert metrics.pod_resources_requests == {"v1": 2}


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("/v1.PodResourcesLister/Watch", "unknown method Watch for service v1.PodResourcesLister"),
        ("/v1beta1.DevicePlugin/Allocate", "unknown service v1beta1.DevicePlugin"),
    ],
)
async def test_unknown_call_is_answered_as_by_a_go_server(serve, method: str, text: str):
    connection = await serve()

    with pytest.raises(RpcError) as refusal:
        await connection.call(method, b"")

    assert (refusal.value.code, refusal.value.text) == (Code.UNIMPLEMENTED, text)


async def test_socket_of_the_last_kubelet_is_replaced_and_outlives_this_one(short_folder: Path, books, metrics):
    folder = short_folder / "pod-resources"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "kubelet.sock"))
    server = PodResourcesServer(folder, books, KubeletConfig("node"), metrics)

    server.start()
    async with calls(server.socket, POD_RESOURCES) as stub:
        await stub.List(v1.ListPodResourcesRequest())
    await server.stop()
    await server.stop()

    assert [entry.name for entry in folder.iterdir()] == ["kubelet.sock"]


async def test_folder_that_cannot_be_made_is_a_host_error(short_folder: Path, books, metrics):
    (short_folder / "file").write_text("")

    with pytest.raises(HostError, match=r"file/kubelet\.sock: cannot listen"):
        await PodResourcesServer(short_folder / "file", books, KubeletConfig("node"), metrics).start()
