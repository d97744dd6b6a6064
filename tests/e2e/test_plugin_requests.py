"""Fed in: any request that a kubelet can send to a plugin's process; observed: an answer or a refusal, and no crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.messages import Code
from tests.support.grpc_peers import DEVICE_PLUGIN, calls
from tests.support.patience import LIMIT_S
from tests.support.plugin_cases import CASES, MORE_FORMS, PluginCase
from tests.support.plugin_kubelet import FakeKubelet, plugin_process
from tests.support.short_paths import short_place

pytestmark = pytest.mark.slow

_CODES = {Code.OK, Code.UNKNOWN}
"""A plugin in Go answers a request that it cannot serve with an error of no code of its own."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for sockets."""
    with TemporaryDirectory(prefix="req-", dir=short_place()) as name:
        yield Path(name)


@pytest.fixture
async def kubelet(folder: Path) -> AsyncIterator[FakeKubelet]:
    (folder / "sockets").mkdir()
    async with FakeKubelet(folder / "sockets") as kubelet:
        yield kubelet


def _requests(known: Sequence[str]) -> st.SearchStrategy[tuple[str, Any]]:
    """A method's name and a request to it: ids that the plugin has, ids close to them, and any others."""
    near = st.sampled_from(known).flatmap(
        lambda name: st.sampled_from([name[:-1], name + "::0", name.upper(), name + "::"])
    )
    ids = st.lists(st.sampled_from(known) | near | st.text(max_size=12), max_size=6)
    allocate = st.builds(
        api.AllocateRequest,
        container_requests=st.lists(st.builds(api.ContainerAllocateRequest, devices_ids=ids), max_size=3),
    )
    preferred = st.builds(
        api.PreferredAllocationRequest,
        container_requests=st.lists(
            st.builds(
                api.ContainerPreferredAllocationRequest,
                available_deviceIDs=ids,
                must_include_deviceIDs=ids,
                allocation_size=st.integers(-2, 8) | st.sampled_from([-(2**31), 2**31 - 1]),
            ),
            max_size=3,
        ),
    )
    prepare = st.builds(api.PreStartContainerRequest, devices_ids=ids)
    return st.one_of(
        st.tuples(st.just("Allocate"), allocate),
        st.tuples(st.just("GetPreferredAllocation"), preferred),
        st.tuples(st.just("PreStartContainer"), prepare),
    )


@pytest.mark.parametrize("case", [*CASES, *MORE_FORMS], ids=str)
async def test_no_request_of_a_kubelet_breaks_a_plugin(case: PluginCase, kubelet: FakeKubelet, folder: Path) -> None:
    (folder / "node").mkdir()
    async with case.node(folder / "node") as node:
        arguments = (*node.arguments, "--kubelet-dir", str(kubelet.folder))
        async with plugin_process(arguments, folder / "log", node.environment) as process:
            endpoint = (await kubelet.registration()).endpoint
            known = [device.ID for device in await kubelet.listed(endpoint)][:50]

            # In a thread: what some plugins ask of the API server is answered in this one.
            await asyncio.to_thread(_ask, kubelet.folder / endpoint, known)

            assert process.runs
    assert "Traceback" not in process.log


def _ask(socket: Path, known: Sequence[str]) -> None:
    with asyncio.Runner() as runner:
        connection = calls(socket, DEVICE_PLUGIN)
        plugin = runner.run(connection.__aenter__())

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(_requests(known))
        def answers(asked: tuple[str, Any]) -> None:
            method, request = asked
            answer, code = runner.run(_answer(getattr(plugin, method), request))
            assert code in _CODES
            if answer is not None and method == "Allocate":
                assert len(answer.container_responses) == len(request.container_requests)

        answers()
        runner.run(connection.__aexit__(None, None, None))


async def _answer(method: Any, request: Any) -> tuple[Any, int]:
    try:
        return await method(request, timeout=LIMIT_S), Code.OK
    except RpcError as error:
        return None, error.code
