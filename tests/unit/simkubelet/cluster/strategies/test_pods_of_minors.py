"""What API servers of older minors do with pods: fields that came later are dropped, texts and annotations differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from simkubelet.cluster import Objects, WallTime
from simkubelet.cluster.api.errors import StatusError
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import Registry
from simkubelet.cluster.objects.objects import JSON, Key
from simkubelet.cluster.objects.pod_json import kubelet_status_json
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.clock import ManualClock
from simkubelet.model.pod_status import Condition, ConditionType, PodPhase, PodStatus
from simkubelet.model.version import version

PODS = kind_named("pods")
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/c"
HOST_IPS = {"container": {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIPs"}}}]}}
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "-"}},
        }
    ]
}
ALIAS = {"hostAliases": [{"ip": "x"}]}
TOKEN = {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "../x"}}]}}]}
PROBE = {"exec": {"command": ["true"]}}
TWO_SOURCES = {
    "volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "x"}, "configMap": {"name": "x"}}]}}]
}
SLEEPS = {"container": {"lifecycle": {"preStop": {"sleep": {"seconds": 0}}}}}
PROBED = {"initContainers": [{"name": "i", "image": "busybox", "livenessProbe": PROBE}]}
ON_HOST = {"hostNetwork": True, "container": {"ports": [{"containerPort": 1, "hostPort": 2}]}}
OVER_LIMIT = {"container": {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}}
HOST_SYSCTL = {"hostNetwork": True, "securityContext": {"sysctls": [{"name": "net.ipv4.x", "value": "1"}]}}
WRONG_VALUE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["-"]}]}
LABEL_VALUE = {
    "affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [WRONG_VALUE]}}
    }
}
LABELS = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?"
UNDERSCORED = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
DOTS = {"container": {"name": "a.b"}}
CLAIM = {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}}
ONE_POD = {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}]}
LOCAL = {"type": "Localhost", "localhostProfile": "x"}


def registry_of(release: str) -> Registry:
    objects = Objects(WallTime(ManualClock()))
    objects.create(Key("namespaces", "", "default"), {"metadata": {}})
    objects.create(Key("serviceaccounts", "default", "default"), {"metadata": {}})
    return Registry(objects, all_strategies(objects, version(release)), version(release))


def created(release: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> JSON:
    container = {"name": "c", "image": "busybox", **spec.pop("container", {})}
    metadata = {"name": "p", "namespace": "default", "annotations": dict(annotations or {})}
    return registry_of(release).create(
        PODS, "default", {"metadata": metadata, "spec": {"containers": [container], **spec}}
    )


@pytest.mark.parametrize(("release", "generations"), [("1.32", (None, None)), ("1.33", (1, 2))])
def test_pod_has_a_generation_since_1_33(release: str, generations: tuple[int | None, int | None]) -> None:
    registry = registry_of(release)
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}

    new = registry.create(PODS, "default", body)
    other = {"containers": [{**new["spec"]["containers"][0], "image": "other"}]}
    changed = registry.update(PODS, "default", "p", lambda old: {**old, "spec": {**old["spec"], **other}})

    assert (new["metadata"].get("generation"), changed["metadata"].get("generation")) == generations


@pytest.mark.parametrize(("release", "is_kept"), [("1.26", False), ("1.27", True)])
def test_gates_and_domains_are_kept_since_1_27(release: str, is_kept: bool) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}

    pod = created(release, schedulingGates=[{"name": "a.b/c"}], topologySpreadConstraints=[spread])

    assert ("schedulingGates" in pod["spec"], "conditions" in pod["status"]) == (is_kept, is_kept)
    assert ("minDomains" in pod["spec"]["topologySpreadConstraints"][0]) is is_kept


@pytest.mark.parametrize(("release", "is_there"), [("1.28", False), ("1.29", True)])
def test_status_has_all_addresses_of_the_node_since_1_29(release: str, is_there: bool) -> None:
    ready = Condition(ConditionType.READY, True)
    status = PodStatus(PodPhase.RUNNING, conditions=(ready,))
    addresses = ("10.0.0.1", "10.1.0.1")

    new = kubelet_status_json(created(release), status, version(release), WallTime(ManualClock()), addresses, {})

    assert new["hostIP"] == "10.0.0.1"
    assert ("hostIPs" in new) is is_there


@pytest.mark.parametrize(
    ("release", "of_container", "annotation"),
    [
        pytest.param("1.29", None, None, id="no field"),
        pytest.param("1.30", LOCAL, "localhost/x", id="both"),
        pytest.param("1.33", LOCAL, "localhost/x", id="still both"),
        pytest.param("1.34", LOCAL, None, id="field"),
    ],
)
def test_profile_of_app_armor_is_an_annotation_too_until_1_33(
    release: str, of_container: JSON | None, annotation: str | None
) -> None:
    pod = created(release, container={"securityContext": {"appArmorProfile": LOCAL}})

    assert pod["spec"]["containers"][0]["securityContext"].get("appArmorProfile") == of_container
    assert (pod["metadata"].get("annotations") or {}).get(APP_ARMOR) == annotation


@pytest.mark.parametrize(("release", "is_field"), [("1.29", False), ("1.30", True), ("1.34", True)])
def test_annotation_of_app_armor_becomes_a_field_since_1_30(release: str, is_field: bool) -> None:
    pod = created(release, {APP_ARMOR: "localhost/x"})

    security = pod["spec"]["containers"][0].get("securityContext") or {}
    assert security.get("appArmorProfile") == (LOCAL if is_field else None)
    assert pod["metadata"]["annotations"] == {APP_ARMOR: "localhost/x"}


@pytest.mark.parametrize("profile", [{"type": "RuntimeDefault"}, {"type": "Unconfined"}])
def test_profile_of_the_pod_is_annotated_for_each_container(profile: JSON) -> None:
    pod = created("1.33", securityContext={"appArmorProfile": profile})

    expected = "unconfined" if profile["type"] == "Unconfined" else "runtime/default"
    assert pod["metadata"]["annotations"] == {APP_ARMOR: expected}


@pytest.mark.parametrize(
    ("release", "expected"), [("1.33", "when `pod.Spec.HostUsers` is false"), ("1.34", "when `hostUsers` is false")]
)
def test_pod_with_users_of_its_own_shares_no_network(release: str, expected: str) -> None:
    with pytest.raises(StatusError) as refused:
        created(release, hostUsers=False, hostNetwork=True)

    assert refused.value.message.endswith(f"spec.hostNetwork: Forbidden: {expected}")


@pytest.mark.parametrize(
    ("release", "spec", "expected"),
    [
        pytest.param(
            "1.33",
            {"container": {"restartPolicy": "Never"}},
            "spec.containers[0].restartPolicy: Forbidden: may not be set for non-init containers",
            id="no rules of restarts yet",
        ),
        pytest.param(
            "1.33",
            {"initContainers": [{"name": "i", "image": "busybox", "restartPolicy": "Never"}]},
            'spec.initContainers[0].restartPolicy: Unsupported value: "Never": supported values: "Always"',
            id="no other init containers yet",
        ),
        pytest.param("1.33", {"os": {"name": ""}}, "spec.os.name: Required value: cannot be empty", id="old system"),
        pytest.param("1.34", {"os": {"name": ""}}, "spec.os.name: Required value", id="system"),
        pytest.param("1.33", {"dnsConfig": {"searches": ["-"]}}, f"{LABELS})*')", id="underscores that are not shown"),
        pytest.param("1.34", {"dnsConfig": {"searches": ["-"]}}, f"{UNDERSCORED})*')", id="underscores"),
        pytest.param(
            "1.29", ALIAS, 'spec.hostAliases.ip: Invalid value: "x": must be valid IP address', id="old address"
        ),
        pytest.param("1.30", ALIAS, "or 2001:db8::ffff)", id="address"),
        pytest.param("1.30", TWO_SOURCES, "may not specify more than 1 volume type", id="old source"),
        pytest.param("1.31", TWO_SOURCES, "may not specify more than 1 volume type per source", id="source"),
        pytest.param("1.31", SLEEPS, "terminationGracePeriodSeconds (30)", id="old sleep"),
        pytest.param("1.32", SLEEPS, "feature gate for zero sleep.", id="sleep"),
        pytest.param("1.29", SLEEPS, "lifecycle.preStop: Required value: must specify a handler type", id="no sleep"),
        pytest.param("1.27", HOST_IPS, "field label not supported: status.hostIPs", id="unknown addresses"),
        pytest.param("1.28", HOST_IPS, "when feature gate 'PodHostIPs' is not enabled", id="addresses without gate"),
        pytest.param("1.27", PROBED, "may not be set for init containers", id="old init container"),
        pytest.param("1.28", PROBED, "for init containers without restartPolicy=Always", id="init container"),
        pytest.param(
            "1.27",
            ON_HOST,
            "ports[0].containerPort: Invalid value: 1: must match `hostPort` when `hostNetwork` is true",
            id="old port",
        ),
        pytest.param(
            "1.28",
            ON_HOST,
            "ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true",
            id="port",
        ),
        pytest.param("1.26", DOTS, "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')", id="old dots"),
        pytest.param("1.27", DOTS, "must not contain dots", id="dots"),
        pytest.param(
            "1.26",
            ONE_POD,
            'Unsupported value: "ReadWriteOncePod": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce"',
            id="mode without its gate",
        ),
        pytest.param("1.26", OVER_LIMIT, "must be less than or equal to cpu limit", id="old limit"),
        pytest.param("1.27", OVER_LIMIT, "must be less than or equal to cpu limit of 1", id="limit"),
    ],
)
def test_pod_is_refused_in_the_words_of_the_minor(release: str, spec: JSON, expected: str) -> None:
    with pytest.raises(StatusError) as refused:
        created(release, **spec)

    assert refused.value.message.endswith(expected)


def test_policies_of_containers_are_dropped_without_the_gate_of_their_rules() -> None:
    pod = created("1.34", container={"restartPolicy": "Never"})

    assert "restartPolicy" not in pod["spec"]["containers"][0]


@pytest.mark.parametrize(("release", "is_kept"), [("1.32", True), ("1.33", False)])
def test_status_is_written_with_the_fields_of_gates_that_are_off_until_1_32(release: str, is_kept: bool) -> None:
    registry = registry_of(release)
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}
    registry.create(PODS, "default", body)
    device = {"name": "x.y/z", "resources": [{"resourceID": "a"}]}

    def reported(old: JSON) -> JSON:
        container = {"name": "c", "allocatedResourcesStatus": [device]}
        return {**old, "status": {**old["status"], "containerStatuses": [container]}}

    if is_kept:
        with pytest.raises(StatusError, match="must match one of the container's resource requests"):
            registry.update(PODS, "default", "p", reported, subresource="status")
    else:
        new = registry.update(PODS, "default", "p", reported, subresource="status")
        assert "allocatedResourcesStatus" not in new["status"]["containerStatuses"][0]


@pytest.mark.parametrize(
    ("release", "duplicates"), [("1.32", ['status.podIPs[1]: Duplicate value: "10.0.0.1"']), ("1.33", [])]
)
def test_address_that_is_there_twice_is_named_until_1_32(release: str, duplicates: list[str]) -> None:
    pod = created(release)
    addresses = [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]
    new = {**pod, "status": {**pod["status"], "podIP": "10.0.0.1", "podIPs": addresses}}
    strategy = all_strategies(Objects(WallTime(ManualClock())), version(release))["pods"]

    errors = map(str, strategy.validate_status_update(new, pod))

    assert [error for error in errors if "Duplicate" in error] == duplicates


@pytest.mark.parametrize(
    ("releases", "spec"),
    [
        pytest.param(("1.26", "1.27"), SPREAD, id="selector of a constraint"),
        pytest.param(("1.29", "1.30"), TOKEN, id="path of a token"),
        pytest.param(("1.28", "1.29"), HOST_SYSCTL, id="sysctl of the node"),
        pytest.param(("1.32", "1.33"), LABEL_VALUE, id="value of a label"),
    ],
)
def test_pod_is_refused_since_a_minor(releases: tuple[str, str], spec: JSON) -> None:
    before, since = releases

    created(before, **spec)
    with pytest.raises(StatusError):
        created(since, **spec)


@pytest.mark.parametrize(
    ("release", "names_class", "fields"),
    [
        ("1.26", False, "existing tolerations) or `spec.terminationGracePeriodSeconds`"),
        ("1.28", False, "existing tolerations),`spec.terminationGracePeriodSeconds`"),
        ("1.29", True, "existing tolerations),`spec.terminationGracePeriodSeconds`"),
        ("1.31", True, "existing tolerations),`spec.terminationGracePeriodSeconds`"),
        ("1.32", False, "existing tolerations),`spec.terminationGracePeriodSeconds`"),
    ],
)
def test_update_of_resources_is_refused_in_the_words_of_the_minor(release: str, names_class: bool, fields: str) -> None:
    old = created(release)
    container = {**old["spec"]["containers"][0], "resources": {"requests": {"cpu": "1"}}}
    new = {**old, "spec": {**old["spec"], "containers": [container]}}
    strategy = all_strategies(Objects(WallTime(ManualClock())), version(release))["pods"]

    *first, last = map(str, strategy.validate_update(new, old))

    assert first == (['metadata: Invalid value: "Burstable": Pod QoS is immutable'] if names_class else [])
    assert fields in last


@pytest.mark.parametrize(("release", "is_refused"), [("1.31", False), ("1.32", True)])
def test_class_of_service_is_immutable_since_1_32(release: str, is_refused: bool) -> None:
    old = created(release)
    new = {**old, "status": {**old["status"], "qosClass": "Guaranteed"}}
    strategy = all_strategies(Objects(WallTime(ManualClock())), version(release))["pods"]

    assert bool(strategy.validate_status_update(new, old)) is is_refused


@pytest.mark.parametrize(("release", "port"), [("1.27", 80), ("1.28", None)])
def test_ports_of_templates_are_those_of_the_node_until_1_27(release: str, port: int | None) -> None:
    objects = Objects(WallTime(ManualClock()))
    container = {"name": "c", "image": "busybox", "ports": [{"containerPort": 80}]}
    new = {"metadata": {}, "spec": {"template": {"spec": {"hostNetwork": True, "containers": [container]}}}}

    all_strategies(objects, version(release))["daemonsets.apps"].default(new)

    assert new["spec"]["template"]["spec"]["containers"][0]["ports"][0].get("hostPort") == port


@pytest.mark.parametrize(("release", "part"), [("1.32", "metadata"), ("1.33", "status")])
def test_wrong_condition_is_named_as_by_the_minor(release: str, part: str) -> None:
    old = created(release)
    new = {**old, "status": {**old["status"], "conditions": [{"type": "-", "status": "True"}]}}
    strategy = all_strategies(Objects(WallTime(ManualClock())), version(release))["pods"]

    assert [error.path for error in strategy.validate_status_update(new, old)] == [f"{part}.conditions[0].Type"]
