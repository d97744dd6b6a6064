"""DeviceTaintRules at the API server, from 1.37 on; `tests/join` compares their rules with a real one."""

from __future__ import annotations

from typing import Any

import pytest

from simkubelet.cluster.api.decoding.decoding import Decoder
from simkubelet.cluster.api.endpoints.tables import table_of
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import Registry
from simkubelet.cluster.api.registry.served import Served, runtime_config
from simkubelet.cluster.objects.objects import JSON, Objects, WallTime
from simkubelet.cluster.strategies.dra.slices import validate_slice_spec
from simkubelet.cluster.strategies.rules import Rules
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.clock import ManualClock
from simkubelet.model.version import version

_DATE = "2026-01-01T00:00:00Z"
RULES = kind_named("devicetaintrules.resource.k8s.io")


def rule(**taint: Any) -> JSON:
    spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "broken", "effect": "None", **taint}}
    return {"metadata": {"name": "rule"}, "spec": spec}


class Server:
    """The registry of an API server, and its time."""

    def __init__(self, release: str = "1.37") -> None:
        self.clock = ManualClock()
        objects = Objects(WallTime(self.clock))
        self.registry = Registry(objects, all_strategies(objects, version(release), {}))

    def create(self, **taint: Any) -> JSON:
        return self.registry.create(RULES, "", rule(**taint))

    def update(self, **parts: Any) -> JSON:
        return self.registry.update(RULES, "", "rule", lambda stored: {**stored, **parts})

    def update_status(self, status: JSON) -> JSON:
        return self.registry.update(
            RULES, "", "rule", lambda stored: {**stored, "status": status}, subresource="status"
        )


@pytest.mark.parametrize(("release", "known"), [("1.36", []), ("1.37", ["v1"])])
def test_only_v1_has_rules(release: str, known: list[str]) -> None:
    served = Served.by(version(release), runtime_config(["api/all=true"]))

    assert [kind.version for kind in served.kinds if kind.kind == "DeviceTaintRule"] == known


def test_rule_is_new_with_the_time_of_its_taint() -> None:
    server = Server()

    created = server.create(value="")

    assert created["metadata"]["generation"] == 1
    assert created["spec"]["taint"] == {
        "key": "broken",
        "effect": "None",
        "timeAdded": server.registry.objects.wall_time.now(),
    }
    assert created["status"] == {}


async def test_another_effect_has_another_time() -> None:
    server = Server()
    before = server.create()["spec"]
    await server.clock.advance(5)

    same = server.update(spec={**before, "taint": {**before["taint"], "value": "x"}})
    other = server.update(spec={**before, "taint": {**before["taint"], "effect": "NoExecute"}})

    assert same["spec"]["taint"]["timeAdded"] == before["taint"]["timeAdded"]
    assert other["spec"]["taint"]["timeAdded"] > before["taint"]["timeAdded"]
    assert [one["metadata"]["generation"] for one in (same, other)] == [2, 3]


def test_status_is_for_the_subresource() -> None:
    server = Server()
    status = {"conditions": [{"type": "Seen", "status": "True", "reason": "R", "lastTransitionTime": _DATE}]}
    server.create()

    assert server.update(status=status)["status"] == {}
    assert server.update_status(status)["status"] == status


def test_columns_are_those_of_the_taint() -> None:
    server = Server()
    columns, rows = table_of(RULES, [server.create(value="x")], server.registry.objects.wall_time)

    assert [column["name"] for column in columns] == ["Name", "Key", "Value", "Effect", "TimeAdded", "Age"]
    assert rows[0][0]["cells"] == ["rule", "broken", "x", "None", "0s", "0s"]


def test_fields_are_those_of_1_37() -> None:
    faults: list[str] = []
    decoder = Decoder.of(RULES, "Warn", faults, Served.by(version("1.37"), {}))
    decoder.patched({**rule(), "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "extra": 1}, "")

    assert faults == ['unknown field "extra"']


@pytest.mark.parametrize(("release", "is_taken"), [("1.34", False), ("1.36", True)])
def test_taint_may_be_only_for_people_from_1_35_on(release: str, is_taken: bool) -> None:
    device = {"name": "d", "taints": [{"key": "broken", "effect": "None"}]}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "pool": pool, "allNodes": True, "devices": [device]}

    assert (validate_slice_spec(Rules(version(release), ()), spec, None, "spec") == []) is is_taken
