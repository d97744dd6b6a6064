"""What goes through the tap arrives as without: bytes, metadata, codes, texts, deadlines and breaks, both ways."""

from __future__ import annotations

import asyncio
import sys

import grpc

from tests.support.patience import until
from tests.support.tapped import PLUGIN, Between, channel


async def test_plugin_that_dies_ends_the_stream_and_the_call_as_without_a_tap(between: Between) -> None:
    ends = []
    for is_tapped in (False, True):
        socket = between.of_plugin / f"dies-{is_tapped}.sock"
        plugin = await asyncio.create_subprocess_exec(sys.executable, "-c", DIES_IN_ALLOCATE, str(socket))
        await until(between.mirror_of(socket).exists)
        async with channel(between.mirror_of(socket) if is_tapped else socket) as to:
            lists = to.unary_stream(f"{PLUGIN}ListAndWatch")(b"", wait_for_ready=True)
            assert await lists.read() == b"list"
            call = to.unary_unary(f"{PLUGIN}Allocate")(b"")
            ends.append([(await one.code(), await one.details()) for one in (lists, call)])
        await plugin.wait()

    assert ends[0] == ends[1]
    assert ends[0][0][0] is grpc.StatusCode.UNAVAILABLE


DIES_IN_ALLOCATE = """
import asyncio, os, sys, grpc
async def stream(request, context):
    yield b"list"
    await asyncio.Event().wait()
async def die(request, context):
    os._exit(1)
class All(grpc.GenericRpcHandler):
    def service(self, call):
        if call.method.endswith("ListAndWatch"):
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(die)
async def main():
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((All(),))
    server.add_insecure_port("unix:" + sys.argv[1])
    await server.start()
    await server.wait_for_termination()
asyncio.run(main())
"""
