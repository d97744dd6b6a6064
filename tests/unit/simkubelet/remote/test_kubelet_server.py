"""The HTTPS API of a joined node's kubelet, as the API server calls it; `Reviewer` is the API server that it asks."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from simkubelet.kubelet import Kubelet
from simkubelet.model.errors import InputError
from simkubelet.remote import ApiClient, ServerAccess, kubelet_ports, serving_kubelets
from simkubelet.runtime.process_container import container_log
from tests.support.remote import NODE, Joined, pod_manifest
from tools.control_plane import Authority

USER = "kube-apiserver-kubelet-client"


class Reviewer:
    """An API server that decides what clients may do.

    Attributes:
        status: of its answers.
        is_allowed: what it decides.
        asked: the reviews so far.
    """

    def __init__(self) -> None:
        self.status = 201
        self.is_allowed = True
        self.asked: list[Any] = []

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ApiClient]:
        """Serve, and give a client."""
        app = web.Application()
        app.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            async with ApiClient(ServerAccess(f"http://127.0.0.1:{runner.addresses[0][1]}")) as client:
                yield client
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.asked.append(review["spec"])
        return web.json_response({**review, "status": {"allowed": self.is_allowed}}, status=self.status)


class Node:
    """A node and a client of its kubelet.

    Attributes:
        kubelet: the node's.
        authority: of the certificates of clients.
        complaints: what the user of the node was told.
        serving: its end ends the kubelet's API.
    """

    def __init__(self, joined: Joined, kubelet: Kubelet, authority: Authority, url: str) -> None:
        self.joined = joined
        self.kubelet = kubelet
        self.authority = authority
        self.complaints: list[str] = []
        self.serving = AsyncExitStack()
        self._url = url

    async def run(self, name: str, output: bytes, **spec: Any) -> Path:
        """Run a pod whose container has written something, and return where it goes on."""
        await self.joined.create("pods", pod_manifest(name, **spec))
        await self.joined.server.until(lambda: self.joined.server.phase(name) == "Running")
        uid = self.joined.server.pod(name)["metadata"]["uid"]
        log = container_log(self.kubelet.container_logs, f"default_{name}_{uid}", "main", 0)
        log.parent.mkdir(parents=True)
        log.write_bytes(output)
        return log

    @asynccontextmanager
    async def get(
        self, path: str, user: str | None = USER, method: str = "GET"
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Ask the kubelet as a user with a certificate, or without one."""
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        if user is not None:
            tls.load_cert_chain(*self.authority.sign(user, user, "system:masters"))
        async with aiohttp.ClientSession() as session, session.request(method, self._url + path, ssl=tls) as response:
            yield response

    async def answer(self, path: str, user: str | None = USER, method: str = "GET") -> tuple[int, str]:
        """Return the status and the text of an answer."""
        async with self.get(path, user, method) as response:
            return response.status, await response.text()


@pytest.fixture
def reviewer() -> Reviewer:
    return Reviewer()


@pytest.fixture
async def node(joined: Joined, reviewer: Reviewer, short_folder: Path, tmp_path: Path) -> AsyncIterator[Node]:
    with kubelet_ports("127.0.0.1", [NODE]) as ports:
        async with reviewer.client() as client, joined.kubelet(short_folder) as kubelet:
            url = f"https://127.0.0.1:{ports[NODE].getsockname()[1]}"
            node = Node(joined, kubelet, Authority(tmp_path), url)
            authority, kubelets = node.authority.path.read_text(), {NODE: kubelet}
            serving = serving_kubelets(ports, authority, client, joined.cluster, kubelets, node.complaints.append)
            async with node.serving:
                await node.serving.enter_async_context(serving)
                yield node


LOG = "/containerLogs/default/pod/main"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("", "one\ntwo\nthree\n", id="all"),
        pytest.param("?tailLines=1", "three\n", id="last line"),
        pytest.param("?tail=2", "two\nthree\n", id="former name"),
        pytest.param("?tail=all", "one\ntwo\nthree\n", id="former name of all"),
        pytest.param("?limitBytes=5", "one\nt", id="first bytes"),
        pytest.param("?sinceTime=2999-01-01T00:00:00Z", "", id="nothing since then"),
    ],
)
async def test_output_is_what_is_asked_for(node: Node, query: str, expected: str) -> None:
    await node.run("pod", b"one\ntwo\nthree\n")

    assert await node.answer(LOG + query) == (200, expected)


async def test_followed_output_ends_with_the_container(node: Node) -> None:
    log = await node.run("pod", b"", restartPolicy="Never")

    async with node.get(f"{LOG}?follow=true") as response:
        # The answer has begun before anything is written.
        assert response.status == 200
        with log.open("ab") as file:
            file.write(b"later\n")
        assert await response.content.readline() == b"later\n"
        await node.kubelet.complete("pod", "main")
        assert await response.content.read() == b""


async def test_followed_output_ends_with_the_server(node: Node) -> None:
    await node.run("pod", b"one\n")

    async with node.get(f"{LOG}?follow=true") as response:
        assert await response.content.readline() == b"one\n"
        await asyncio.gather(node.serving.aclose(), response.content.read())
        assert response.content.at_eof()


async def test_client_without_a_certificate_is_unauthorized(node: Node, reviewer: Reviewer) -> None:
    await node.run("pod", b"secret\n")

    assert await node.answer(LOG, user=None) == (401, "Unauthorized")
    assert reviewer.asked == []


async def test_client_of_another_authority_does_not_come_in(node: Node, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    node.authority = Authority(folder)

    with pytest.raises(aiohttp.ClientError):
        await node.answer(LOG)


async def test_api_server_decides_by_user_and_node(node: Node, reviewer: Reviewer) -> None:
    await node.run("pod", b"secret\n")
    reviewer.is_allowed = False

    answer = await node.answer(LOG, user="somebody")

    assert answer == (403, "Forbidden (user=somebody, verb=get, resource=nodes, subresource(s)=[proxy])\n")
    assert reviewer.asked == [
        {
            "user": "somebody",
            "groups": ["system:masters", "system:authenticated"],
            "resourceAttributes": {
                "verb": "get",
                "version": "v1",
                "resource": "nodes",
                "subresource": "proxy",
                "name": NODE,
            },
        }
    ]


async def test_user_learns_why_the_api_server_decides_nothing(node: Node, reviewer: Reviewer) -> None:
    reviewer.status = 403

    answer = await node.answer(LOG)

    assert answer == (500, f"Authorization error (user={USER}, verb=get, resource=nodes, subresource=proxy)")
    assert node.complaints == [f"{NODE}: the API server does not say what {USER} may do at kubelets: Forbidden"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/healthz", (200, "ok"), id="health"),
        pytest.param("/containerLogs/default/none/main", (404, 'pod "none" does not exist'), id="no pod"),
        pytest.param("/containerLogs/other/pod/main", (404, 'pod "pod" does not exist'), id="other namespace"),
        pytest.param(
            "/containerLogs/default/pod/none", (404, 'container "none" not found in pod "pod"'), id="no container"
        ),
        pytest.param(f"{LOG}?tailLines=-1", (422, '{"message": "Invalid request."}'), id="invalid option"),
        pytest.param(f"{LOG}?tailLines=x", (400, '{"message": "Unable to decode query."}'), id="no number"),
        pytest.param(
            f"{LOG}?previous=true",
            (400, 'previous terminated container "main" in pod "pod" not found'),
            id="no previous run",
        ),
        pytest.param("/pods", (404, "404: Not Found"), id="another part of the API"),
    ],
)
async def test_refusals_have_the_kubelets_texts(node: Node, path: str, expected: tuple[int, str]) -> None:
    await node.run("pod", b"one\n")

    assert await node.answer(path) == expected


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param("/exec/default/pod/main?command=ls", "exec and cp are not simulated", id="exec"),
        pytest.param("/run/default/pod/main", "exec and cp are not simulated", id="run"),
        pytest.param("/attach/default/pod/main", "attach is not simulated", id="attach"),
        pytest.param("/portForward/default/pod", "port-forward is not simulated", id="port-forward"),
    ],
)
async def test_talking_to_containers_is_not_simulated(node: Node, path: str, words: str) -> None:
    status, text = await node.answer(path, method="POST")

    assert (status, json.loads(text)["kind"]) == (405, "Status")
    assert json.loads(text)["message"].startswith(f"simkubelet: {words}")


async def test_stopped_kubelet_does_not_answer(node: Node) -> None:
    await node.run("pod", b"one\n")
    await node.kubelet.stop()

    with pytest.raises(aiohttp.ClientConnectionError):
        await node.answer(LOG)


def test_address_of_another_machine_is_one_clear_line() -> None:
    said = r"^--address 192\.0\.2\.1: kubelets cannot listen there: .* of this machine$"
    with pytest.raises(InputError, match=said), kubelet_ports("192.0.2.1", [NODE]):
        pass
