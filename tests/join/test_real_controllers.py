"""What needs controllers that a simulated cluster does not have, on nodes that joined."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import aiohttp

from simkubelet.remote import ApiClient, read_kubeconfig
from tests.support.joined_nodes import PODS, eventually_so, joining, until_started
from tests.support.patience import LIMIT_S
from tools.control_plane import ControlPlane

APPS = "/apis/apps/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def template(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "busybox"}]
    return {
        "metadata": {"labels": {"app": "test"}},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 1, **spec},
    }


def workload(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "test"}}, **spec}}


async def running(client: ApiClient, nodes: str) -> list[dict[str, Any]]:
    """The pods that run on nodes of a prefix."""
    found = (await client.get(PODS))["items"]
    on_nodes = [pod for pod in found if (pod["spec"].get("nodeName") or "").startswith(nodes)]
    return [pod for pod in on_nodes if pod["status"]["phase"] == "Running"]


@asynccontextmanager
async def api(plane: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    """The API server as an administrator, for answers that are no objects."""
    access = read_kubeconfig(plane.kubeconfig)
    assert access.tls is not None
    connector = aiohttp.TCPConnector(ssl=access.tls)
    timeout = aiohttp.ClientTimeout(total=LIMIT_S)
    async with aiohttp.ClientSession(access.url, connector=connector, timeout=timeout) as session:
        yield session


async def read_as(user: str, plane: ControlPlane, client: ApiClient, node: str) -> tuple[int, str]:
    """What the kubelet of a node answers to a user of the cluster who asks it itself."""
    port = (await client.get(f"/api/v1/nodes/{node}"))["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.load_cert_chain(*plane.authority.sign(user, user))
    connector = aiohttp.TCPConnector(ssl=tls)
    async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session:
        return await answer(session, "/containerLogs/default/talker/main")


async def answer(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    """The status and the text of an answer."""
    async with session.get(path) as response:
        return response.status, await response.text()


async def names(client: ApiClient) -> list[str]:
    """The names of all pods."""
    return sorted(pod["metadata"]["name"] for pod in (await client.get(PODS))["items"])


async def has_pods(client: ApiClient, count: int) -> bool:
    return len(await names(client)) == count


async def no_pods(client: ApiClient) -> bool:
    return await has_pods(client, 0)


async def test_deployment_becomes_available_and_goes(plane: ControlPlane, client: ApiClient) -> None:
    with joining(plane.kubeconfig, "--nodes 2 --name-prefix deployed"):
        await client.call("POST", f"{APPS}/deployments", workload("web", replicas=4, template=template()))

        async def is_available() -> bool:
            status = (await client.get(f"{APPS}/deployments/web"))["status"]
            return bool(status.get("availableReplicas") == 4)

        await eventually_so(is_available)
        addresses = {pod["status"]["podIP"] for pod in await running(client, "deployed-")}
        assert len(addresses) == 4

        await client.call("DELETE", f"{APPS}/deployments/web", {"propagationPolicy": "Background"})
        await eventually_so(lambda: no_pods(client))


async def test_output_of_pods_comes_through_the_api_server(plane: ControlPlane, client: ApiClient) -> None:
    pod = {"metadata": {"name": "talker"}, "spec": template(restartPolicy="Never")["spec"]}
    pod["spec"]["containers"][0]["command"] = ["sh", "-c", "echo first; sleep 3; echo last"]
    with joining(plane.kubeconfig, "--name-prefix talking --runtime process") as process:
        await client.call("POST", PODS, pod)
        await eventually_so(lambda: running(client, "talking-"))

        async with api(plane) as session:
            # It ends with the container.
            assert await answer(session, f"{PODS}/talker/log?follow=true") == (200, "first\nlast\n")
            assert await answer(session, f"{PODS}/talker/log?tailLines=1") == (200, "last\n")
            status, text = await answer(session, f"{PODS}/talker/log?previous=true")
            message = 'previous terminated container "main" in pod "talker" not found'
            assert (status, json.loads(text)["message"]) == (400, message)
        assert await read_as("nobody", plane, client, "talking-1") == (
            403,
            "Forbidden (user=nobody, verb=get, resource=nodes, subresource(s)=[proxy])\n",
        )
        await client.call("DELETE", f"{PODS}/talker")
        await eventually_so(lambda: no_pods(client))
        process.interrupt()


async def test_nothing_is_lost_while_the_api_server_is_away(plane: ControlPlane, client: ApiClient) -> None:
    pod = {"metadata": {"name": "short"}, "spec": template(restartPolicy="Never")["spec"]}
    pod["spec"]["containers"][0]["command"] = ["sleep", "3"]
    with joining(plane.kubeconfig, "--name-prefix lonely --runtime process") as process:
        await client.call("POST", PODS, pod)
        await eventually_so(lambda: running(client, "lonely-"))

        plane.stop("kube-apiserver")
        # Meanwhile the container ends.
        await asyncio.sleep(5)
        plane.start("kube-apiserver")

        async def has_ended() -> bool:
            return bool((await client.get(f"{PODS}/short"))["status"]["phase"] == "Succeeded")

        await eventually_so(has_ended)
        await client.call("DELETE", f"{PODS}/short")
        await eventually_so(lambda: no_pods(client))
        process.interrupt()


async def test_one_of_three_processes_is_killed(plane: ControlPlane, client: ApiClient) -> None:
    with ExitStack() as stack:
        first, *_ = [stack.enter_context(joining(plane.kubeconfig, f"--name-prefix {name}")) for name in "abc"]
        await client.call("POST", f"{APPS}/daemonsets", workload("agent", template=template()))
        for name in "abc":
            await eventually_so(lambda prefix=f"{name}-": running(client, prefix))

        # As long as a controller has not heard that the last test's node is gone, that has a pod too.
        await eventually_so(lambda: has_pods(client, 3))
        pods = await names(client)
        (killed,) = await running(client, "a-")
        await until_started(client, killed, 1)
        first.interrupt(signal.SIGKILL)
        stack.enter_context(joining(plane.kubeconfig, "--name-prefix a"))
        await until_started(client, killed, 2)
        assert await names(client) == pods
        await client.call("DELETE", f"{APPS}/daemonsets/agent", {"propagationPolicy": "Background"})
        await eventually_so(lambda: no_pods(client))
