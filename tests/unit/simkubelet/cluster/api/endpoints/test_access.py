"""Who gets in, and what the server says of itself."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest

from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import Registry
from simkubelet.cluster.api.registry.strategy import Strategy
from simkubelet.cluster.controllers.namespaces import NamespaceController
from simkubelet.cluster.objects.objects import JSON, Key, Objects
from tests.support.patience import LIMIT_S

from ..conftest import Client, ScriptedLogs


@pytest.fixture
async def locked(objects: Objects, rules: Mapping[str, Strategy], logs: ScriptedLogs) -> AsyncIterator[ApiServer]:
    server = ApiServer(objects, rules, logs=logs)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def open_to_all(objects: Objects, rules: Mapping[str, Strategy], logs: ScriptedLogs) -> AsyncIterator[ApiServer]:
    server = ApiServer(objects, rules, logs=logs, plain=True)
    await server.start()
    yield server
    await server.stop()


def trusting(server: ApiServer) -> ssl.SSLContext:
    authority = server.kubeconfig()["clusters"][0]["cluster"]["certificate-authority-data"]
    return ssl.create_default_context(cadata=base64.b64decode(authority).decode())


async def asked(server: ApiServer, path: str, token: str | None = None) -> tuple[int, str]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(ssl=trusting(server))
    async with (
        aiohttp.ClientSession(server.url, connector=connector) as session,
        session.get(path, headers=headers) as response,
    ):
        body = await response.json() if response.content_type == "application/json" else {}
        return response.status, body.get("message", "")


async def test_kubeconfig_lets_in(locked: ApiServer) -> None:
    token = locked.kubeconfig()["users"][0]["user"]["token"]
    assert (await asked(locked, "/api/v1/pods", token))[0] == 200


async def test_connection_takes_little_memory(locked: ApiServer) -> None:
    token = locked.kubeconfig()["users"][0]["user"]["token"]
    connector = aiohttp.TCPConnector(ssl=trusting(locked))
    headers = {"Authorization": f"Bearer {token}"}
    count = 10
    tracemalloc.start()
    try:
        async with aiohttp.ClientSession(locked.url, connector=connector, headers=headers) as session:
            watches = [await session.get("/api/v1/pods", params={"watch": "1"})]
            before, _ = tracemalloc.get_traced_memory()
            watches += [await session.get("/api/v1/pods", params={"watch": "1"}) for _ in range(count)]
            after, _ = tracemalloc.get_traced_memory()
            for watch in watches:
                watch.close()
    finally:
        tracemalloc.stop()
    both_sides_kib = (after - before) / count / 1024
    assert both_sides_kib < 200


async def test_watch_ends_when_its_client_has_gone(
    locked: ApiServer, objects: Objects, caplog: pytest.LogCaptureFixture
) -> None:
    token = locked.kubeconfig()["users"][0]["user"]["token"]
    connector, headers = aiohttp.TCPConnector(ssl=trusting(locked)), {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(locked.url, connector=connector, headers=headers) as session:
        others = asyncio.all_tasks()
        watch = await session.get("/api/v1/configmaps", params={"watch": "1"})
        objects.create(Key("configmaps", "default", "first"), {})
        await asyncio.wait_for(watch.content.readline(), LIMIT_S)
        for number in range(100):
            objects.create(Key("configmaps", "default", f"c{number}"), {})
        assert watch.connection is not None
        assert watch.connection.transport is not None
        # The server learns it from what it writes: that the other side takes nothing more.
        watch.connection.transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        _, lasting = await asyncio.wait(asyncio.all_tasks() - others, timeout=LIMIT_S)
        watch.close()
    assert lasting == set()
    assert [record.message for record in caplog.records] == []


async def test_wrong_token_is_unauthorized(locked: ApiServer) -> None:
    assert await asked(locked, "/api/v1/pods", "guess") == (401, "Unauthorized")


async def test_nobody_may_see_only_health_and_version(locked: ApiServer) -> None:
    assert (await asked(locked, "/readyz"))[0] == 200
    assert (await asked(locked, "/version"))[0] == 200
    assert await asked(locked, "/api/v1/namespaces/default/pods") == (
        403,
        'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" '
        'in the namespace "default"',
    )
    assert await asked(locked, "/apis") == (403, 'forbidden: User "system:anonymous" cannot get path "/apis"')


async def test_certificate_is_of_this_cluster_only(locked: ApiServer) -> None:
    async with aiohttp.ClientSession(locked.url) as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get("/version")


async def test_port_that_is_taken_is_an_error_and_leaves_nothing(
    locked: ApiServer, objects: Objects, logs: ScriptedLogs
) -> None:
    port = int(locked.url.rpartition(":")[2])
    other = ApiServer(objects, {}, logs=logs, port=port, plain=True)
    with pytest.raises(OSError, match="address already in use"):
        await other.start()
    await other.stop()


@pytest.mark.parametrize("line", ["GET * HTTP/1.1", "GET api HTTP/1.1", "GET /api HTTP/9.9", "nonsense"])
async def test_invalid_request_bytes_are_refused_and_not_reported(
    open_to_all: ApiServer, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(open_to_all.url.rpartition(":")[2]))
    writer.write(f"{line}\r\nHost: here\r\n\r\n".encode())
    assert (await reader.readline()).split()[1] == b"400"
    writer.close()
    assert caplog.records == []


async def first_answer(server: ApiServer, head: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(head + b"Connection: close\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), LIMIT_S)
    writer.close()
    return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "localhost:8001", "[::1]:80", "127.1.2.3"])
async def test_host_of_this_machine_is_let_in(client: Client, host: str) -> None:
    headers = {"Host": host, "Origin": f"http://{host}"}
    assert (await client.get("/version", headers=headers)).code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example"},
        {"Host": "rebound.example:8080"},
        {"Host": "127.0.0.1.rebound.example"},
        {"Host": "[::1"},
        {"Host": ""},
        {"Origin": "https://rebound.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
async def test_web_page_of_elsewhere_is_forbidden_without_tls(client: Client, headers: Mapping[str, str]) -> None:
    answer = await client.get("/api/v1/pods", headers=headers)

    ((header, value),) = headers.items()
    assert (answer.code, answer.body["kind"], answer.body["reason"]) == (403, "Status", "Forbidden")
    assert answer.body["message"] == (
        f'forbidden: {header} "{value}" is not this machine; without TLS only requests to 127.0.0.1 or localhost '
        "are answered"
    )


async def test_token_of_any_bytes_is_unauthorized(locked: ApiServer) -> None:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(locked.url.rpartition(":")[2]), ssl=trusting(locked)
    )
    writer.write(b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"401"
    writer.close()


async def test_first_line_of_a_request_may_have_a_mebibyte(client: Client) -> None:
    keys = ",".join(f"!key-{n:05}" for n in range(90_000))

    answer = await client.get(f"/api/v1/pods?labelSelector={keys}")

    assert (answer.code, answer.body["kind"]) == (200, "PodList")


@pytest.mark.parametrize("place", ["line", "header"])
async def test_head_of_more_than_a_mebibyte_is_too_large(open_to_all: ApiServer, place: str) -> None:
    long = b"x" * (1024 * 1024 + 4096)
    line, header = (long, b"") if place == "line" else (b"", long)
    head = b"GET /version?" + line + b" HTTP/1.1\r\nHost: localhost\r\nUser-Agent: " + header + b"\r\n"
    assert await first_answer(open_to_all, head) == (431, b"431 Request Header Fields Too Large")


async def test_unknown_path_is_not_found(client: Client) -> None:
    for path in ("/nothing", "/apis/example.com/v1/things", "/healthz/none", "/healthz/ping/ping"):
        answer = await client.get(path)
        assert (answer.code, answer.body) == (404, "404 page not found\n")


@pytest.mark.parametrize(
    ("subresource", "words"),
    [
        ("exec?command=sh", "exec and cp are not simulated"),
        ("attach", "attach is not simulated"),
        ("portforward", "port-forward is not simulated"),
        ("proxy/index.html", "a proxy to a pod is not simulated"),
    ],
)
async def test_streams_to_containers_are_refused_in_words(client: Client, subresource: str, words: str) -> None:
    path = f"/api/v1/namespaces/default/pods/p/{subresource}"

    for method in ("GET", "POST"):
        answer = await client.send(method, path)

        assert (answer.code, answer.body["reason"]) == (405, "MethodNotAllowed")
        assert answer.body["message"].startswith(f"simkubelet: {words}")


async def test_unknown_resource_of_a_group_is_not_found_as_a_status(client: Client) -> None:
    for path in ("/api/v1/foos", "/apis/apps/v2/daemonsets", "/api/v1/pods/name", "/api/v2"):
        answer = await client.get(path)
        assert (answer.code, answer.body["reason"], answer.body["details"]) == (404, "NotFound", {})


async def test_health_is_reported_check_by_check(client: Client) -> None:
    assert (await client.get("/livez/ping")).body == "ok"
    assert (await client.get("/readyz?verbose")).body == "[+]ping ok\nreadyz check passed\n"


async def test_what_is_only_read_is_not_written(client: Client) -> None:
    assert (await client.post("/version", {})).body["reason"] == "MethodNotAllowed"


async def test_who_is_let_in_is_the_administrator(client: Client) -> None:
    answer = await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})

    assert answer.code == 201
    assert answer.body["status"]["userInfo"]["username"] == "kubernetes-admin"


async def test_administrator_may_do_everything(client: Client) -> None:
    about: JSON = {"spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}}
    answer = await client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", about)
    assert (answer.code, answer.body["status"]) == (201, {"allowed": True})


@pytest.mark.parametrize("spec", [{}, {"resourceAttributes": {}, "nonResourceAttributes": {}}])
async def test_question_about_access_has_one_subject(client: Client, spec: JSON) -> None:
    answer = await client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": spec})
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")


async def test_each_namespace_has_the_certificate_of_the_server(
    objects: Objects, rules: Mapping[str, Strategy]
) -> None:
    registry = Registry(objects, rules)
    NamespaceController(registry, "PEM").ensure_namespaces()

    found = registry.get(kind_named("configmaps"), "kube-system", "kube-root-ca.crt")
    assert found["data"] == {"ca.crt": "PEM"}


async def test_openapi_is_there_for_kubectls_older_question(client: Client) -> None:
    accept = {"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    answer = await client.get("/openapi/v2", headers=accept)

    assert answer.headers["Content-Type"] == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert answer.body.startswith("\n\x032.0")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/pods"),
        ("PUT", "/api/v1/namespaces/default/pods"),
        ("POST", "/api/v1/namespaces/default/pods/p"),
        ("DELETE", "/api/v1/namespaces"),
        ("DELETE", "/api/v1/pods"),
        ("GET", "/api/v1/namespaces/default/bindings"),
        ("PATCH", "/api/v1/namespaces/default/pods/p/log"),
    ],
)
async def test_method_that_a_path_does_not_have(client: Client, method: str, path: str) -> None:
    answer = await client.send(method, path)
    assert (answer.code, answer.body["reason"]) == (405, "MethodNotAllowed")
    assert answer.body["message"] == "the server does not allow this method on the requested resource"


async def test_discovery_in_both_forms_says_the_same(client: Client) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    for path in ("/api", "/apis"):
        aggregated = await client.get(path, headers={"Accept": accept})
        assert aggregated.body["kind"] == "APIGroupDiscoveryList"
        assert aggregated.headers["Content-Type"].startswith("application/json;g=apidiscovery.k8s.io;v=v2")
        for group in aggregated.body["items"]:
            for version in group["versions"]:
                prefix = f"/apis/{group['metadata']['name']}" if path == "/apis" else "/api"
                old = (await client.get(f"{prefix}/{version['version']}")).body
                verbs = {one["name"]: one["verbs"] for one in old["resources"]}
                for resource in version["resources"]:
                    assert verbs.pop(resource["resource"]) == resource["verbs"]
                    for below in resource.get("subresources", ()):
                        assert verbs.pop(f"{resource['resource']}/{below['subresource']}") == below["verbs"]
                assert verbs == {}


async def test_documents_of_all_groups_have_field_validation(client: Client) -> None:
    index = (await client.get("/openapi/v3")).body["paths"]
    assert {"api/v1", "apis/apps/v1"} <= index.keys()
    for entry in index.values():
        document = (await client.get(entry["serverRelativeURL"])).body
        patches = [item["patch"] for item in document["paths"].values() if "patch" in item]
        for patch in patches:
            assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
        for path in references(document):
            assert path.removeprefix("#/components/schemas/") in document["components"]["schemas"]


async def test_documents_say_what_is_in_a_path_and_what_is_sent(client: Client) -> None:
    paths = (await client.get("/openapi/v3/apis/coordination.k8s.io/v1")).body["paths"]
    leases = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    lease = paths[f"{leases}/{{name}}"]

    assert [(one["name"], one["in"], one["required"]) for one in lease["parameters"]] == [
        ("name", "path", True),
        ("namespace", "path", True),
    ]
    assert {method: one["operationId"] for method, one in lease.items() if method != "parameters"} == {
        "get": "readCoordinationV1NamespacedLease",
        "put": "replaceCoordinationV1NamespacedLease",
        "patch": "patchCoordinationV1NamespacedLease",
        "delete": "deleteCoordinationV1NamespacedLease",
    }
    assert paths[leases]["delete"]["operationId"] == "deleteCoordinationV1CollectionNamespacedLease"
    everywhere = paths["/apis/coordination.k8s.io/v1/leases"]
    assert {method: one["operationId"] for method, one in everywhere.items()} == {
        "get": "listCoordinationV1LeaseForAllNamespaces"
    }
    bodies = {method: one["requestBody"] for method, one in lease.items() if "requestBody" in one}
    schemas = {method: {one["schema"]["$ref"] for one in body["content"].values()} for method, body in bodies.items()}
    assert schemas == {
        "put": {"#/components/schemas/io.k8s.api.coordination.v1.Lease"},
        "patch": {"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"},
        "delete": {"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"},
    }


def references(value: object) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()
