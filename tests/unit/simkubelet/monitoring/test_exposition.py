from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from simkubelet.model.config import ScopeName
from simkubelet.model.metrics import Metrics, PodResourcesMethod
from simkubelet.model.version import SUPPORTED, version
from simkubelet.monitoring.exposition import PluginSockets, exposition

NO_PLUGINS = PluginSockets()


def text_of(metrics: Metrics, minor: str = "1.34", plugins: PluginSockets = NO_PLUGINS, is_get_on: bool = True) -> str:
    return exposition(metrics, plugins, version(minor), is_get_on=is_get_on)


def samples_of(text: str) -> dict[tuple[Any, ...], float]:
    """(name, label values in their order) -> value, as Prometheus' own parser reads the text."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_without_labels_are_there_from_the_start_and_no_others():
    names = [line.split()[2] for line in text_of(Metrics()).splitlines() if line.startswith("# TYPE")]

    assert names == [
        "kubelet_running_pods",
        "kubelet_topology_manager_admission_duration_ms",
        "kubelet_topology_manager_admission_errors_total",
        "kubelet_topology_manager_admission_requests_total",
    ]


def test_text_is_as_of_a_go_client():
    metrics = Metrics()
    metrics.register_called("example.com/gpu")
    metrics.pod_resources_called("v1", PodResourcesMethod.LIST)
    metrics.running_pods = 2

    text = text_of(metrics, "1.26")

    assert text == (
        "# HELP kubelet_device_plugin_registration_total [ALPHA] "
        "Cumulative number of device plugin registrations. Broken down by resource name.\n"
        "# TYPE kubelet_device_plugin_registration_total counter\n"
        'kubelet_device_plugin_registration_total{resource_name="example.com/gpu"} 1\n'
        "# HELP kubelet_pod_resources_endpoint_requests_list [ALPHA] "
        "Number of requests to the PodResource List endpoint. Broken down by server api version.\n"
        "# TYPE kubelet_pod_resources_endpoint_requests_list counter\n"
        'kubelet_pod_resources_endpoint_requests_list{server_api_version="v1"} 1\n'
        "# HELP kubelet_pod_resources_endpoint_requests_total [ALPHA] "
        "Cumulative number of requests to the PodResource endpoint. Broken down by server api version.\n"
        "# TYPE kubelet_pod_resources_endpoint_requests_total counter\n"
        'kubelet_pod_resources_endpoint_requests_total{server_api_version="v1"} 1\n'
        "# HELP kubelet_running_pods [ALPHA] Number of pods that have a running pod sandbox\n"
        "# TYPE kubelet_running_pods gauge\n"
        "kubelet_running_pods 2\n"
    )


def test_allocations_are_in_the_buckets_of_their_durations():
    metrics = Metrics()
    for duration_s in (0.005, 0.006, 30):
        metrics.allocate_answered("example.com/gpu", duration_s)

    samples = samples_of(text_of(metrics))

    name, gpu = "kubelet_device_plugin_alloc_duration_seconds", "example.com/gpu"
    buckets = [samples[f"{name}_bucket", gpu, bound] for bound in ("0.005", "0.01", "10", "+Inf")]
    assert buckets == [1, 2, 2, 3]
    assert samples[f"{name}_count", gpu] == 3
    assert samples[f"{name}_sum", gpu] == pytest.approx(30.011)


def test_admissions_take_whole_milliseconds():
    metrics = Metrics()
    metrics.pod_admitted(0.0029)

    samples = samples_of(text_of(metrics))

    assert samples["kubelet_topology_manager_admission_duration_ms_sum",] == 2
    assert samples["kubelet_topology_manager_admission_duration_ms_bucket", "1.6"] == 0
    assert samples["kubelet_topology_manager_admission_duration_ms_bucket", "819.2"] == 1


@pytest.mark.parametrize(
    ("minor", "names"),
    [
        pytest.param("1.26", set(), id="1.26"),
        pytest.param("1.31", {"topology_manager_admission_errors_total"}, id="1.31"),
        pytest.param(
            "1.32", {"topology_manager_admission_errors_total", "container_aligned_compute_resources_count"}, id="1.32"
        ),
        pytest.param(
            "1.33",
            {
                "topology_manager_admission_errors_total",
                "container_aligned_compute_resources_count",
                "container_aligned_compute_resources_failure_count",
            },
            id="1.33",
        ),
    ],
)
def test_metrics_of_the_topology_manager_came_by_minors(minor: str, names: set[str]):
    metrics = Metrics()
    metrics.topology.aligned[ScopeName.POD] = metrics.topology.not_aligned[ScopeName.CONTAINER] = 1

    text = text_of(metrics, minor)

    told = {line.split()[2].removeprefix("kubelet_") for line in text.splitlines() if line.startswith("# TYPE")}
    assert {name for name in told if "errors" in name or "aligned" in name} == names


def test_metrics_of_get_are_there_with_its_gate_only():
    metrics = Metrics()
    metrics.pod_resources_called("v1", PodResourcesMethod.GET)
    metrics.pod_resources_get_failed("v1")

    assert "_get" not in text_of(metrics, is_get_on=False)
    text = text_of(metrics)
    assert 'kubelet_pod_resources_endpoint_requests_get{server_api_version="v1"} 1\n' in text
    assert 'kubelet_pod_resources_endpoint_errors_get{server_api_version="v1"} 1\n' in text


@pytest.mark.parametrize("minor", SUPPORTED)
def test_each_metric_has_one_help_and_one_type_in_the_order_of_names(minor: str):
    metrics = Metrics()
    metrics.register_called('a"\\\n/b')
    metrics.allocate_answered("example.com/gpu", 0.3)
    metrics.pod_rejected("OutOfcpu")
    for method in PodResourcesMethod:
        metrics.pod_resources_called("v1", method)

    lines = text_of(metrics, minor).splitlines()

    helps, types = ([line.split()[2] for line in lines if line.startswith(f"# {word} ")] for word in ("HELP", "TYPE"))
    assert helps == types == sorted(set(helps))
    samples = [line for line in lines if not line.startswith("#")]
    assert all(line.startswith(tuple(helps)) for line in samples)
    assert len(samples_of("\n".join(lines) + "\n")) == len(samples)


def test_rejections_are_counted_by_reason_and_all_extended_resources_as_one():
    metrics = Metrics()
    for reason in ("UnexpectedAdmissionError", "OutOfcpu", "OutOfexample.com/gpu", "OutOfexample.com/nic"):
        metrics.pod_rejected(reason)

    name = "kubelet_admission_rejections_total"
    assert {labels[1]: value for labels, value in samples_of(text_of(metrics)).items() if labels[0] == name} == {
        "UnexpectedAdmissionError": 1,
        "OutOfcpu": 1,
        "OutOfExtendedResources": 2,
    }
    assert name not in text_of(metrics, "1.31")


async def test_running_pods_and_containers_are_those_of_the_node(make_node: Any):
    node = await make_node(serves_http=True)
    ended = await node.settled_pod(None, restartPolicy="Never")
    await node.kubelet.complete(ended, "c", 0)
    await node.until(lambda: node.phase(ended) == "Succeeded")
    init = [{"name": "i", "image": "none"}, {"name": "s", "image": "none", "restartPolicy": "Always"}]
    await node.settled_pod(None, initContainers=init)
    refused = await node.settled_pod(None, containers=[{"name": "c", "resources": {"requests": {"cpu": "99"}}}])
    assert node.phase(refused) == "Failed"

    port = node.kubelet._instance._services.http.port
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as response:
        samples = samples_of(await response.text())

    assert samples["kubelet_running_pods",] == 1
    assert samples["kubelet_running_containers", "running"] == 2
    assert samples["kubelet_running_containers", "exited"] == 2
    assert samples["kubelet_admission_rejections_total", "OutOfcpu"] == 1


def test_state_that_no_container_is_in_keeps_its_number():
    metrics = Metrics()
    metrics.set_running(1, {"running": 2, "exited": 1})
    metrics.set_running(1, {"running": 3})

    samples = samples_of(text_of(metrics))

    assert samples["kubelet_running_containers", "running"] == 3
    assert samples["kubelet_running_containers", "exited"] == 1


def test_plugins_are_identified_by_socket_and_call_log():
    socket = Path("/node/plugins_registry/a.sock")

    samples = samples_of(text_of(Metrics(), plugins=PluginSockets(frozenset({socket}), frozenset())))

    assert samples["plugin_manager_total_plugins", str(socket), "desired_state_of_world"] == 1
    assert ("plugin_manager_total_plugins", str(socket), "actual_state_of_world") not in samples


@pytest.mark.slow
@given(
    resource=st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"),
        min_size=1,
    )
)
def test_any_label_is_read_back(resource: str):
    metrics = Metrics()
    metrics.register_called(resource)

    assert samples_of(text_of(metrics))["kubelet_device_plugin_registration_total", resource] == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.25"),
        (100000.0, "100000"),
        (1234567.0, "1.234567e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (0.0, "0"),
    ],
)
def test_numbers_are_written_as_go_writes_them(seconds: float, text: str):
    metrics = Metrics()
    metrics.allocate_answered("r", seconds)

    assert f'_sum{{resource_name="r"}} {text}\n' in text_of(metrics)
