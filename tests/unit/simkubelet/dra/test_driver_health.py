"""The health of drivers' devices: what reports change, how long they count, what a pod's status has of them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from simkubelet.apis.drahealth import UNHEALTHY, DeviceHealth, DeviceIdentifier, NodeWatchResourcesResponse
from simkubelet.dra import health as driver_health
from simkubelet.dra import manager
from simkubelet.golang.message import read_message
from tests.support.dra_node import DRIVER, DraWorld, pod_object
from tests.support.patience import LIMIT_S, until

MakeWorld = Callable[..., DraWorld]
POD = pod_object("p1", "c1")


async def watched(world: DraWorld, pod: dict[str, Any] = POD, claim: str = "c1") -> None:
    """Have the health of a driver followed that has prepared a claim."""
    await world.manager("set_gate", name="ResourceHealthStatus", value=True)
    await world.manager("start")
    await world.serve("dra.sock", "v1", "health")
    await world.drive("calls", want=1, timeout_ms=LIMIT_S * 1000)
    await world.put_claim(claim, "p1", owner="p1")
    assert (await world.manager("prepare", pod=pod))["ok"]


async def report(world: DraWorld, *healths: str) -> None:
    """Send a report about dev-0, dev-1, …, and wait until the manager has taken it."""
    devices = [{"pool": "pool", "device": f"dev-{n}", "health": health} for n, health in enumerate(healths)]
    await world.drive("send_health", list=devices)
    health = world.node.manager.health
    await until(
        lambda: all(health.of_device(DRIVER, ("pool", f"dev-{n}")) == wanted for n, wanted in enumerate(healths))
    )


async def statuses(world: DraWorld, pod: dict[str, Any] = POD) -> dict[str, Any]:
    """Name -> resource id -> health, in the status of the container ``c``."""
    answer = await world.manager("allocated_status", pod=pod, status={"containerStatuses": [{"name": "c"}]})
    [container] = answer["status"]["containerStatuses"]
    return {
        one["name"]: {device["resourceID"]: device["health"] for device in one["resources"]}
        for one in container.get("allocatedResourcesStatus", ())
    }


async def test_report_is_forgotten_after_30_s(make_world: MakeWorld) -> None:
    world = make_world()
    await watched(world)
    await report(world, "Unhealthy")

    await world.clock.advance(30)
    assert await statuses(world) == {"claim:c1": {"example.com/class=c1": "Unhealthy"}}
    await world.clock.advance(0.1)
    assert await statuses(world) == {"claim:c1": {"example.com/class=c1": "Unknown"}}


async def test_end_of_the_stream_makes_devices_unknown(make_world: MakeWorld) -> None:
    world = make_world()
    await watched(world)
    await report(world, "Healthy")

    await world.drive("end_health")
    await until(lambda: world.node.manager.health.of_device(DRIVER, ("pool", "dev-0")) == "Unknown")

    await world.clock.advance(5)
    [call] = (await world.drive("calls", want=1, timeout_ms=LIMIT_S * 1000))["calls"][-1:]
    assert call == {"rpc": "health"}


async def test_device_that_is_left_out_becomes_unknown_later(make_world: MakeWorld) -> None:
    world = make_world()
    await watched(world)
    await report(world, "Healthy", "Healthy")
    await world.manager("updates", timeout_ms=LIMIT_S * 1000)

    await world.clock.advance(31)
    await world.drive("send_health", list=[{"pool": "pool", "device": "dev-1", "health": "Healthy"}])

    assert (await world.manager("updates", timeout_ms=LIMIT_S * 1000))["pod_uids"] == ["p1"]


@pytest.mark.parametrize(
    ("minor", "direct", "generated"),
    [("1.34", {"claim:c1"}, set()), ("1.35", set(), {"claim:gpu"}), ("1.36", {"claim:c1"}, {"claim:gpu"})],
)
async def test_status_has_the_claims_that_its_minor_finds(
    make_world: MakeWorld, minor: str, direct: set[str], generated: set[str]
) -> None:
    world = make_world(minor)
    await watched(world)
    assert set(await statuses(world)) == direct

    other, pod = make_world(minor), pod_object("p1", gpu="gen")
    await watched(other, pod, "gen")
    assert set(await statuses(other, pod)) == generated


async def test_cache_survives_a_restart_with_its_file(make_world: MakeWorld) -> None:
    world = make_world()
    await watched(world)
    await report(world, "Unhealthy")
    text = (world.folder / "dra_health_state").read_text()
    assert json.loads(text) == {
        DRIVER: {
            "Devices": {
                "pool/dev-0": {
                    "PoolName": "pool",
                    "DeviceName": "dev-0",
                    "Health": "Unhealthy",
                    "LastUpdated": "2023-11-14T22:13:20Z",
                }
            }
        }
    }

    await world.manager("restart")
    assert world.node.manager.health.of_device(DRIVER, ("pool", "dev-0")) == "Unhealthy"

    (world.folder / "dra_health_state").write_text("{")
    await world.manager("restart")
    assert world.node.manager.health.of_device(DRIVER, ("pool", "dev-0")) == "Unknown"


@pytest.mark.parametrize("field", ["PoolName", "DeviceName", "Health"])
@pytest.mark.parametrize("value", [5, "\ud800", ["a"]], ids=["number", "half a character", "list"])
def test_file_with_something_else_than_texts_is_passed_over(tmp_path: Path, field: str, value: object) -> None:
    device = {"PoolName": "p", "DeviceName": "d", "Health": "Healthy", "LastUpdated": "2026-01-01T00:00:00Z"}
    state = {DRIVER: {"Devices": {"p/d": {**device, field: value}}}}
    (tmp_path / "dra_health_state").write_text(json.dumps(state))

    known = driver_health.DriverHealth(tmp_path, lambda: 0.0)

    assert known.of_device(DRIVER, ("p", "d")) == "Unknown"


async def test_long_report_is_read_beside_the_event_loop(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[threading.Thread]()

    def read(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return read_message(*arguments)

    monkeypatch.setattr(manager, "read_message", read)
    world = make_world()
    await watched(world)
    threads.clear()

    await report(world, "Healthy")
    await report(world, *["Unhealthy"] * 1_000)

    assert [thread is threading.main_thread() for thread in threads] == [True, False]


async def test_devices_that_a_driver_reports_no_more_are_forgotten_where_they_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_health, "_MOST_DEVICES", 3)
    known = driver_health.DriverHealth(tmp_path, lambda: 0.0)
    saves = Mock(wraps=driver_health.replace_file)
    monkeypatch.setattr(driver_health, "replace_file", saves)
    for number in range(10):
        known.update(DRIVER, NodeWatchResourcesResponse(devices=[unhealthy(number), unhealthy(0)]))
    await asyncio.sleep(0)

    assert [known.of_device(DRIVER, ("p", str(number))) for number in (0, 1, 7, 8, 9)] == [
        "Unhealthy",
        "Unknown",
        "Unknown",
        "Unhealthy",
        "Unhealthy",
    ]
    assert saves.call_count == 1
    known.update(DRIVER, NodeWatchResourcesResponse(devices=[unhealthy(number) for number in range(5)]))
    assert {known.of_device(DRIVER, ("p", str(number))) for number in range(5)} == {"Unhealthy"}
    await asyncio.sleep(0)


async def test_driver_with_long_names_loses_its_own_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_health, "_MOST_TEXT", 30_000)
    known = driver_health.DriverHealth(tmp_path, lambda: 0.0)
    known.update("other", NodeWatchResourcesResponse(devices=[unhealthy(0)]))
    for number in range(50):
        known.update(DRIVER, NodeWatchResourcesResponse(devices=[unhealthy(number, "p" * 5_000)]))
    await asyncio.sleep(0)

    assert [known.of_device(DRIVER, ("p" * 5_000, str(number))) for number in (46, 47, 48, 49)] == [
        *("Unknown", "Unknown"),
        *("Unhealthy", "Unhealthy"),
    ]
    assert known.of_device("other", ("p", "0")) == "Unhealthy"
    assert (tmp_path / "dra_health_state").stat().st_size < 30_000
    known.update(DRIVER, NodeWatchResourcesResponse(devices=[unhealthy(0, "p" * 50_000)]))
    assert known.of_device(DRIVER, ("p" * 50_000, "0")) == "Unknown"
    await asyncio.sleep(0)


async def test_names_that_are_written_as_escapes_are_read_again(tmp_path: Path) -> None:
    pool = "\x01" * (1 << 20)
    known = driver_health.DriverHealth(tmp_path, lambda: 0.0)
    device = DeviceHealth(device=DeviceIdentifier(pool_name=pool, device_name="d"), health=UNHEALTHY)
    known.update(DRIVER, NodeWatchResourcesResponse(devices=[device]))
    await asyncio.sleep(0)

    read = driver_health.DriverHealth(tmp_path, lambda: 0.0)

    assert read.of_device(DRIVER, (pool, "d")) == known.of_device(DRIVER, (pool, "d")) == "Unhealthy"


async def test_drivers_that_report_nothing_are_not_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = driver_health.DriverHealth(tmp_path, lambda: 0.0)
    for driver in ("a", "b", "c"):
        known.update(driver, NodeWatchResourcesResponse(devices=[unhealthy(0)]))
    await asyncio.sleep(0)
    written = Mock(wraps=driver_health._devices)
    monkeypatch.setattr(driver_health, "_devices", written)
    known.update("b", NodeWatchResourcesResponse(devices=[unhealthy(1)]))
    known.forget("a")
    await asyncio.sleep(0)

    assert written.call_count == 1
    state = json.loads((tmp_path / "dra_health_state").read_text())
    assert {driver: sorted(one["Devices"]) for driver, one in state.items()} == {"b": ["p/0", "p/1"], "c": ["p/0"]}


def unhealthy(number: int, pool: str = "p") -> DeviceHealth:
    return DeviceHealth(device=DeviceIdentifier(pool_name=pool, device_name=str(number)), health=UNHEALTHY)
