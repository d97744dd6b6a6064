"""Creating, updating and patching over a real connection, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import io
import json

import pytest

from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.objects.objects import JSON, Objects
from tests.support.patience import LIMIT_S

from ..conftest import CONFIG_MAPS, PODS, Client, config_map, pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
NODES = "/api/v1/nodes"


async def test_created_object_has_name_uid_version_and_who_made_it(client: Client) -> None:
    answer = await client.post(CONFIG_MAPS, config_map("made", a="1"), headers={"User-Agent": "maker/1.0"})
    metadata = answer.body["metadata"]
    assert (answer.code, answer.body["kind"], metadata["namespace"]) == (201, "ConfigMap", "default")
    assert metadata["uid"]
    assert metadata["resourceVersion"]
    (entry,) = metadata["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("maker", "Update")
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}


async def test_generate_name_gets_a_suffix(client: Client) -> None:
    body = {"metadata": {"generateName": "some-"}}
    names = [(await client.post(CONFIG_MAPS, body)).body["metadata"]["name"] for _ in range(3)]
    assert len(set(names)) == 3
    assert all(name.startswith("some-") and len(name) == 10 for name in names)


async def test_name_that_is_taken_is_refused(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("taken"))
    answer = await client.post(CONFIG_MAPS, config_map("taken"))
    assert (answer.code, answer.body["reason"]) == (409, "AlreadyExists")
    assert answer.body["message"] == 'configmaps "taken" already exists'
    assert answer.body["details"] == {"name": "taken", "kind": "configmaps"}


async def test_name_that_is_not_a_subdomain_is_refused_with_the_rule(client: Client) -> None:
    answer = await client.post(CONFIG_MAPS, config_map("Wrong_Name"))
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["message"] == (
        'ConfigMap "Wrong_Name" is invalid: metadata.name: Invalid value: "Wrong_Name": a lowercase RFC 1123 subdomain '
        "must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
        "character (e.g. 'example.com', regex used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )


async def test_absent_namespace_is_not_found(client: Client) -> None:
    answer = await client.post("/api/v1/namespaces/nowhere/configmaps", config_map("a"))
    assert (answer.code, answer.body["message"]) == (404, 'namespaces "nowhere" not found')


async def test_dry_run_stores_nothing(client: Client, objects: Objects) -> None:
    before = objects.version
    answer = await client.post(CONFIG_MAPS, config_map("tried"), params={"dryRun": "All"})
    assert answer.code == 201
    assert objects.version == before
    assert (await client.get(f"{CONFIG_MAPS}/tried")).code == 404


async def test_update_of_an_old_version_is_a_conflict(client: Client) -> None:
    old = (await client.post(CONFIG_MAPS, config_map("c", a="1"))).body
    await client.send("PUT", f"{CONFIG_MAPS}/c", config_map("c", a="2"))
    answer = await client.send("PUT", f"{CONFIG_MAPS}/c", old)
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert answer.body["message"] == (
        'Operation cannot be fulfilled on configmaps "c": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_update_that_changes_nothing_keeps_the_version(client: Client) -> None:
    first = (await client.post(CONFIG_MAPS, config_map("c", a="1"))).body
    second = (await client.send("PUT", f"{CONFIG_MAPS}/c", first)).body
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_lease_is_created_by_an_update_and_needs_its_version_afterwards(client: Client) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    assert (await client.send("PUT", f"{LEASES}/l", lease)).code == 201
    answer = await client.send("PUT", f"{LEASES}/l", lease)
    assert answer.code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.body["message"]


async def test_name_of_the_path_counts(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("a"))
    answer = await client.send("PUT", f"{CONFIG_MAPS}/a", config_map("b"))
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"] == "the name of the object (b) does not match the name on the URL (a)"


async def test_namespace_of_the_path_counts(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("a"))
    elsewhere = {"metadata": {"name": "a", "namespace": "kube-system"}}
    answer = await client.send("PUT", f"{CONFIG_MAPS}/a", elsewhere)
    assert (answer.code, answer.body["message"]) == (
        400,
        "the namespace of the object (kube-system) does not match the namespace on the request (default)",
    )
    created = await client.post(CONFIG_MAPS, {"metadata": {"name": "b", "namespace": "kube-system"}})
    assert (created.code, created.body["message"]) == (
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )


async def test_status_is_written_at_its_subresource_only(client: Client) -> None:
    await client.post(PODS, pod("p"))
    main = await client.patch(f"{PODS}/p", {"status": {"phase": "Running"}}, "merge-patch+json")
    assert "status" not in main.body
    change = {"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}}
    status = await client.patch(f"{PODS}/p/status", change, "merge-patch+json")
    assert status.body["status"] == {"phase": "Running"}
    assert "labels" not in status.body["metadata"]


async def test_extended_resource_is_added_to_a_node_as_the_documentation_says(client: Client) -> None:
    await client.post(NODES, {"metadata": {"name": "node-1"}})
    await client.patch(f"{NODES}/node-1/status", {"status": {"capacity": {"cpu": "4"}}}, "merge-patch+json")
    operation = {"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "4"}
    answer = await client.patch(f"{NODES}/node-1/status", [operation], "json-patch+json")
    assert answer.body["status"]["capacity"] == {"cpu": "4", "nvidia.com/gpu": "4"}


async def test_json_patch_whose_test_fails_is_unprocessable(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("c", a="1"))
    operation = {"op": "test", "path": "/data/a", "value": "2"}
    answer = await client.patch(f"{CONFIG_MAPS}/c", [operation], "json-patch+json")
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["message"] == "the server rejected our request due to an error in our request"


async def test_patch_of_another_type_is_unsupported(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("c"))
    answer = await client.patch(f"{CONFIG_MAPS}/c", {}, "json")
    assert (answer.code, answer.body["reason"]) == (415, "UnsupportedMediaType")


async def test_unknown_fields_are_warned_of_or_refused(client: Client) -> None:
    body = {**config_map("c"), "more": 1}
    warned = await client.post(CONFIG_MAPS, body)
    assert warned.headers["Warning"] == '299 - "unknown field \\"more\\""'
    assert "more" not in warned.body
    refused = await client.post(CONFIG_MAPS, body, params={"fieldValidation": "Strict"})
    assert (refused.code, refused.body["message"]) == (
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "more"',
    )


async def test_value_of_another_type_is_a_bad_request(client: Client) -> None:
    answer = await client.post(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": 1}})
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
    assert "cannot be handled as a ConfigMap: json: cannot unmarshal number" in answer.body["message"]


@pytest.mark.parametrize("text", [b"", b"nothing", b"[]", b"null", b'"text"', b"{"])
async def test_body_that_is_not_an_object_is_a_bad_request(client: Client, text: bytes) -> None:
    assert (await client.post(CONFIG_MAPS, text)).code == 400


async def test_quantities_are_stored_in_their_canonical_form(client: Client) -> None:
    await client.post(NODES, {"metadata": {"name": "n"}})
    body = {"status": {"capacity": {"cpu": 2, "memory": "1024Mi"}}}
    answer = await client.patch(f"{NODES}/n/status", body, "merge-patch+json")
    assert answer.body["status"]["capacity"] == {"cpu": "2", "memory": "1Gi"}


async def test_body_larger_than_three_mebibytes_is_refused(client: Client) -> None:
    answer = await client.post(CONFIG_MAPS, io.BytesIO(b" " * (3 * 1024 * 1024 + 1)))
    assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    assert answer.body["message"] == "Request entity too large: limit is 3145728"


async def test_object_larger_than_etcd_takes_is_refused_when_it_is_created_and_when_it_has_grown(
    client: Client,
) -> None:
    large = pod("large")
    large["spec"]["containers"][0]["args"] = ["x" * 100_000] * 15
    refused = pod("refused")
    refused["spec"]["containers"][0]["args"] = ["x" * 100_000] * 16

    created, answer = [await client.post(PODS, io.BytesIO(json.dumps(body).encode())) for body in (large, refused)]
    annotations = {"metadata": {"annotations": {"a": "x" * 200_000}}}
    grown = await client.patch(f"{PODS}/large", annotations, "merge-patch+json")

    assert created.code == 201
    texts = [(each.code, each.body["message"]) for each in (answer, grown)]
    assert texts == [(500, "etcdserver: request is too large")] * 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("volumes", [{"name": f"v{n}", "emptyDir": {}} for n in range(30_000)], id="short entries"),
        pytest.param("nodeSelector", {f"k{n:060}": "" for n in range(30_000)}, id="long names of a map"),
        pytest.param("schedulingGates", [{"name": f"k{n}"} for n in range(30_000)], id="long list of managed fields"),
    ],
)
async def test_all_that_etcd_stores_of_an_object_is_counted(client: Client, field: str, value: object) -> None:
    body = pod("large")
    body["spec"][field] = value

    answer = await client.post(PODS, io.BytesIO(json.dumps(body).encode()))

    assert (answer.code, answer.body["message"]) == (500, "etcdserver: request is too large")


@pytest.mark.parametrize(
    ("body", "type_", "message"),
    [
        (
            b"[" * 100_000,
            "application/json",
            "the object provided is unrecognized (must be of type ConfigMap): "
            "couldn't get version/kind; json parse error: exceeded max depth "
            f"({(b'[' * 30).hex()} ...)",
        ),
        (
            b"",
            "application/json",
            "the object provided is unrecognized (must be of type ConfigMap): "
            "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)",
        ),
        (
            b'{"data": {"at": "x"}',
            "application/json",
            "the object provided is unrecognized (must be of type ConfigMap): "
            'couldn\'t get version/kind; json parse error: unexpected end of JSON input ({"data": {"at": "x"})',
        ),
        (
            b"data: {at: 5}",
            "application/yaml",
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
    ],
)
async def test_unreadable_object_is_refused(client: Client, body: bytes, type_: str, message: str) -> None:
    answer = await client.post(CONFIG_MAPS, body, type_=type_)
    assert (answer.code, answer.body["message"]) == (400, message)


async def test_patch_that_is_too_deep_is_refused(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("c"))
    answer = await client.patch(f"{CONFIG_MAPS}/c", b'{"a":' * 50_000, "merge-patch+json")
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"data": {"a": "b"}, "binaryData": {"a": "AA=="}}, "duplicate of key present in binaryData"),
        ({"metadata": {"name": "c", "finalizers": ["mine"]}}, "neither a standard finalizer name nor"),
        ({"metadata": {"name": "c", "ownerReferences": [{}]}}, "metadata.ownerReferences.uid: Invalid value"),
    ],
)
async def test_config_map_that_is_none_is_refused(client: Client, body: JSON, message: str) -> None:
    answer = await client.post(CONFIG_MAPS, {"metadata": {"name": "c"}, **body})
    assert answer.code == 422
    assert message in answer.body["message"]


@pytest.mark.parametrize(
    ("type_", "data", "missing"),
    [
        ("kubernetes.io/tls", {"tls.crt": ""}, ["data[tls.key]"]),
        ("kubernetes.io/basic-auth", {}, ["data[username]", "data[password]"]),
        ("kubernetes.io/basic-auth", {"password": ""}, []),
        ("Opaque", {}, []),
    ],
)
async def test_secret_has_the_keys_of_its_type(client: Client, type_: str, data: JSON, missing: list[str]) -> None:
    body = {"metadata": {"name": "s"}, "type": type_, "data": data}
    answer = await client.post("/api/v1/namespaces/default/secrets", body)
    assert [cause["field"] for cause in answer.body.get("details", {}).get("causes", ())] == missing


async def test_manager_of_an_agent_in_other_bytes_is_readable(server: ApiServer) -> None:
    body = json.dumps(config_map("a", key="value")).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    writer.write(head.encode() + b"User-Agent: agent\xff\xc3\xa9" + b"x" * 200 + b"/1.0\r\n\r\n" + body)
    answer = await asyncio.wait_for(reader.read(), LIMIT_S)
    writer.close()

    made = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert made["metadata"]["managedFields"][0]["manager"] == "agent\ufffdé" + "x" * (128 - 10)


def big(data: JSON) -> io.BytesIO:
    return io.BytesIO(json.dumps({"metadata": {"name": "big"}, **data}, ensure_ascii=False).encode())


@pytest.mark.parametrize(
    ("kind", "data", "field"),
    [
        ("configmaps", {"data": {"a": "x", "b": "é" * 2**19}}, "[]"),
        ("configmaps", {"data": {"a": "x"}, "binaryData": {"b": base64.b64encode(b"x" * 2**20).decode()}}, "[]"),
        ("secrets", {"data": {"a": base64.b64encode(b"x" * (2**20 + 1)).decode()}}, "data"),
        ("secrets", {"stringData": {"a": "x" * (2**20 + 1)}}, "data"),
    ],
)
async def test_data_of_more_than_a_mebibyte_is_refused(client: Client, kind: str, data: JSON, field: str) -> None:
    answer = await client.post(f"/api/v1/namespaces/default/{kind}", big(data))

    title = {"configmaps": "ConfigMap", "secrets": "Secret"}[kind]
    assert answer.code == 422
    assert answer.body["message"] == f'{title} "big" is invalid: {field}: Too long: may not be more than 1048576 bytes'


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("configmaps", {"data": {"a": "x" * 2**20}}),
        ("configmaps", {"binaryData": {"a": base64.b64encode(b"x" * 2**20).decode()}}),
        ("secrets", {"data": {"a": base64.b64encode(b"x" * 2**20).decode()}}),
    ],
)
async def test_data_of_a_mebibyte_is_taken(client: Client, kind: str, data: JSON) -> None:
    answer = await client.post(f"/api/v1/namespaces/default/{kind}", big(data))
    assert answer.code == 201


async def test_manager_of_a_name_that_cannot_be_is_refused(client: Client) -> None:
    answer = await client.post(f"{CONFIG_MAPS}?fieldManager=%00", config_map("c"))
    assert answer.body["message"].endswith(
        'fieldManager: Invalid value: "\\x00": invalid character U+0000 (at position 0)'
    )


async def test_patch_may_say_who_manages_what(client: Client) -> None:
    await client.post(f"{CONFIG_MAPS}?fieldManager=me", config_map("c", a="b"))
    entry = {"manager": "you", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:data": {"f:a": {}}}}

    answer = await client.patch(f"{CONFIG_MAPS}/c", {"metadata": {"managedFields": [entry]}}, "merge-patch+json")

    assert [each["manager"] for each in answer.body["metadata"]["managedFields"]] == ["you"]
