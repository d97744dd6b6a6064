"""What a story writes through the API server: ``bind``, ``annotate``, ``label``, and plugins that use it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.kind.api import ClusterApi
from scenarios.backends.kind.changes import bind as bind_on_kind
from scenarios.backends.kind.changes import change_metadata as change_metadata_on_kind
from scenarios.backends.kind.changes import restore_node
from scenarios.backends.kind.daemon_set import ACCOUNT, Place, add_account, daemon_set, remove_account
from scenarios.backends.kind.image import PluginImage
from scenarios.backends.kind.pods import placed
from scenarios.backends.sim.cluster import SimCluster, check_unbound
from scenarios.evaluation.evaluation import evaluate
from scenarios.story.document import load
from scenarios.story.expectations import PodExpectation
from scenarios.story.specs import PluginSpec
from scenarios.story.verbs.pod_action import (
    AllocateClaim,
    Annotate,
    Apply,
    ClaimedDevice,
    Create,
    DeleteClaim,
    Label,
    ReportConditions,
)
from scenarios.trace.snapshot import PodView, Snapshot
from scenarios.trace.trace import Trace
from simkubelet.model.clock import ManualClock
from simkubelet.model.errors import InputError
from simkubelet.model.node import NodeStatus
from simkubelet.model.pod import Pod
from simkubelet.remote import ApiClient, read_kubeconfig

NAMES = {"node-1": "dev-control-plane"}
DEVICE = ClaimedDevice(driver="dra.example.com")


class ScriptedApi(ClusterApi):
    """An API server that answers every call with the same, and keeps what it was asked."""

    def __init__(self, **answer: Any) -> None:
        super().__init__(None)
        self.asked: list[tuple[str, str, Any]] = []
        self._answer = answer

    async def call(self, method: str, url: str, body: object = None, **options: Any) -> dict[str, Any]:
        self.asked.append((method, url, body))
        return self._answer


@pytest.fixture
async def cluster() -> SimCluster:
    cluster = SimCluster("1.34", {}, {}, False, True, ManualClock(), lambda event: None, asyncio.TaskGroup())
    spec = {"schedulerName": "mine", "containers": [{"name": "main", "image": "i"}]}
    await cluster.create_pod({"metadata": {"name": "p", "annotations": {"a": "1", "b": "2"}}, "spec": spec})
    return cluster


def pod(cluster: SimCluster) -> Pod:
    found = cluster.api.pod_named("p")
    assert found is not None
    return found


def creation(kind: str, name: str, spec: dict[str, Any]) -> Create:
    manifest = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return Create.model_validate(manifest)


async def test_claim_is_created_as_an_api_server_does(cluster: SimCluster) -> None:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    await cluster.change_device_object(creation("ResourceClaim", "mine", {"devices": {"requests": requests}}))

    (claim,) = cluster.api.objects.all_of("resourceclaims.resource.k8s.io")
    assert claim["metadata"]["namespace"] == "default"
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1


async def test_object_that_the_api_server_refuses_is_one_line(cluster: SimCluster) -> None:
    with pytest.raises(InputError) as error:
        await cluster.change_device_object(creation("DeviceClass", "gpu", {"selectors": [{}]}))

    said = 'DeviceClass.resource.k8s.io "gpu" is invalid: spec.selectors[0].cel: Required value'
    assert str(error.value) == f"create DeviceClass gpu: {said}"


async def test_claim_is_gone_when_it_was_deleted(tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as tasks:
        cluster = SimCluster("1.34", {}, {}, False, True, ManualClock(), lambda event: None, tasks)
        await cluster.start(tmp_path, {})
        await cluster.allocate_claim(AllocateClaim(claim="gpu", devices=(DEVICE,)), [])

        await cluster.change_device_object(DeleteClaim(claim="gpu"))

        assert list(cluster.api.objects.all_of("resourceclaims.resource.k8s.io")) == []
        with pytest.raises(InputError, match=r'delete claim gpu: resourceclaims.resource.k8s.io "gpu" not found'):
            await cluster.change_device_object(DeleteClaim(claim="gpu"))
        await cluster.stop()


async def served_devices(folder: Path, release: str, config: dict[str, bool]) -> list[str]:
    """The versions of resource.k8s.io that plugins of a story find."""
    async with asyncio.TaskGroup() as tasks:
        cluster = SimCluster(release, {}, config, True, False, ManualClock(), lambda event: None, tasks)
        try:
            kubeconfig = await cluster.start(folder, {})
            assert kubeconfig is not None
            async with ApiClient(read_kubeconfig(kubeconfig)) as client:
                groups = {group["name"]: group for group in (await client.get("/apis"))["groups"]}
        finally:
            await cluster.stop()
    return [one["version"] for one in groups.get("resource.k8s.io", {"versions": []})["versions"]]


async def test_plugins_find_the_versions_that_the_story_says(tmp_path: Path) -> None:
    old, none = {"resource.k8s.io/v1beta1": True}, {"resource.k8s.io/v1": False}

    assert await served_devices(tmp_path, "1.34", {}) == ["v1"]
    assert await served_devices(tmp_path, "1.34", old) == ["v1", "v1beta1"]
    assert await served_devices(tmp_path, "1.33", old) == ["v1beta1"]
    assert await served_devices(tmp_path, "1.34", none) == []


async def test_version_that_the_release_lacks_ends_the_story(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"runtimeConfig: group version resource.k8s.io/v1 that has not been"):
        await single_failure(served_devices(tmp_path, "1.33", {"resource.k8s.io/v1": True}))


async def single_failure(work: Coroutine[Any, Any, object]) -> None:
    """Raise what ended a group of tasks."""
    try:
        await work
    except* InputError as group:
        raise group.exceptions[0] from None


async def test_claim_that_a_pod_keeps_is_not_waited_for_long(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.backends.sim.device_objects.GOES_WITHIN_S", 0.0)
    await cluster.allocate_claim(AllocateClaim(claim="gpu", pods=("p",), devices=(DEVICE,)), [pod(cluster)])

    with pytest.raises(InputError, match="delete claim gpu: it is still there; delete the pods first that use it"):
        await cluster.change_device_object(DeleteClaim(claim="gpu"))


async def test_taint_rule_needs_a_release_that_has_them(cluster: SimCluster) -> None:
    spec = {"taint": {"key": "broken", "effect": "NoExecute"}}

    with pytest.raises(
        InputError, match=r"create DeviceTaintRule x: the API server has no DeviceTaintRule in resource"
    ):
        await cluster.change_device_object(creation("DeviceTaintRule", "x", spec))


async def test_conditions_are_those_of_the_claims_devices(cluster: SimCluster) -> None:
    await cluster.allocate_claim(AllocateClaim(claim="gpu", pods=("p",), devices=(DEVICE,)), [pod(cluster)])

    await cluster.change_device_object(ReportConditions(claim="gpu", conditions={"ready": True}))

    (claim,) = cluster.api.objects.all_of("resourceclaims.resource.k8s.io")
    (device,) = claim["status"]["devices"]
    assert (device["device"], device["conditions"][0]["type"]) == ("device-0", "ready")
    with pytest.raises(InputError, match=r'report conditions of claim x: resourceclaims.resource.k8s.io "x" not found'):
        await cluster.change_device_object(ReportConditions(claim="x", conditions={"ready": True}))


async def test_claim_may_stay_that_a_step_does_not_wait_for(cluster: SimCluster) -> None:
    await cluster.allocate_claim(AllocateClaim(claim="gpu", pods=("p",), devices=(DEVICE,)), [pod(cluster)])

    await cluster.change_device_object(DeleteClaim(claim="gpu", waits=False))

    (claim,) = cluster.api.objects.all_of("resourceclaims.resource.k8s.io")
    assert claim["metadata"]["deletionTimestamp"]


async def test_devices_that_a_driver_publishes(cluster: SimCluster) -> None:
    pool = {"name": "node", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "dra.example.com", "nodeName": "node-1", "pool": pool, "devices": [{"name": "device-0"}]}
    await cluster.change_device_object(creation("ResourceSlice", "node-1-devices", spec))

    assert cluster.published_devices("node-1") == {"dra.example.com": ("device-0",)}
    assert cluster.published_devices("node-2") == {}


async def test_a_pod_is_bound_once(cluster: SimCluster) -> None:
    check_unbound(pod(cluster))
    await cluster.bind(pod(cluster), "node-1")

    assert pod(cluster).node_name == "node-1"
    with pytest.raises(InputError, match="is bound to node 'node-1' already"):
        check_unbound(pod(cluster))


async def test_annotations_are_set_and_removed(cluster: SimCluster) -> None:
    await cluster.change_metadata(Annotate(pod="p", annotations={"a": None, "b": "3", "c": "4"}), pod(cluster))

    assert pod(cluster).manifest["metadata"]["annotations"] == {"b": "3", "c": "4"}


async def test_labels_of_a_node_are_set_and_removed(cluster: SimCluster) -> None:
    cluster.api.register_node("node-1", NodeStatus())

    await cluster.change_metadata(Label(node="node-1", labels={"rack": "7", "zone": "a"}), "node-1")
    await cluster.change_metadata(Label(node="node-1", labels={"rack": None, "none": None}), "node-1")

    node = cluster.api.node("node-1")
    assert node is not None
    assert (node.labels.get("zone"), node.labels.get("rack"), "none" in node.labels) == ("a", None, False)
    assert node.labels["kubernetes.io/hostname"] == "node-1"


async def test_a_node_that_is_gone_cannot_be_labelled(cluster: SimCluster) -> None:
    with pytest.raises(InputError, match="no node node-1 is there now"):
        await cluster.change_metadata(Label(node="node-1", labels={"a": "b"}), "node-1")


async def test_on_a_cluster_a_pod_is_bound_by_its_binding() -> None:
    api = ScriptedApi(status="Success")

    await bind_on_kind("p", "dev-control-plane", api)

    ((method, url, body),) = api.asked
    assert (method, url) == ("POST", "namespaces/default/pods/p/binding")
    assert body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "dev-control-plane"}


async def test_on_a_cluster_annotations_name_its_nodes() -> None:
    api = ScriptedApi(kind="Pod")

    await change_metadata_on_kind(Annotate(pod="p", annotations={"at": "node-1", "x": "y", "z": None}), NAMES, api)

    assert api.asked == [
        (
            "PATCH",
            "namespaces/default/pods/p",
            {"metadata": {"annotations": {"at": "dev-control-plane", "x": "y", "z": None}}},
        )
    ]


async def test_an_object_that_is_gone_cannot_be_changed() -> None:
    with pytest.raises(InputError, match="no pod 'p' is there now"):
        await bind_on_kind("p", "dev-control-plane", ScriptedApi())
    with pytest.raises(InputError, match="no pod p is there now"):
        await change_metadata_on_kind(Label(pod="p", labels={"a": "b"}), NAMES, ScriptedApi())


class NodeApi(ClusterApi):
    """An API server with one node, which takes merge patches of its metadata."""

    def __init__(self, **metadata: dict[str, str]) -> None:
        super().__init__(None)
        self.node: dict[str, Any] = {"metadata": {"name": "dev-control-plane", **metadata}}

    async def call(self, method: str, url: str, body: Any = None, **options: Any) -> dict[str, Any]:
        assert url == "nodes/dev-control-plane"
        if method == "PATCH":
            for part, entries in body["metadata"].items():
                merged = {**self.node["metadata"].get(part, {}), **entries}
                self.node["metadata"][part] = {key: value for key, value in merged.items() if value is not None}
        return json.loads(json.dumps(self.node))


async def test_a_node_of_a_cluster_gets_back_what_a_story_changed() -> None:
    before = {"labels": {"rack": "7", "os": "linux"}, "annotations": {"a": "1"}}
    api = NodeApi(**before)

    await change_metadata_on_kind(Label(node="node-1", labels={"rack": None, "new": "x"}), NAMES, api)
    await change_metadata_on_kind(Annotate(node="node-1", annotations={"a": "2", "b": "node-1"}), NAMES, api)
    await change_metadata_on_kind(Label(node="node-1", labels={"rack": "9", "new": None, "third": "y"}), NAMES, api)

    changed = api.node["metadata"]
    assert changed["labels"] == {"os": "linux", "rack": "9", "third": "y"}
    assert (changed["annotations"]["a"], changed["annotations"]["b"]) == ("2", "dev-control-plane")

    await restore_node(api.node, api)

    assert api.node["metadata"] == {"name": "dev-control-plane", **before}


async def test_a_node_that_no_story_changed_is_left_alone() -> None:
    api = ScriptedApi()

    await restore_node({"metadata": {"name": "dev-control-plane"}}, api)

    assert api.asked == []


def test_a_manifests_annotations_name_the_clusters_nodes() -> None:
    manifest = {"metadata": {"name": "p", "annotations": {"at": "node-1"}}, "spec": {}}

    assert placed(manifest, NAMES)["metadata"]["annotations"] == {"at": "dev-control-plane"}


def test_annotations_are_expected_one_by_one() -> None:
    view = PodView("p", "Pending", "", "", "", {}, {}, (), annotations={"a": "1"})
    wanted = PodExpectation.model_validate({"pod": "p", "annotations": {"a": "2", "b": "absent", "c": "3"}})

    found = evaluate(wanted, Snapshot({}, {"p": view}, ()), Trace())

    assert [(one.path, one.expected, one.actual) for one in found] == [
        (("annotations", "a"), "2", "1"),
        (("annotations", "c"), "3", "absent"),
    ]


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        ({"bind": {"pod": "other"}}, "no step before this one applies a pod 'other'"),
        ({"annotate": {"pod": "other", "annotations": {"a": "b"}}}, "no step before this one applies a pod 'other'"),
        ({"bind": {"pod": "p", "node": "node-9"}}, "no node 'node-9'"),
        ({"annotate": {"pod": "p", "annotations": {}}}, "at least 1 item"),
        ({"annotate": {"annotations": {"a": "b"}}}, "steps[1].annotate: needs exactly one of 'pod' and 'node'"),
        ({"label": {"pod": "p", "node": "node-1", "labels": {"a": "b"}}}, "needs exactly one of 'pod' and 'node'"),
        ({"label": {"node": "node-9", "labels": {"a": "b"}}}, "steps[1].label.node: no node 'node-9'"),
        ({"label": {"node": "node-1", "labels": {"a": "b c"}}}, "steps[1].label.labels.a: expected text of the form"),
        ({"annotate": {"node": "node-1", "annotations": {"a/b/c": ""}}}, "steps[1].annotate.annotations[a/b/c]: exp"),
    ],
)
def test_mistakes_are_reported(tmp_path: Path, step: dict[str, Any], complaint: str) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    story = tmp_path / "s.yaml"
    story.write_text(json.dumps({"name": "s", "description": "d", "steps": [{"apply": manifest}, step]}))

    with pytest.raises(InputError) as raised:
        load(story)
    assert complaint in str(raised.value)


def image() -> PluginImage:
    return PluginImage("simkubelet/plugin:1", "/usr/bin/python3", "/site")


@pytest.mark.parametrize(
    ("spec", "uses_api"),
    [
        (PluginSpec(name="p", builtin="volcano"), True),
        (PluginSpec(name="p", command=("x",), api=True), True),
        (PluginSpec(name="p", builtin="gopher"), False),
    ],
)
def test_a_plugin_that_uses_the_api_has_an_account_and_its_nodes_name(spec: PluginSpec, uses_api: bool) -> None:
    made = daemon_set(spec, Place("node-1", {}, {}, has_machine=False), image(), None)["spec"]["template"]["spec"]

    names = [variable["name"] for variable in made["containers"][0]["env"]]
    assert (made.get("serviceAccountName"), made["automountServiceAccountToken"], "NODE_NAME" in names) == (
        (ACCOUNT, True, True) if uses_api else (None, False, False)
    )


async def test_account_is_made_and_removed() -> None:
    api = ScriptedApi()

    await add_account(api, "kube-system")
    await remove_account(api, "kube-system")

    assert [(method, url.partition("?")[0].rpartition("/")[2]) for method, url, _ in api.asked] == [
        ("POST", "serviceaccounts"),
        ("POST", "clusterroles"),
        ("POST", "clusterrolebindings"),
        ("DELETE", "clusterrolebindings"),
        ("DELETE", "clusterroles"),
        ("DELETE", "serviceaccounts"),
    ]


def test_apply_takes_annotations_word_for_word() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"a/b": "c"}},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }

    assert Apply.model_validate(manifest).manifest == manifest
