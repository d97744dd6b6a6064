"""Objects of ``resource.k8s.io`` that a story makes at a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.backends.world.device_objects import DeviceObjects, SeenSlices
from scenarios.story.verbs.pod_action import AllocateClaim, ClaimedDevice, Create, DeleteClaim, ReportConditions
from simkubelet.model.errors import InputError

LABELS = {"story": "true"}
ALLOCATE = AllocateClaim(claim="gpu", pods=("train",), devices=(ClaimedDevice(driver="dra.example.com"),))
RESULT = {"request": "device", "driver": "dra.example.com", "pool": "node", "device": "device-0"}


class Server:
    """Keeps objects by their paths; merges patches one level deep, as far as these tests go."""

    def __init__(self, *, is_known: bool = True) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, str]] = []
        self._is_known = is_known

    async def call(self, method: str, path: str, body: Any) -> dict[str, Any]:
        self.calls.append((method, path))
        place, _, query = path.partition("?")
        if not self._is_known:
            return {}
        match method:
            case "POST":
                self.objects[f"{place}/{body['metadata']['name']}"] = body
            case "PATCH":
                of = self.objects[place.removesuffix("/status")]
                for part, value in body.items():
                    of[part] = {**of[part], **value} if part == "metadata" else value
                return of
            case "DELETE":
                assert not self.objects.get(place, {"metadata": {}})["metadata"].get("finalizers")
                return self.objects.pop(place, {})
        if query:
            assert query == "labelSelector=story=true"
            return {"items": [one for name, one in self.objects.items() if name.rpartition("/")[0] == place]}
        return body or self.objects.get(place, {})


async def test_claim_is_as_a_scheduler_leaves_it() -> None:
    server = Server()

    await DeviceObjects(server.call, LABELS).allocate(ALLOCATE, {"train": "uid-1"})

    (claim,) = server.objects.values()
    assert claim["metadata"]["labels"] == LABELS
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert claim["status"] == {
        "allocation": {"devices": {"results": [RESULT]}},
        "reservedFor": [{"resource": "pods", "name": "train", "uid": "uid-1"}],
    }


async def test_claim_that_is_allocated_is_taken_back_first() -> None:
    server = Server()
    objects = DeviceObjects(server.call, LABELS)
    await objects.allocate(ALLOCATE, {})
    before = len(server.calls)

    await objects.allocate(ALLOCATE, {"train": "uid-1"})

    path = "namespaces/default/resourceclaims/gpu"
    assert server.calls[before:] == [("GET", path), ("PATCH", f"{path}/status"), ("PATCH", f"{path}/status")]
    assert [user["uid"] for user in server.objects[path]["status"]["reservedFor"]] == ["uid-1"]


async def test_what_a_story_made_is_removed_whoever_protects_it() -> None:
    server = Server()
    objects = DeviceObjects(server.call, LABELS)
    await objects.allocate(ALLOCATE, {})

    await objects.remove()

    assert server.objects == {}


async def test_server_without_the_group_is_named() -> None:
    objects = DeviceObjects(Server(is_known=False).call, LABELS)
    manifest = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    create = Create.model_validate(manifest)

    with pytest.raises(InputError, match=r"allocate claim gpu: the API server has no resource\.k8s\.io/v1"):
        await objects.allocate(ALLOCATE, {})
    with pytest.raises(InputError, match=r"create DeviceClass gpu: the API server has no resource\.k8s\.io/v1"):
        await objects.perform(create)


async def test_object_has_the_names_of_the_cluster_and_the_labels_of_the_story() -> None:
    server = Server()
    manifest = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {}}

    await DeviceObjects(server.call, LABELS).perform(
        Create.model_validate(manifest), lambda given: {**given, "spec": {"nodeName": "kind-worker"}}
    )

    (made,) = server.objects.values()
    assert made["metadata"] == {"name": "s", "labels": LABELS}
    assert made["spec"] == {"nodeName": "kind-worker"}


async def test_claim_is_deleted_by_its_name() -> None:
    server = Server()
    objects = DeviceObjects(server.call, LABELS)
    server.objects["namespaces/default/resourceclaims/gpu"] = {"metadata": {"name": "gpu"}}

    await objects.perform(DeleteClaim(claim="gpu"))

    assert server.objects == {}
    with pytest.raises(InputError, match="delete claim gpu: there is none of that name"):
        await objects.perform(DeleteClaim(claim="gpu"))


async def test_nothing_is_asked_after_a_deletion_that_a_step_does_not_wait_for() -> None:
    server = Server()
    path = "namespaces/default/resourceclaims/gpu"
    server.objects[path] = {"metadata": {"name": "gpu"}}

    await DeviceObjects(server.call, LABELS).perform(DeleteClaim(claim="gpu", waits=False))

    assert server.calls == [("DELETE", path)]


async def test_conditions_are_reported_of_all_devices_of_a_claim() -> None:
    server = Server()
    path = "namespaces/default/resourceclaims/gpu"
    devices = [{"driver": "dra.example.com", "pool": "node", "device": name} for name in ("device-0", "device-1")]
    shared = {**devices[1], "shareID": "some"}
    results = [{**devices[0], "request": "gpu"}, {**shared, "request": "gpu"}]
    server.objects[path] = {"metadata": {}, "status": {"allocation": {"devices": {"results": results}}}}

    report = ReportConditions(claim="gpu", conditions={"ready": True, "failed": False})
    await DeviceObjects(server.call, LABELS).perform(report)

    reported = server.objects[path]["status"]["devices"]
    assert [{name: part for name, part in one.items() if name != "conditions"} for one in reported] == [
        devices[0],
        shared,
    ]
    assert [[(each["type"], each["status"]) for each in one["conditions"]] for one in reported] == [
        [("ready", "True"), ("failed", "False")]
    ] * 2


async def test_conditions_need_a_claim_with_devices() -> None:
    server = Server()
    report = ReportConditions(claim="gpu", conditions={"ready": True})

    with pytest.raises(InputError, match="report conditions of claim gpu: there is none of that name"):
        await DeviceObjects(server.call, LABELS).perform(report)
    server.objects["namespaces/default/resourceclaims/gpu"] = {"metadata": {}}
    with pytest.raises(InputError, match="report conditions of claim gpu: it is not allocated"):
        await DeviceObjects(server.call, LABELS).perform(report)


def slice_of(name: str, node: str | None, driver: str, *devices: str) -> dict[str, Any]:
    on_node = {} if node is None else {"nodeName": node}
    listed = {"devices": [{"name": device} for device in devices]} if devices else {}
    return {"metadata": {"name": name}, "spec": {"driver": driver, **on_node, **listed}}


def test_slices_are_followed() -> None:
    seen = SeenSlices()
    seen.replaced([slice_of("left-over", "node-1", "old.example.com", "device-9")])
    seen.replaced(
        [
            slice_of("one", "node-1", "dra.example.com", "device-1"),
            slice_of("two", "node-1", "dra.example.com", "device-0"),
            slice_of("counters", "node-1", "other.example.com"),
            slice_of("all-nodes", None, "dra.example.com", "device-7"),
        ]
    )
    both = {"dra.example.com": ("device-0", "device-1"), "other.example.com": ()}
    assert seen.published("node-1") == both
    assert seen.published("node-2") == {}

    seen.changed(slice_of("two", "node-1", "dra.example.com"))
    seen.deleted(slice_of("counters", "node-1", "other.example.com"))
    seen.deleted(slice_of("counters", "node-1", "other.example.com"))
    assert seen.published("node-1") == {"dra.example.com": ("device-1",)}


async def test_claim_that_stays_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.backends.world.device_objects.GOES_WITHIN_S", 0.0)
    server = Server()
    await DeviceObjects(server.call, LABELS).allocate(ALLOCATE, {})
    path = "namespaces/default/resourceclaims/gpu"
    server.objects[path]["metadata"]["finalizers"] = None

    with pytest.raises(InputError, match="delete claim gpu: it is still there; delete the pods first that use it"):
        await DeviceObjects(server.call, LABELS).perform(DeleteClaim(claim="gpu"))
