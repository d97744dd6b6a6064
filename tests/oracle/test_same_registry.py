"""Objects of resource.k8s.io, written to the real API server's code and to ours: what is kept, and what is refused.

Random objects have valid expressions of selectors; those of `EXPRESSIONS` are compiled by both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from simkubelet.model.version import DEFAULT, version
from tests.support.oracle import ROUNDS, SEED, OracleProgram, compared
from tests.support.random_devices import OF_DEVICES, WHOLE, WHOLE_V1BETA1
from tests.support.random_objects import Change, changed, changes
from tests.support.registry_sides import GATES, RELEASE, comparable, ours

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(version(DEFAULT) > RELEASE, reason="before 1.34 the real API server has no resource.k8s.io/v1"),
]

Answer = dict[str, Any]

SHARDS = ROUNDS
OF_VERSIONS = {"v1": WHOLE, "v1beta2": WHOLE, "v1beta1": WHOLE_V1BETA1}
gates = st.sampled_from([{}, {}, dict.fromkeys(GATES, True), dict.fromkeys(GATES, False)])


def same(api_server: OracleProgram, command: Mapping[str, Any]) -> Answer:
    """Send a command to both, and expect one answer."""
    answer = api_server.ask(**command)
    if "panic" in answer:
        # A capacity's step of zero: up to 1.36 the real server divides by it, and ours takes it.
        assert "integer divide by zero" in answer["panic"]
        return {}
    expected, actual = comparable(answer), comparable(ours(command))
    assert actual == expected
    return expected


def wholes(version: str) -> st.SearchStrategy[tuple[str, Answer]]:
    """Kinds with one of their objects."""
    return st.sampled_from([(kind, dict(whole)) for kind, wholes in OF_VERSIONS[version].items() for whole in wholes])


def check(
    api_server: OracleProgram,
    version: str,
    whole: tuple[str, Answer],
    at_create: list[Change],
    at_update: list[Change],
    status: bool,
    gates: Answer,
) -> None:
    kind, first = whole[0], changed(whole[1], at_create, OF_DEVICES)
    asked = {"kind": kind, "version": version, "gates": gates}
    created = same(api_server, {"cmd": "create", "object": first, **asked})
    if "object" not in created:
        return
    in_v1 = created if version == "v1" else same(api_server, {"cmd": "convert", "object": created["object"], **asked})
    # The status is another part of the object, which a claim has without having been created with it.
    status_of = {"status": first["status"]} if "status" in first else {}
    metadata = {**created["object"]["metadata"], "resourceVersion": "1"}
    before, old = ({**answer["object"], "metadata": metadata, **status_of} for answer in (created, in_v1))
    update = {"cmd": "update", "old": old, "object": changed(before, at_update, OF_DEVICES), **asked}
    same(api_server, {**update, "subresource": "status" if status and kind == "ResourceClaim" else ""})


EXPRESSIONS = (
    "true",
    'device.driver == "a"',
    "device.driver ==",
    'device.driver = "a"',
    "(true",
    "true)",
    "",
    '"a',
    "'a' 'b'",
    'device.drive == "a"',
    'devic.driver == "a"',
    "a.b.c == 1",
    "device.driver",
    "1",
    'device.attributes["a"].x',
    'device.attributes["a"].x == 1',
    "foo(device)",
    "device.driver.foo()",
    "device.driver == 1",
    '1 + "a" == 2',
    'device.capacity["a"].x.compareTo(quantity("1Gi")) >= 0',
    "[1,2].isSorted()",
    '"a".find("b") == ""',
    'url("http://a").getHost() == "a"',
    'cidr("10.0.0.0/8").containsIP(ip("10.0.0.1"))',
    "sets.contains([1],[1])",
    'quantity("1").add(1) == quantity("2")',
    '!format.named("a").hasValue()',
    "[1].all(i, v, v > 0)",
    '{"a":1}.transformMap(k, v, v > 0) == {"a":true}',
    "cel.bind(x, 1, x == 1)",
    'device.?attributes["a"].x.orValue(1) == 1',
    "1 < 2.0",
    "@",
    "true &&",
    "device.attributes[1].x == 1",
    "size(device.driver)",
    "!device.driver",
    'isSemver("x") && unknown',
    'isSemver("1", true)',
    "true\n &&",
    "[optional.of(1)].unwrapOpt() == [1]",
    "math.greatest(1,2) == 2",
    "[1].slice(0,1) == [1]",
    "[2,1].sort() == [1,2]",
    "[[1]].flatten().distinct() == [1]",
    "device.allowMultipleAllocations",
    'true ? 1 : "a"',
    "1 == 1u",
    '"\u00e9" == \u00e9',
)
"""Those that an API server takes, some with what our library lacks, and those that it refuses, with all of the text."""


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression_is_taken_or_refused_as_by_the_real_api_server(api_server: OracleProgram, expression: str) -> None:
    selected = {"selectors": [{"cel": {"expression": expression}}]}
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}}

    same(
        api_server, {"cmd": "create", "kind": "DeviceClass", "object": {**device_class, "spec": selected}, "gates": {}}
    )


@pytest.mark.parametrize("version", OF_VERSIONS)
@pytest.mark.parametrize("shard", range(5 * SHARDS))
def test_same_as_the_real_strategies(api_server: OracleProgram, shard: int, version: str) -> None:
    run = given(whole=wholes(version), at_create=changes, at_update=changes, status=st.booleans(), gates=gates)(
        lambda **drawn: check(api_server, version, **drawn)
    )
    compared()(seed(SEED + shard)(run))()
