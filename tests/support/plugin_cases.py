"""Every bundled plugin, on its own small node: the cases of tests that concern all plugins."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from fakegpu import Machine
from fakegpu.vendors.amd.machine import write_amd
from fakegpu.vendors.amd.model import load_amd_profile
from fakegpu.vendors.iluvatar import write_iluvatar

from .gpu_memory_world import gpu_memory_world

__all__ = ["CASES", "MORE_FORMS", "PluginCase", "PluginNode"]


@dataclass(frozen=True)
class PluginNode:
    """A node with devices for one plugin.

    Attributes:
        arguments: of ``simkubelet plugin``, without the kubelet's folder.
        devices: how many the plugin finds.
        environment: added to the process' own.
    """

    arguments: tuple[str, ...]
    devices: int
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PluginCase:
    """A plugin, and how a node for it is made in an empty folder.

    Attributes:
        name: as on the command line.
        resource: what it serves.
        node: makes the node; at the end it is gone.
        restarts_itself: whether the process survives a new kubelet.
        restarts_without_socket: whether it starts again when its socket is removed.
        survives_refusal: whether it continues when registration fails.
        survives_streams: whether it continues when a ListAndWatch stream ends.
        new_kubelets: how many of them a test may bring it; each list of some plugins has tens of thousands of devices.
    """

    name: str
    resource: str
    node: Callable[[Path], AbstractAsyncContextManager[PluginNode]]
    restarts_itself: bool = True
    restarts_without_socket: bool = False
    survives_refusal: bool = True
    survives_streams: bool = True
    new_kubelets: int = 200

    def __str__(self) -> str:
        return self.name


@asynccontextmanager
async def _nvidia(folder: Path, *arguments: str, devices: int = 4) -> AsyncIterator[PluginNode]:
    machine = Machine.create(folder / "machine", profile="h100-80gb", count=4, seed="reliability")
    (folder / "sys").symlink_to(machine.sys)
    try:
        yield PluginNode(("nvidia", "--host-root", str(folder), *arguments), devices, machine.environment())
    finally:
        machine.destroy()


@asynccontextmanager
async def _time_sliced(folder: Path) -> AsyncIterator[PluginNode]:
    config = folder / "config.yaml"
    config.write_text("{version: v1, sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3}]}}}")
    async with _nvidia(folder, "--config-file", str(config), devices=12) as node:
        yield node


@asynccontextmanager
async def _gopher(folder: Path) -> AsyncIterator[PluginNode]:
    gophers = folder / "etc" / "gophers"
    gophers.mkdir(parents=True)
    for number in range(4):
        (gophers / f"g{number}").touch()
    yield PluginNode(("gopher", "--host-root", str(folder)), 4)


@asynccontextmanager
async def _generic(folder: Path) -> AsyncIterator[PluginNode]:
    (folder / "dev").mkdir()
    for number in range(2):
        (folder / "dev" / f"ttyUSB{number}").touch()
    described = folder / "serial.yaml"
    described.write_text(
        "{resource: example.com/serial, devices: [/dev/ttyUSB*], replicas: 2, env: {LINES: '{paths}'}}"
    )
    yield PluginNode(("generic", "--host-root", str(folder), "--config", str(described)), 4)


@asynccontextmanager
async def _amd(folder: Path) -> AsyncIterator[PluginNode]:
    write_amd(folder, load_amd_profile("mi210"), 4)
    yield PluginNode(("amd", "--host-root", str(folder)), 4)


@asynccontextmanager
async def _iluvatar(folder: Path) -> AsyncIterator[PluginNode]:
    write_iluvatar(folder, 4)
    config = folder / "ix-config"
    config.write_text("flags: {splitboard: false}")
    yield PluginNode(("iluvatar", "--host-root", str(folder), "--config-file", str(config)), 4)


@asynccontextmanager
async def _with_api(*arguments: str, devices: int, folder: Path) -> AsyncIterator[PluginNode]:
    """Two GPUs of 15 GiB, and an API server with the node in it."""
    machine = Machine.create(folder / "machine", profile="t4", count=2, seed="reliability")
    try:
        async with gpu_memory_world(pytest.MonkeyPatch()) as world:
            variables = {**machine.environment(), **world.environment(folder)}
            yield PluginNode((*arguments, "--host-root", str(folder)), devices, variables)
    finally:
        machine.destroy()


def _shared(*arguments: str, devices: int) -> Callable[[Path], AbstractAsyncContextManager[PluginNode]]:
    return lambda folder: _with_api(*arguments, devices=devices, folder=folder)


CASES: Final = (
    PluginCase("nvidia", "nvidia.com/gpu", _nvidia),
    PluginCase("gopher", "lixueduan.com/gopher", _gopher, restarts_itself=False, survives_refusal=False),
    PluginCase("generic", "example.com/serial", _generic, restarts_without_socket=True),
    PluginCase("amd", "amd.com/gpu", _amd, restarts_itself=False, survives_streams=False),
    PluginCase("iluvatar", "iluvatar.com/gpu", _iluvatar, survives_refusal=False),
    PluginCase(
        "gpu-memory",
        "doslab.io/gpu-memory",
        _shared("gpu-memory", devices=30720),
        new_kubelets=5,
        survives_refusal=False,
    ),
    PluginCase("gpushare", "aliyun.com/gpu-mem", _shared("gpushare", devices=30), survives_refusal=False),
    PluginCase("volcano", "volcano.sh/gpu-memory", _shared("volcano", "--gpu-memory-factor", "1024", devices=30)),
)
MORE_FORMS: Final = (PluginCase("nvidia, time-sliced", "nvidia.com/gpu", _time_sliced),)
"""Plugins in forms in which they answer calls otherwise."""
