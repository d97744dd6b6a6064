from __future__ import annotations

from typing import Any

import pytest

from simkubelet.model.pod import Pod, pod_from_manifest
from simkubelet.model.pod_status import ContainerState, ContainerStatus, PodStatus, Running, Terminated, Waiting
from simkubelet.pods.termination import terminated

WAITING, RUNNING = Waiting("PodInitializing"), Running(0.0)
DONE, FAILED = Terminated(0, "Completed", 0.0, 0.0), Terminated(1, "Error", 0.0, 0.0)
UNKNOWN = "ContainerStatusUnknown"


def pod_of(init: list[dict[str, Any]]) -> Pod:
    spec = {"containers": [{"name": "c", "image": "x"}], "initContainers": init}
    return pod_from_manifest({"metadata": {"name": "p"}, "spec": spec})


def told(state: ContainerState, *init: ContainerState) -> PodStatus:
    return PodStatus(
        containers=(ContainerStatus("c", state),),
        init_containers=tuple(
            ContainerStatus(str(place), each, is_started=isinstance(each, Running)) for place, each in enumerate(init)
        ),
    )


def reasons_of(init: list[dict[str, Any]], status: PodStatus) -> list[str]:
    last = terminated(pod_of(init), status, status)
    return [status.state.reason for status in (*last.init_containers, *last.containers)]


@pytest.mark.parametrize(
    ("app", "init", "expected"),
    [
        pytest.param(WAITING, [], [UNKNOWN], id="never-ran"),
        pytest.param(DONE, [], ["Completed"], id="has-ended"),
        pytest.param(WAITING, [FAILED, WAITING], ["Error", "PodInitializing", "PodInitializing"], id="init-failed"),
        pytest.param(WAITING, [WAITING, WAITING], [UNKNOWN, "PodInitializing", "PodInitializing"], id="nothing-ran"),
        pytest.param(WAITING, [RUNNING, RUNNING], [UNKNOWN, UNKNOWN, "PodInitializing"], id="second-init-runs"),
        pytest.param(WAITING, [DONE, DONE], ["Completed", "Completed", UNKNOWN], id="init-is-done"),
        pytest.param(RUNNING, [DONE], ["Completed", UNKNOWN], id="app-ran"),
    ],
)
def test_containers_without_an_end_count_as_failed_as_far_as_the_pod_came(
    app: ContainerState, init: list[ContainerState], expected: list[str]
) -> None:
    manifests = [{"name": str(place)} for place in range(len(init))]

    assert reasons_of(manifests, told(app, *init)) == expected


def test_started_sidecar_at_the_end_means_that_the_app_was_due() -> None:
    sidecar = {"name": "0", "restartPolicy": "Always"}

    assert reasons_of([sidecar], told(WAITING, RUNNING)) == [UNKNOWN, UNKNOWN]
    assert reasons_of([sidecar], told(WAITING, DONE)) == ["Completed", "PodInitializing"]
