"""What stands for a scheduler of the story's own: ``bind``, ``annotate``, and plugins with the API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scenarios.action import Apply
from scenarios.backends.kind.api import ClusterApi
from scenarios.backends.kind.daemon_set import ACCOUNT, Place, daemon_set
from scenarios.backends.kind.image import PluginImage
from scenarios.backends.kind.placement import placed
from scenarios.backends.kind.plugin_account import add_account, remove_account
from scenarios.backends.kind.pod_change import change_pod as change_pod_on_kind
from scenarios.backends.sim_pods import change_pod
from scenarios.document import load
from scenarios.evaluation import evaluate
from scenarios.expectation import PodExpectation
from scenarios.plugin_spec import PluginSpec
from scenarios.pod_action import Annotate, Bind
from scenarios.snapshot import PodView, Snapshot
from scenarios.trace import Trace
from simkubelet.clock import ManualClock
from simkubelet.cluster import Objects, Store, WallTime
from simkubelet.errors import InputError

NAMES = {"node-1": "dev-control-plane"}


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
def store() -> Store:
    store = Store(Objects(WallTime(ManualClock())), lambda event: None)
    spec = {"schedulerName": "mine", "containers": [{"name": "main", "image": "i"}]}
    store.create_pod({"metadata": {"name": "p", "annotations": {"a": "1", "b": "2"}}, "spec": spec})
    return store


def pod(store: Store) -> Any:
    found = store.pod_named("p")
    assert found is not None
    return found


def test_a_pod_is_bound_once(store: Store) -> None:
    change_pod(Bind(pod="p"), pod(store), "node-1", store)

    assert pod(store).node_name == "node-1"
    with pytest.raises(InputError, match="is bound to node 'node-1' already"):
        change_pod(Bind(pod="p"), pod(store), "node-1", store)


def test_annotations_are_added_and_replaced(store: Store) -> None:
    change_pod(Annotate(pod="p", annotations={"b": "3", "c": "4"}), pod(store), "", store)

    assert pod(store).manifest["metadata"]["annotations"] == {"a": "1", "b": "3", "c": "4"}


async def test_on_a_cluster_a_pod_is_bound_by_its_binding() -> None:
    api = ScriptedApi(status="Success")

    await change_pod_on_kind(Bind(pod="p"), "dev-control-plane", NAMES, api)

    ((method, url, body),) = api.asked
    assert (method, url) == ("POST", "namespaces/default/pods/p/binding")
    assert body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "dev-control-plane"}


async def test_on_a_cluster_annotations_name_its_nodes() -> None:
    api = ScriptedApi(kind="Pod")

    await change_pod_on_kind(Annotate(pod="p", annotations={"at": "node-1", "x": "y"}), "", NAMES, api)

    assert api.asked == [
        (
            "PATCH",
            "namespaces/default/pods/p",
            {"metadata": {"annotations": {"at": "dev-control-plane", "x": "y"}}},
        )
    ]


async def test_a_pod_that_is_gone_cannot_be_bound() -> None:
    with pytest.raises(InputError, match="no pod 'p' is there now"):
        await change_pod_on_kind(Bind(pod="p"), "dev-control-plane", NAMES, ScriptedApi())


def test_a_manifests_annotations_name_the_clusters_nodes() -> None:
    manifest = {"metadata": {"name": "p", "annotations": {"at": "node-1"}}, "spec": {}}

    assert placed(manifest, NAMES)["metadata"]["annotations"] == {"at": "dev-control-plane"}


def test_annotations_are_expected_one_by_one() -> None:
    view = PodView("p", "Pending", "", "", "", {}, {}, (), annotations={"a": "1"})
    wanted = PodExpectation.model_validate({"pod": "p", "annotations": {"a": "2", "b": "absent", "c": "3"}})

    found = evaluate(wanted, Snapshot({}, {"p": view}, ()), Trace())

    assert [(one.path, one.expected, one.seen) for one in found] == [
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
    ],
)
def test_mistakes_are_told(tmp_path: Path, step: dict[str, Any], complaint: str) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main"}]},
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


async def test_the_account_is_made_and_taken_away() -> None:
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
        "spec": {"containers": [{"name": "main"}]},
    }

    assert Apply.model_validate(manifest).manifest == manifest
