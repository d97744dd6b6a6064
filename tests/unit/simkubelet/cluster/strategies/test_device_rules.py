"""Objects of resource.k8s.io by the rules of each minor; the texts are those of the real strategies.

Many more objects are compared with these in tests/oracle/test_same_registry.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from simkubelet.cluster.api.decoding.decoding import Decoder
from simkubelet.cluster.api.errors import StatusError
from simkubelet.cluster.api.registry.kinds import kind_named, kind_of_version
from simkubelet.cluster.api.registry.registry import Registry, Write
from simkubelet.cluster.api.registry.served import Served
from simkubelet.cluster.objects.objects import JSON, Objects, WallTime, copied
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.clock import ManualClock
from simkubelet.model.version import version

NAMES = {
    "DeviceClass": "deviceclasses",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "ResourceSlice": "resourceslices",
}


class Server:
    """The objects of one release's API server."""

    def __init__(self, minor: str, **gates: bool) -> None:
        self.release = version(minor)
        objects = Objects(WallTime(ManualClock()))
        objects.create(kind_named("namespaces").key("", "default"), {"metadata": {}})
        self.registry = Registry(objects, all_strategies(objects, self.release, gates))
        self.warnings: list[str] = []

    def create(self, kind: str, spec: JSON, of_version: str = "v1") -> JSON:
        form, body = self.read(kind, spec, of_version)
        write = Write()
        stored = self.registry.create(form, "default" if form.namespaced else "", body, write)
        self.warnings = write.warnings
        return stored

    def update(self, kind: str, spec: JSON, of_version: str = "v1") -> JSON:
        form, body = self.read(kind, spec, of_version)
        namespace = "default" if form.namespaced else ""

        def change(old: JSON) -> JSON:
            return {**old, "spec": body["spec"]}

        return self.registry.update(form, namespace, "one", change)

    def read(self, kind: str, spec: JSON, of_version: str) -> tuple[Any, JSON]:
        stored = kind_named(f"{NAMES[kind]}.resource.k8s.io")
        form = kind_of_version(stored, f"resource.k8s.io/{of_version}")
        decoder = Decoder.of(form, "Ignore", [], Served.by(self.release))
        body = decoder.patched({"kind": kind, "metadata": {"name": "one"}, "spec": copied(spec)}, "")
        return form, form.to_stored(body)


def refusals(server: Server, kind: str, spec: JSON, of_version: str = "v1") -> list[str]:
    with pytest.raises(StatusError) as refused:
        server.create(kind, spec, of_version)
    return [f"{cause['field']}: {cause['message']}" for cause in refused.value.status()["details"]["causes"]]


def slice_(*devices: JSON, **more: Any) -> JSON:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": list(devices), **more}


def claim(**request: Any) -> JSON:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "c", **request}}]}}


NO_VALUE = slice_({"name": "gpu", "attributes": {"a": {}}})
TWICE = {"devices": {"requests": [claim()["devices"]["requests"][0]] * 2}}


@pytest.mark.parametrize(
    ("minor", "kind", "spec", "refusal"),
    [
        pytest.param(
            "1.34",
            "ResourceSlice",
            NO_VALUE,
            "spec.devices[0].attributes[a]: Required value: exactly one value must be specified",
            id="no value, missing",
        ),
        pytest.param(
            "1.36",
            "ResourceSlice",
            NO_VALUE,
            'spec.devices[0].attributes[a]: Invalid value: "": exactly one value must be specified',
            id="no value, wrong",
        ),
        pytest.param(
            "1.37",
            "ResourceSlice",
            NO_VALUE,
            'spec.devices[0].attributes[a]: Invalid value: "": must specify one of: `int`, `bool`, `string`, '
            "`version`, `ints`, `bools`, `strings`, `versions`",
            id="no value, declared",
        ),
        pytest.param(
            "1.34",
            "ResourceClaim",
            TWICE,
            'spec.devices.requests[1].name: Duplicate value: "gpu"',
            id="twice, by its field",
        ),
        pytest.param(
            "1.36",
            "ResourceClaim",
            TWICE,
            'spec.devices.requests[1]: Duplicate value: "gpu"',
            id="twice, by its place",
        ),
        pytest.param(
            "1.37",
            "ResourceClaim",
            TWICE,
            'spec.devices.requests[1]: Duplicate value: {"name":"gpu","exactly":{"deviceClassName":"c",'
            '"allocationMode":"ExactCount","count":1}}',
            id="twice, all of it",
        ),
        pytest.param(
            "1.36",
            "DeviceClass",
            {"extendedResourceName": "cpu"},
            'spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name',
            id="no extended resource",
        ),
        pytest.param(
            "1.37",
            "DeviceClass",
            {"extendedResourceName": "cpu"},
            'spec.extendedResourceName: Invalid value: "cpu": a name must be a domain-prefixed path, such as '
            "'example.com/my-prop'",
            id="no extended resource, declared",
        ),
    ],
)
def test_refusal_has_the_words_of_the_minor(minor: str, kind: str, spec: JSON, refusal: str) -> None:
    assert refusals(Server(minor), kind, spec) == [refusal]


NUMBERS = str(list(range(60)))
COSTLY = {
    "loops": f"{NUMBERS}.all(x, {NUMBERS}.all(y, {NUMBERS}.all(z, x + y + z >= 0)))",
    "strings": f'"a"{""".replace("a", "aa")""" * 27}.size() > 0',
}


@pytest.mark.parametrize("minor", ["1.34", "1.35", "1.36", "1.37"])
@pytest.mark.parametrize("attack", COSTLY)
@pytest.mark.parametrize(
    ("kind", "of_version", "spec", "path"),
    [
        ("DeviceClass", "v1", lambda selectors: {"selectors": selectors}, "spec"),
        (
            "ResourceClaim",
            "v1",
            lambda selectors: claim(selectors=selectors),
            "spec.devices.requests[0].exactly",
        ),
        (
            "ResourceClaim",
            "v1beta1",
            lambda selectors: {
                "devices": {"requests": [{"name": "gpu", "deviceClassName": "c", "selectors": selectors}]}
            },
            "spec.devices.requests[0].exactly",
        ),
        (
            "ResourceClaimTemplate",
            "v1",
            lambda selectors: {"spec": claim(selectors=selectors)},
            "spec.spec.devices.requests[0].exactly",
        ),
    ],
)
def test_selector_that_may_cost_too_much_is_refused(
    minor: str, attack: str, kind: str, of_version: str, spec: Any, path: str
) -> None:
    written = spec([{"cel": {"expression": COSTLY[attack]}}])

    assert refusals(Server(minor), kind, written, of_version) == [
        f"{path}.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit"
    ]


@pytest.mark.parametrize(
    ("of_version", "path"),
    [
        pytest.param("v1", "spec.devices[0].taints[0].effect", id="v1"),
        pytest.param("v1beta1", "spec.devices[0].basic.taints[0].effect", id="v1beta1"),
    ],
)
def test_declared_refusal_has_the_path_of_the_request_version(of_version: str, path: str) -> None:
    taints = {"taints": [{"key": "a", "effect": "x"}]}
    device = {"name": "gpu", **taints} if of_version == "v1" else {"name": "gpu", "basic": taints}

    found = refusals(Server("1.37"), "ResourceSlice", slice_(device), of_version)

    assert found == [f'{path}: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None"']


@pytest.mark.parametrize(("minor", "is_shown"), [("1.36", True), ("1.37", False)])
def test_changed_spec_of_a_claim_is_shown_until_it_is_declared_immutable(minor: str, is_shown: bool) -> None:
    server = Server(minor)
    server.create("ResourceClaim", claim())

    with pytest.raises(StatusError) as refused:
        server.update("ResourceClaim", claim(count=2))

    assert ("Invalid value: null: field is immutable" in str(refused.value)) is not is_shown
    assert ('"AllocationMode":"ExactCount"' in str(refused.value)) is is_shown


@pytest.mark.parametrize(
    ("minor", "gate", "attribute", "is_kept"),
    [
        pytest.param("1.36", {}, {"string": "x", "ints": [1]}, False, id="off"),
        pytest.param("1.36", {"DRAListTypeAttributes": True}, {"ints": [1]}, True, id="on"),
        pytest.param("1.35", {"DRAListTypeAttributes": True}, {"string": "x", "ints": [1]}, False, id="not there yet"),
    ],
)
def test_lists_of_values_are_kept_with_their_gate(minor: str, gate: dict[str, bool], attribute: JSON, is_kept: bool):
    stored = Server(minor, **gate).create("ResourceSlice", slice_({"name": "gpu", "attributes": {"a": attribute}}))

    assert ("ints" in stored["spec"]["devices"][0]["attributes"]["a"]) is is_kept


@pytest.mark.parametrize(("minor", "is_kept"), [("1.34", True), ("1.35", False), ("1.36", True)])
def test_tolerations_have_a_gate_from_1_35_on(minor: str, is_kept: bool) -> None:
    stored = Server(minor).create("ResourceClaim", claim(tolerations=[{"operator": "Exists"}]))

    assert ("tolerations" in stored["spec"]["devices"]["requests"][0]["exactly"]) is is_kept


@pytest.mark.parametrize(("minor", "count"), [("1.34", 0), ("1.35", 1)])
def test_capital_letters_of_a_driver_earn_a_warning(minor: str, count: int) -> None:
    server = Server(minor)

    server.create("ResourceSlice", {**slice_(), "driver": "D.example.com"})

    text = 'spec.driver: driver names should be lowercase; "D.example.com" contains uppercase characters'
    assert server.warnings == [text] * count


@pytest.mark.parametrize(
    ("fractions", "step", "refusal"),
    [
        pytest.param(False, "0", "spec.devices[0].capacity[m].requestPolicy.validRange.step: Invalid value: "
                     '"0": must be greater than zero', id="no step"),
        pytest.param(True, "100u", "spec.devices[0].capacity[m].requestPolicy.validRange.step: Invalid value: "
                     '"100u": value cannot be represented as a milli value', id="too fine"),
    ],
)  # fmt: skip
def test_step_of_a_capacity_is_refused(fractions: bool, step: str, refusal: str) -> None:
    policy = {"default": "1", "validRange": {"min": "1", "step": step}}
    device = {
        "name": "gpu",
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "4", "requestPolicy": policy}},
    }

    assert refusals(Server("1.37", DRAFractionalCapacityRange=fractions), "ResourceSlice", slice_(device)) == [refusal]


def test_unchanged_capacity_may_be_wrong_from_1_37_on() -> None:
    wrong = {"m": {"value": "4", "requestPolicy": {"default": "1", "validValues": ["1", "1"]}}}
    device = {"name": "gpu", "allowMultipleAllocations": True, "capacity": wrong}
    server = Server("1.37")
    form, body = server.read("ResourceSlice", slice_(device), "v1")
    server.registry.objects.create(form.key("", "one"), body)

    stored = server.update("ResourceSlice", slice_({**device, "bindsToNode": True}))

    assert stored["spec"]["devices"][0]["bindsToNode"] is True
