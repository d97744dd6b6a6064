from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.model.errors import InputError
from simkubelet.model.pod import ContainerKind, pod_from_manifest

GPU = "example.com/gpu"


def container(name: str, count: object = None, **more: object) -> dict[str, object]:
    resources = {} if count is None else {"resources": {"limits": {GPU: count}}}
    return {"name": name, **resources, **more}


def manifest(*containers: dict[str, object], init: tuple[dict[str, object], ...] = ()) -> dict[str, object]:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), "initContainers": list(init)}}


def test_containers_come_in_the_order_in_which_they_start():
    pod = pod_from_manifest(manifest(container("app"), init=(container("i"), container("s", restartPolicy="Always"))))

    assert [(c.name, c.kind) for c in pod.containers] == [
        ("i", ContainerKind.INIT),
        ("s", ContainerKind.SIDECAR),
        ("app", ContainerKind.APP),
    ]


def test_limits_are_the_requests_where_none_are_given():
    pod = pod_from_manifest(manifest(container("app", "2")))

    assert pod.requests() == {GPU: 2}


COUNTS = st.lists(st.integers(0, 5), max_size=3)


@given(init=COUNTS, apps=st.lists(st.integers(0, 5), min_size=1, max_size=3))
def test_pod_needs_the_larger_of_its_largest_init_container_and_the_sum_of_the_others(init, apps):
    pod = pod_from_manifest(
        manifest(
            *(container(f"a{n}", count) for n, count in enumerate(apps)),
            init=tuple(container(f"i{n}", count) for n, count in enumerate(init)),
        )
    )

    assert pod.requests()[GPU] == max([*init, sum(apps)])


def test_sidecar_counts_beside_later_init_containers_and_the_app():
    pod = pod_from_manifest(
        manifest(container("app", 1), init=(container("s", 2, restartPolicy="Always"), container("i", 3)))
    )

    assert pod.requests()[GPU] == 5


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        pytest.param({"spec": {"containers": [container("c")]}}, "metadata.name", id="no-name"),
        pytest.param({"metadata": {"name": "p"}, "spec": {}}, "spec.containers", id="no-containers"),
        pytest.param(manifest(container("c"), container("c")), "duplicate container name 'c'", id="name-twice"),
        pytest.param(manifest({"image": "x"}), r"containers\[0\].name", id="container-without-name"),
        pytest.param(manifest(container("c", "1500m")), "counted in whole devices", id="part-of-a-device"),
        pytest.param(manifest(container("c", -1)), "must not be below 0", id="negative"),
        pytest.param(manifest(container("c", "1e9999999")), "no Kubernetes quantity", id="beyond-all-numbers"),
        pytest.param(manifest({"name": "c", "env": [{"value": "x"}]}), r"env\[0\].name", id="variable-without-name"),
        pytest.param(manifest({"name": "c", "env": ["x"]}), r"env\[0\].name", id="variable-of-text"),
        pytest.param(
            manifest({"name": "c", "resources": {"limits": {"gpu": 1}}}), "a device's has a domain", id="no-domain"
        ),
        pytest.param(
            manifest({"name": "c", "resources": {"requests": {"cpu": 5}, "limits": {"cpu": 1}}}),
            "must not be above the limit",
            id="request-above-limit",
        ),
        pytest.param(manifest(container("c", "two")), "no Kubernetes quantity", id="no-quantity"),
        pytest.param(
            manifest({"name": "c", "resources": {"requests": {GPU: 1}}}), "must equal its limit", id="request-only"
        ),
    ],
)
def test_manifest_that_the_api_server_would_refuse(document, complaint):
    with pytest.raises(InputError, match=complaint):
        pod_from_manifest(document)
