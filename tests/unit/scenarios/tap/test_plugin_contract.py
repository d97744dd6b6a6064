"""The rules about a plugin's messages: each is broken by one message and kept by a right one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scenarios.tap.contract import Contract, options_of
from scenarios.trace.snapshot import RULES, Rpc, Rule
from simkubelet.apis import deviceplugin as api

REGISTER = {"version": api.VERSION, "endpoint": "p.sock", "resource_name": "example.com/gpu"}
DEVICE = {"ID": "gpu-0", "health": api.HEALTHY}
ASKED = api.AllocateRequest(container_requests=[{"devices_ids": ["gpu-0"]}])
PREFERRED = api.PreferredAllocationRequest(
    container_requests=[{"available_deviceIDs": ["a", "b", "c"], "must_include_deviceIDs": ["a"], "allocation_size": 2}]
)


def registered(mode: int | None = 0o755, **changes: Any) -> set[Rule]:
    request = api.RegisterRequest(**{**REGISTER, **changes}).SerializeToString()
    return {one.rule for one in Contract().asked(Rpc.REGISTER, request, lambda name: mode)}


def answered(rpc: Rpc, message: Any, request: Any = None, before: Any = None) -> set[Rule]:
    asked = b"" if request is None else request.SerializeToString()
    last = None if before is None else before.SerializeToString()
    return {one.rule for one in Contract().answered(rpc, asked, message.SerializeToString(), last)}


def listed(*devices: dict[str, Any], before: list[dict[str, Any]] | None = None) -> set[Rule]:
    last = None if before is None else api.ListAndWatchResponse(devices=before)
    return answered(Rpc.LIST_AND_WATCH, api.ListAndWatchResponse(devices=devices), before=last)


def allocated(*containers: dict[str, Any]) -> set[Rule]:
    return answered(Rpc.ALLOCATE, api.AllocateResponse(container_responses=containers), ASKED)


def preferred(*ids: str) -> set[Rule]:
    answer = api.PreferredAllocationResponse(container_responses=[{"deviceIDs": ids}])
    return answered(Rpc.GET_PREFERRED_ALLOCATION, answer, PREFERRED)


def file(**changes: str) -> dict[str, Any]:
    return {"devices": [{"host_path": "/dev/a", "container_path": "/dev/b", "permissions": "rw", **changes}]}


def mount(*paths: tuple[str, str]) -> dict[str, Any]:
    return {"mounts": [{"container_path": there, "host_path": here} for there, here in paths]}


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(lambda: registered(), id="registration"),
        pytest.param(lambda: listed(DEVICE, {"ID": "x" * 63, "health": api.UNHEALTHY}), id="list"),
        pytest.param(
            lambda: allocated({**file(), **mount(("/a", "/b"), ("/c", "/b")), "envs": {"A": "="}}), id="container"
        ),
        pytest.param(lambda: listed(DEVICE, before=[DEVICE, DEVICE]), id="new list"),
        pytest.param(lambda: allocated({"envs": {"A": "x" * (128 * 1024 - 3)}}), id="long variable"),
        pytest.param(lambda: allocated({"cdi_devices": [{"name": "vendor.com/gpu=0:1"}]}), id="CDI"),
        pytest.param(lambda: preferred("b", "a"), id="preference"),
    ],
)
def test_right_message_breaks_no_rule(found: Callable[[], set[Rule]]) -> None:
    assert found() == set()


BREACHES = [
    (lambda: registered(version="v1alpha"), Rule.VERSION),
    (lambda: registered(endpoint="/var/p.sock"), Rule.ENDPOINT),
    (lambda: registered(endpoint=""), Rule.ENDPOINT),
    (lambda: registered(resource_name="gpu"), Rule.RESOURCE_NAME),
    (lambda: registered(mode=None), Rule.SERVES_FIRST),
    (lambda: registered(mode=0o777), Rule.SOCKET_MODE),
    (lambda: listed(DEVICE, before=[DEVICE]), Rule.NEW_LISTS),
    (lambda: listed(DEVICE, DEVICE), Rule.DEVICE_IDS),
    (lambda: listed({**DEVICE, "ID": ""}), Rule.DEVICE_IDS),
    (lambda: listed({**DEVICE, "ID": "x" * 64}), Rule.ID_LENGTH),
    (lambda: listed({**DEVICE, "health": "healthy"}), Rule.HEALTH),
    (lambda: listed({**DEVICE, "topology": {"nodes": [{"ID": -1}]}}), Rule.NUMA_NODES),
    (lambda: allocated(), Rule.RESPONSES),
    (lambda: allocated({}, {}), Rule.RESPONSES),
    (lambda: allocated(file(host_path="dev/a")), Rule.PATHS),
    (lambda: allocated(mount(("/a/../b", "/c"))), Rule.PATHS),
    (lambda: allocated(mount(("/a", "/b"), ("/a", "/c"))), Rule.DISTINCT_PATHS),
    (lambda: allocated(file(permissions="")), Rule.PERMISSIONS),
    (lambda: allocated(file(permissions="rr")), Rule.PERMISSIONS),
    (lambda: allocated({"envs": {"": "x"}}), Rule.ENV),
    (lambda: allocated({"envs": {"A=B": "x"}}), Rule.ENV),
    (lambda: allocated({"envs": {"A": "x" * (128 * 1024 - 2)}}), Rule.ENV_SIZE),
    (lambda: allocated({"cdi_devices": [{"name": "gpu0"}]}), Rule.CDI_NAMES),
    (lambda: preferred("a", "x"), Rule.PREFERRED_AVAILABLE),
    (lambda: preferred("b", "c"), Rule.PREFERRED_REQUIRED),
    (lambda: preferred("a"), Rule.PREFERRED_SIZE),
    (lambda: preferred("a", "a", "b"), Rule.PREFERRED_SIZE),
]


@pytest.mark.parametrize(("found", "rule"), BREACHES)
def test_wrong_message_breaks_its_rule_alone(found: Callable[[], set[Rule]], rule: Rule) -> None:
    assert found() == {rule}


def test_options_that_differ_from_those_of_register_are_reported() -> None:
    contract = Contract()
    options = api.DevicePluginOptions(pre_start_required=True).SerializeToString()

    assert not list(
        contract.asked(Rpc.REGISTER, api.RegisterRequest(**REGISTER).SerializeToString(), lambda name: 0o755)
    )
    (breach,) = contract.answered(Rpc.GET_DEVICE_PLUGIN_OPTIONS, b"", options, None)

    assert breach.rule is Rule.SAME_OPTIONS
    assert breach.detail == "Register named the options: none; GetDevicePluginOptions: preStart"
    assert options_of(options) == ("preStart",)


@pytest.mark.parametrize("rpc", [rpc for rpc in Rpc if rpc is not Rpc.PRE_START_CONTAINER])
def test_bytes_that_are_no_message_are_reported(rpc: Rpc) -> None:
    contract, garbage = Contract(), b"\xff\xff"

    is_asked = rpc is Rpc.REGISTER
    found = contract.asked(rpc, garbage, lambda name: 0o755) if is_asked else contract.answered(rpc, b"", garbage, None)

    assert [one.rule for one in found] == [Rule.READABLE]
    assert options_of(garbage) == ()


def test_only_errors_of_calls_that_must_be_answered_are_reported() -> None:
    reported = {rpc for rpc in Rpc if list(Contract().refused(rpc, "no"))}

    assert set(Rpc) - reported == {Rpc.REGISTER, Rpc.LIST_AND_WATCH}


def test_every_rule_is_tested_and_explained() -> None:
    others = {Rule.READABLE, Rule.SAME_OPTIONS, Rule.ANSWERS}

    assert {rule for _, rule in BREACHES} | others == set(Rule) == set(RULES)
