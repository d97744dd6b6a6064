from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster import Objects, Store, WallTime
from simkubelet.cluster.api.errors import GroupName, StatusError
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import DeleteOptions, Registry
from simkubelet.cluster.objects.objects import JSON, Key
from simkubelet.cluster.strategies.pods import PodStrategy
from simkubelet.cluster.strategies.table import all_strategies, server_rules
from simkubelet.model.clock import ManualClock
from simkubelet.model.version import DYNAMIC_RESOURCES, version

PODS = kind_named("pods")
# What the functions ValidatePodCreate and ValidatePodUpdate of kubernetes v1.34.4 say, the diff of an update left out.
REFUSED = [json.loads(line) for line in (Path(__file__).parent / "refused_pods.jsonl").read_text().splitlines()]


@pytest.fixture
def registry() -> Registry:
    return registry_of("1.34")


def registry_of(release: str, gates: dict[str, bool] | None = None) -> Registry:
    objects = Objects(WallTime(ManualClock()))
    objects.create(Key("namespaces", "", "default"), {"metadata": {}})
    objects.create(Key("serviceaccounts", "default", "default"), {"metadata": {}})
    return Registry(objects, all_strategies(objects, version(release), gates))


def pod(**spec: Any) -> JSON:
    containers = [{"name": "c", "image": "busybox"}]
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": containers, **spec}}


def create(registry: Registry, **spec: Any) -> JSON:
    return registry.create(PODS, "default", pod(**spec))


def update(registry: Registry, change: Any, *, subresource: str = "") -> JSON:
    def changed(body: JSON) -> JSON:
        change(body)
        return body

    return registry.update(PODS, "default", "p", changed, subresource=subresource)


def strategy() -> PodStrategy:
    return PodStrategy(Objects(WallTime(ManualClock())), server_rules())


@pytest.mark.parametrize(
    ("release", "gates", "has_claims"),
    [
        ("1.33", {}, False),
        ("1.33", {DYNAMIC_RESOURCES: True}, True),
        ("1.34", {}, True),
        ("1.34", {DYNAMIC_RESOURCES: False}, False),
    ],
)
def test_claims_are_dropped_where_the_gate_is_off(release: str, gates: dict[str, bool], has_claims: bool) -> None:
    registry = registry_of(release, gates)
    container = {"name": "c", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}

    created = create(registry, containers=[container], resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}])

    assert ("resourceClaims" in created["spec"]) == has_claims
    assert ("claims" in created["spec"]["containers"][0]["resources"]) == has_claims


def test_fields_are_dropped_whose_gates_are_off_in_every_release() -> None:
    http, mount = {"path": "/", "port": 80, "protocol": "HTTP2"}, {"name": "dir", "mountPath": "/dir"}
    items, of_secret = [{"key": "k", "path": "p", "user": 1}], {"secretName": "s", "defaultUser": 1}
    container = {
        "name": "c",
        "image": "busybox",
        "livenessProbe": {"httpGet": http},
        "readinessProbe": {"grpc": {"port": 1, "mode": "TLS"}},
        "lifecycle": {"preStop": {"httpGet": http}},
        "volumeMounts": [{**mount, "bindMountOptions": ["noexec"]}],
    }
    token = {"serviceAccountToken": {"path": "t", "user": 1}}
    volumes = [
        {"name": "dir", "emptyDir": {"mode": 448}},
        {"name": "secret", "secret": {**of_secret, "items": items}},
        {
            "name": "many",
            "projected": {"defaultUser": 1, "sources": [token, {"secret": {"name": "s", "items": items}}]},
        },
    ]
    spec = create(
        registry_of("1.37"),
        containers=[container],
        volumes=volumes,
        schedulingGroup={"podGroupName": "g"},
        evictionResponders=[{"name": "example.com/x", "priority": 1}],
    )["spec"]

    (kept,), by_name = spec["containers"], {volume["name"]: volume for volume in spec["volumes"]}
    assert spec.keys().isdisjoint({"schedulingGroup", "evictionResponders"})
    assert "protocol" not in kept["livenessProbe"]["httpGet"]
    assert "protocol" not in kept["lifecycle"]["preStop"]["httpGet"]
    assert "mode" not in kept["readinessProbe"]["grpc"]
    assert kept["volumeMounts"][0] == mount
    assert by_name["dir"]["emptyDir"] == {}
    assert '"user"' not in json.dumps(by_name)
    assert "defaultUser" not in json.dumps(by_name)


@pytest.mark.parametrize(("release", "is_kept"), [("1.35", False), ("1.36", True)])
def test_status_has_resources_of_the_pod_from_1_36_on(release: str, is_kept: bool) -> None:
    registry = registry_of(release, {"ResourceHealthStatus": True})
    health = [{"resourceID": "a", "health": "Unhealthy", "message": "lost"}]
    status = {
        "resources": {"requests": {"cpu": "1"}},
        "allocatedResources": {"cpu": "1"},
        "volumeHealth": [{"volumeName": "v"}],
        "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "one", "containers": ["c"]}],
        "containerStatuses": [
            {
                "name": "c",
                "image": "busybox",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "allocatedResourcesStatus": [{"name": "example.com/x", "resources": health}],
                "volumeMounts": [{"name": "v", "mountPath": "/v", "volumeStatus": {"image": {"imageRef": "r"}}}],
            }
        ],
    }
    resources = {"limits": {"example.com/x": "1"}}
    create(registry, containers=[{"name": "c", "image": "busybox", "resources": resources}])

    written = update(registry, lambda body: body["status"].update(status), subresource="status")["status"]

    (container,) = written["containerStatuses"]
    assert ("resources" in written, "allocatedResources" in written) == (is_kept, is_kept)
    assert ("message" in container["allocatedResourcesStatus"][0]["resources"][0]) == is_kept
    assert container["volumeMounts"] == [{"name": "v", "mountPath": "/v"}]
    assert written.keys().isdisjoint({"volumeHealth", "nodeAllocatableResourceClaimStatuses"})


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        pytest.param({"plain": "x"}, "must be a domain-prefixed key", id="no domain"),
        pytest.param({"a b/c": "x"}, "prefix part a lowercase RFC 1123 subdomain", id="no label key"),
        pytest.param({"": "x"}, "userAnnotations: Required value", id="empty"),
        pytest.param({"example.com/A": "x" * (256 << 10)}, "Too long: may not be more than 262144 bytes", id="large"),
    ],
)
def test_user_annotations_of_certificates_are_checked(annotations: JSON, text: str) -> None:
    certificate = {
        "signerName": "example.com/x",
        "keyType": "ED25519",
        "keyPath": "k",
        "userAnnotations": annotations,
    }
    volumes = [{"name": "v", "projected": {"sources": [{"podCertificate": certificate}]}}]

    with pytest.raises(StatusError) as refused:
        create(registry_of("1.37"), volumes=volumes)
    assert text in str(refused.value)


def test_status_of_another_uid_is_refused(registry: Registry) -> None:
    create(registry)

    with pytest.raises(StatusError, match=r"metadata\.uid"):
        update(registry, lambda body: body["metadata"].update(uid="of-a-later-pod"), subresource="status")


def test_labels_may_be_written_along_with_the_status(registry: Registry) -> None:
    create(registry)

    written = update(
        registry, lambda body: body["metadata"].update(labels={"a": "b"}, ownerReferences=[]), subresource="status"
    )

    assert written["metadata"]["labels"] == {"a": "b"}
    assert "ownerReferences" not in written["metadata"]


WHOLE = {"requests": {"cpu": "3"}}
LIMITED = {"name": "c", "image": "busybox", "resources": {"limits": {"cpu": "3", "memory": "1Gi"}}}


@pytest.mark.parametrize(
    ("release", "limits", "memory"),
    [("1.36", None, None), ("1.37", {"cpu": "3", "memory": "1Gi"}, "1Gi")],
)
def test_limits_of_a_whole_pod_follow_from_its_containers_since_1_37(
    release: str, limits: JSON | None, memory: str | None
) -> None:
    resources = create(registry_of(release), resources=WHOLE, containers=[LIMITED])["spec"]["resources"]

    assert (resources.get("limits"), resources["requests"].get("memory")) == (limits, memory)


def test_limit_of_a_whole_pod_is_not_below_its_request() -> None:
    asked = {"requests": {"cpu": "5"}}
    made = create(registry_of("1.37"), resources=asked, containers=[LIMITED])
    assert made["spec"]["resources"]["limits"] == {"cpu": "5", "memory": "1Gi"}


def test_update_that_leaves_out_the_resources_of_a_whole_pod_keeps_them_since_1_37() -> None:
    registry = registry_of("1.37")
    made = create(registry, resources=WHOLE, containers=[LIMITED])

    kept = update(registry, lambda body: body["spec"].pop("resources"))

    assert kept["spec"]["resources"] == made["spec"]["resources"]
    with pytest.raises(StatusError, match="pod updates may not change fields"):
        update(registry, lambda body: body["spec"]["resources"].pop("limits"))
    before = registry_of("1.36")
    create(before, resources=WHOLE, containers=[LIMITED])
    with pytest.raises(StatusError, match="pod updates may not change fields"):
        update(before, lambda body: body["spec"].pop("resources"))


TERM = {"topologyKey": "k"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def container(**fields: Any) -> JSON:
    return {"containers": [{"name": "c", "image": "busybox", **fields}]}


def volume(**source: Any) -> JSON:
    return {"volumes": [{"name": "v", **source}]}


# Each was asked of the real strategies of 1.26, 1.31, 1.34 and 1.37.
@pytest.mark.parametrize(
    ("empty", "without", "is_the_same"),
    [
        pytest.param(container(lifecycle={}), container(), False, id="lifecycle"),
        pytest.param(container(securityContext={}), container(), False, id="security context"),
        pytest.param(
            container(securityContext={"privileged": False, "capabilities": {}}),
            container(securityContext={"privileged": False}),
            False,
            id="capabilities",
        ),
        pytest.param({"securityContext": {"seLinuxOptions": {}}}, {}, False, id="SELinux"),
        pytest.param({"securityContext": {}}, {}, True, id="security context of a pod, by default"),
        pytest.param(container(resources={}), container(), True, id="resources"),
        pytest.param({"nodeSelector": {}}, {}, True, id="map"),
        pytest.param({"nodeSelector": {"disk": ""}}, {}, False, id="map with an empty text"),
        pytest.param({"tolerations": []}, {}, True, id="list"),
        pytest.param(
            {
                "affinity": {
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**TERM, "labelSelector": {}}]}
                }
            },
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
            False,
            id="selector of all",
        ),
        pytest.param(
            volume(ephemeral={"volumeClaimTemplate": {"spec": {**CLAIM, "selector": {}}}}),
            volume(ephemeral={"volumeClaimTemplate": {"spec": CLAIM}}),
            False,
            id="selector of a claim",
        ),
    ],
)
@pytest.mark.parametrize("release", ["1.26", "1.37"])
def test_object_without_a_field_is_none_only_where_it_is_no_pointer(
    release: str, empty: JSON, without: JSON, is_the_same: bool
) -> None:
    for first, then in ((empty, without), (without, empty)):
        registry = registry_of(release)
        create(registry, **copy.deepcopy(first))
        spec = registry_of(release).create(PODS, "default", pod(**copy.deepcopy(then)))["spec"]
        if is_the_same:
            update(registry, lambda body, spec=spec: body.update(spec=spec))
        else:
            with pytest.raises(StatusError, match="pod updates may not change fields"):
                update(registry, lambda body, spec=spec: body.update(spec=spec))


@pytest.mark.parametrize(("release", "is_kept"), [("1.36", False), ("1.37", True)])
def test_status_without_claims_keeps_them_since_1_37(release: str, is_kept: bool) -> None:
    registry = registry_of(release)
    create(registry, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    claims = [{"name": "gpu", "resourceClaimName": "made"}]
    update(registry, lambda body: body["status"].update(resourceClaimStatuses=claims), subresource="status")

    written = update(registry, lambda body: body["status"].pop("resourceClaimStatuses"), subresource="status")

    assert written["status"].get("resourceClaimStatuses") == (claims if is_kept else None)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["message"][:60])
def test_pod_is_refused_with_the_api_servers_text(case: JSON) -> None:
    rules, new, old = strategy(), {**pod(), "spec": case["spec"]}, {**pod(), "spec": case.get("old", {})}
    rules.default(new)
    if "old" in case:
        rules.default(old)
        errors = rules.validate_update(new, old)
    else:
        errors = rules.validate(new)
    message = StatusError.invalid(GroupName("", "Pod"), "p", errors).message if errors else ""
    assert message.split("\n")[0] == case["message"]


def test_update_that_is_refused_shows_what_would_change(registry: Registry) -> None:
    create(registry)
    with pytest.raises(StatusError) as refused:
        update(registry, lambda body: body["spec"].update(nodeName="n"))
    assert refused.value.code == 422
    assert '+ "nodeName": "n",' in refused.value.message


def test_many_tolerations_that_stay_cost_no_comparison_of_each_with_each(registry: Registry) -> None:
    many = [{"key": f"k{number}", "operator": "Exists"} for number in range(10_000)]
    create(registry, tolerations=many)

    began = time.process_time()
    update(registry, lambda body: body["metadata"].update(labels={"a": "b"}))

    assert time.process_time() - began < 5.0


MANY = 10_000
CLAIMS = [{"name": f"r{number}", "resourceClaimName": "one"} for number in range(MANY)]


def using(claims: list[str], name: str = "c") -> JSON:
    return {"name": name, "image": "busybox", "resources": {"claims": [{"name": claim} for claim in claims]}}


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        pytest.param({"containers": [using([f"r{n}" for n in range(MANY)])]}, range(1), id="uses"),
        pytest.param({"containers": [using([], f"c{n}") for n in range(5_000)]}, range(1), id="containers"),
        pytest.param({"containers": [using([f"none{n}" for n in range(MANY)])]}, range(10, 1000), id="unknown"),
        pytest.param(
            {"containers": [using(["no"], f"c{n}") for n in range(5_000)]}, range(10, 1000), id="unknown once"
        ),
    ],
)
def test_many_claims_cost_no_comparison_of_each_with_each(spec: JSON, errors: range) -> None:
    rules, new = strategy(), pod(resourceClaims=CLAIMS, **spec)
    rules.default(new)

    began = time.process_time()
    refusal = StatusError.invalid(GroupName("", "Pod"), "p", rules.validate(new)).status()

    assert time.process_time() - began < 5.0
    assert len(refusal["details"]["causes"]) in errors


@pytest.mark.parametrize("known", [0, MANY], ids=["new", "known"])
def test_large_status_costs_no_comparison_of_each_with_each(registry: Registry, known: int) -> None:
    addresses = [{"ip": f"::{number:x}"} for number in range(4 * MANY)]
    devices = [{"name": f"claim:r{number}"} for number in range(MANY)]
    rules, old = strategy(), pod(resourceClaims=CLAIMS, containers=[using([f"r{n}" for n in range(MANY)])])
    rules.default(old)
    old["status"] = {"podIPs": addresses[:known]}
    status = {"podIPs": addresses[::-1], "containerStatuses": [{"name": "c", "allocatedResourcesStatus": devices}]}

    began = time.process_time()
    errors = rules.validate_status_update({**old, "status": status}, old)

    assert time.process_time() - began < 5.0
    assert [error.path for error in errors] == ["status.podIPs"]


def test_large_update_that_is_refused_shows_its_first_lines(registry: Registry) -> None:
    def env(first: int) -> list[JSON]:
        return [{"name": f"E{first + number}", "value": "x" * (number % 7)} for number in range(10_000)]

    create(registry, containers=[{"name": "c", "image": "busybox", "env": env(0)}])

    began = time.process_time()
    with pytest.raises(StatusError) as refused:
        update(registry, lambda body: body["spec"]["containers"][0].update(env=env(5)))

    assert time.process_time() - began < 5.0
    assert len(refused.value.message) < 50_000
    assert '-     "name": "E0",' in refused.value.message


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ({}, "lifecycle.preStop: Required value: must specify a handler type"),
        (
            {"exec": {"command": ["a"]}, "sleep": {"seconds": 1}},
            "lifecycle.preStop.sleep: Forbidden: may not specify more than 1 handler type",
        ),
    ],
)
def test_hook_of_a_container_has_one_handler(registry: Registry, hook: JSON, message: str) -> None:
    container = {"name": "c", "image": "busybox", "lifecycle": {"preStop": hook}}
    with pytest.raises(StatusError, match=message):
        create(registry, containers=[container])


def test_update_without_the_tolerations_of_admission_gets_them_again(registry: Registry) -> None:
    before = create(registry)["spec"]["tolerations"]
    own = {"key": "a", "operator": "Exists"}

    after = update(registry, lambda body: body["spec"].update(tolerations=[own]))

    assert after["spec"]["tolerations"] == [own, *before]


@pytest.mark.parametrize("kind", ["limits", "requests"])
def test_quantity_that_is_none_is_a_bad_request(registry: Registry, kind: str) -> None:
    container = {"name": "c", "image": "x", "resources": {kind: {"cpu": "much"}}}
    with pytest.raises(StatusError) as refused:
        create(registry, containers=[container])
    assert refused.value.code == 400
    assert refused.value.message == (
        'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression '
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


def test_created_pod_has_all_that_the_server_fills_in(registry: Registry) -> None:
    created = create(registry)
    assert created["metadata"]["generation"] == 1
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    spec = created["spec"]
    assert [each["tolerationSeconds"] for each in spec["tolerations"]] == [300, 300]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert spec["containers"][0]["imagePullPolicy"] == "Always"


def test_label_keys_become_requirements_about_the_pods_own_labels(registry: Registry) -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {},
        "matchLabelKeys": ["app"],
        "mismatchLabelKeys": ["tier", "none"],
    }
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"]}
    body = pod(
        affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        topologySpreadConstraints=[{**spread, "labelSelector": {"matchLabels": {"a": "b"}}}],
    )
    body["metadata"]["labels"] = {"app": "web", "tier": "front"}
    spec = registry.create(PODS, "default", body)["spec"]
    (about,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    same = {"key": "app", "operator": "In", "values": ["web"]}
    other = {"key": "tier", "operator": "NotIn", "values": ["front"]}
    assert about["labelSelector"] == {"matchExpressions": [same, other]}
    (constraint,) = spec["topologySpreadConstraints"]
    assert constraint["labelSelector"] == {"matchLabels": {"a": "b"}, "matchExpressions": [same]}


def test_status_of_a_new_pod_is_the_servers(registry: Registry) -> None:
    created = registry.create(PODS, "default", {**pod(), "status": {"phase": "Running"}})
    assert created["status"]["phase"] == "Pending"


def test_gated_pod_says_that_it_waits(registry: Registry) -> None:
    (condition,) = create(registry, schedulingGates=[{"name": "a.b/c"}])["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")


def test_service_account_that_is_not_there_is_forbidden(registry: Registry) -> None:
    with pytest.raises(StatusError) as refused:
        create(registry, serviceAccountName="robot")
    assert refused.value.code == 403
    assert refused.value.message == (
        'pods "p" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found'
    )


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "high"}, "no PriorityClass with name high was found"),
        (
            {"priority": 7},
            "the integer value of priority (7) must not be provided in pod spec; priority admission controller "
            "computed 0 from the given PriorityClass name",
        ),
    ],
)
def test_priority_that_no_class_gives_is_forbidden(registry: Registry, spec: JSON, why: str) -> None:
    with pytest.raises(StatusError) as refused:
        create(registry, **spec)
    assert refused.value.message == f'pods "p" is forbidden: {why}'


def test_priority_comes_from_the_class(registry: Registry) -> None:
    registry.objects.create(
        Key("priorityclasses.scheduling.k8s.io", "", "high"), {"value": 10, "preemptionPolicy": "Never"}
    )
    spec = create(registry, priorityClassName="high")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (10, "Never")


def test_pod_without_class_has_the_default_one(registry: Registry) -> None:
    registry.objects.create(Key("priorityclasses.scheduling.k8s.io", "", "usual"), {"value": 3, "globalDefault": True})
    spec = create(registry)["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 3)


def test_image_may_change_and_makes_a_generation(registry: Registry) -> None:
    create(registry)
    assert (
        update(registry, lambda body: body["spec"]["containers"][0].update(image="other"))["metadata"]["generation"]
        == 2
    )
    assert update(registry, lambda body: body["metadata"].update(labels={"l": "1"}))["metadata"]["generation"] == 2


def test_update_leaves_the_status_alone(registry: Registry) -> None:
    create(registry)
    assert update(registry, lambda body: body["status"].update(phase="Failed"))["status"]["phase"] == "Pending"


def test_update_of_the_status_leaves_all_else_alone(registry: Registry) -> None:
    create(registry)

    def change(body: JSON) -> None:
        body["spec"]["nodeName"] = "n"
        body["status"] = {"phase": "Running"}

    stored = update(registry, change, subresource="status")
    assert "nodeName" not in stored["spec"]
    assert stored["status"] == {"phase": "Running", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("policy", "code", "is_refused"),
    [("Never", 0, True), ("Never", 1, True), ("OnFailure", 0, True), ("OnFailure", 1, False), ("Always", 0, False)],
)
def test_container_that_is_not_to_run_again_stays_ended(
    registry: Registry, policy: str, code: int, is_refused: bool
) -> None:
    create(registry, restartPolicy=policy)

    def state(state: JSON) -> Any:
        return lambda body: body["status"].update(containerStatuses=[{"name": "c", "state": state}])

    update(registry, state({"terminated": {"exitCode": code}}), subresource="status")
    if not is_refused:
        update(registry, state({"running": {}}), subresource="status")
        return
    with pytest.raises(StatusError) as refused:
        update(registry, state({"running": {}}), subresource="status")
    assert refused.value.message == (
        'Pod "p" is invalid: status.containerStatuses[0].state: Forbidden: '
        "may not be transitioned to non-terminated state"
    )


def test_health_of_a_resource_that_was_not_asked_for_is_refused() -> None:
    registry = registry_of("1.34", {"ResourceHealthStatus": True})
    create(registry)
    health = {"name": "nvidia.com/gpu", "resources": [{"resourceID": "a", "health": "Healthy"}]}
    status = {"name": "c", "allocatedResourcesStatus": [health]}
    with pytest.raises(StatusError, match="must match one of the container's resource requests"):
        update(registry, lambda body: body["status"].update(containerStatuses=[status]), subresource="status")


@pytest.mark.parametrize(
    ("spec", "phase", "requested", "expected"),
    [
        ({}, "Pending", None, 0),
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", 0, 0),
        ({"nodeName": "n"}, "Succeeded", 5, 0),
        ({"nodeName": "n"}, "Failed", None, 0),
    ],
)
def test_grace_is_for_pods_that_run_on_a_node(spec: JSON, phase: str, requested: int | None, expected: int) -> None:
    rules, body = strategy(), pod(**spec)
    rules.default(body)
    assert rules.grace_s({**body, "status": {"phase": phase}}, requested) == expected


def test_deletion_begins_where_a_node_has_the_pod(registry: Registry) -> None:
    create(registry, nodeName="n")
    stored, is_gone = registry.delete(PODS, "default", "p")
    assert not is_gone
    assert stored["metadata"]["deletionGracePeriodSeconds"] == 30
    _, is_gone = registry.delete(PODS, "default", "p", DeleteOptions(grace_s=0))
    assert is_gone


def test_store_and_api_server_make_the_same_pod(registry: Registry) -> None:
    resources = {"limits": {"cpu": 0.5, "nvidia.com/gpu": 1}}
    body = pod(containers=[{"name": "c", "image": "x", "resources": resources}])
    objects = Objects(WallTime(ManualClock()))
    by_store = Store(objects, lambda event: None).create_pod(body).manifest
    by_api = registry.create(PODS, "default", body)
    assert by_store["spec"] == by_api["spec"]
    assert by_store["status"] == by_api["status"]


amounts = st.sampled_from(["1", "500m", "1Gi", "0.5", "2k"])
names = st.sampled_from(["cpu", "memory", "nvidia.com/gpu"])
requirements = st.fixed_dictionaries({}, optional={"limits": st.dictionaries(names, amounts)})


@given(st.lists(requirements, min_size=1, max_size=3), st.booleans())
def test_defaults_of_a_pod_with_defaults_change_nothing(resources: list[JSON], on_host: bool) -> None:
    containers = [
        {"name": f"c{n}", "image": "x", "resources": each, "ports": [{"containerPort": n + 1}]}
        for n, each in enumerate(resources)
    ]
    rules, body = strategy(), pod(containers=containers, hostNetwork=on_host)
    rules.default(body)
    once = json.dumps(body)
    rules.default(body)
    assert json.dumps(body) == once
