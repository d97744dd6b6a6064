"""A tap's reports of its connections: how many the kubelet has, and to which process."""

from __future__ import annotations

import os

from tests.support.patience import until
from tests.support.tapped import PLUGIN, REGISTER, Between


async def test_connections_to_the_plugin_are_counted_as_they_come_and_go(between: Between) -> None:
    plugin = await between.plugin()
    first, second = between.channel_to(plugin), between.channel_to(plugin)
    await first.unary_unary(f"{PLUGIN}Allocate")(b"")
    await second.unary_unary(f"{PLUGIN}Allocate")(b"")
    await first.close()
    await until(lambda: between.links[-1] == {"connections": 1})
    await plugin.stop()
    await until(lambda: between.links[-1] == {"connections": 0})
    await second.close()

    counts = [report["connections"] for report in between.links if "connections" in report]
    assert counts == [1, 2, 1, 0]


async def test_connections_to_the_kubelet_are_not_the_kubelets(between: Between) -> None:
    kubelet = await between.kubelet()
    async with between.channel_to(kubelet) as to_kubelet:
        await to_kubelet.unary_unary(REGISTER)(b"")

    assert between.links == []


async def test_process_is_reported_once_and_before_its_connection(between: Between) -> None:
    plugin = await between.plugin()
    for _ in range(2):
        async with between.channel_to(plugin) as to_plugin:
            await to_plugin.unary_unary(f"{PLUGIN}Allocate")(b"")
        await until(lambda: between.links[-1] == {"connections": 0})

    assert between.links == [
        {"process": os.getpid()},
        {"connections": 1},
        {"connections": 0},
        {"connections": 1},
        {"connections": 0},
    ]
