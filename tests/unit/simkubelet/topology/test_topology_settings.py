"""What a kubelet says when it is started with topology settings that it refuses."""

from __future__ import annotations

import re

import pytest

from simkubelet.model.config import TopologySettings
from simkubelet.model.errors import InputError
from simkubelet.model.version import version
from simkubelet.topology.policy import PolicyOptions, policy_options

CLOSEST = "prefer-closest-numa-nodes"
MAX_NODES = "max-allowable-numa-nodes"
FLAT = dict.fromkeys(range(2), (10, 10))


def options_of(minor: str, policy: str = "restricted", gates: dict[str, bool] | None = None, **settings):
    return policy_options(TopologySettings(policy, numa_nodes=range(2), **settings), version(minor), gates or {})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param(
            {"policy": "strict"},
            'invalid configuration: topologyManagerPolicy (--topology-manager-policy) "strict" must be one of: '
            '["none" "best-effort" "restricted" "single-numa-node"]',
            id="policy",
        ),
        pytest.param(
            {"scope": "node"},
            'invalid configuration: topologyManagerScope (--topology-manager-scope) "node" must be one of: '
            '"container", or "pod"',
            id="scope",
        ),
        pytest.param({"numa_nodes": (64,)}, "NUMA node 64: the nodes of a machine are numbered from 0 to 63", id="64"),
        pytest.param({"numa_nodes": (0, 0)}, "NUMA nodes [0, 0]: each node of a machine stands once", id="twice"),
        pytest.param(
            {"numa_nodes": (0, 1), "distances": {0: (10, 20)}},
            "NUMA node 1: 0 distances; give its distance to each node from 0 to 1",
            id="distances",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        TopologySettings(**settings)


@pytest.mark.parametrize(
    ("minor", "gates", "options", "message"),
    [
        pytest.param(
            "1.26",
            {},
            {CLOSEST: "true"},
            "topology manager policy options map[prefer-closest-numa-nodes:true] require feature gates "
            '"TopologyManager", "TopologyManagerPolicyOptions" enabled',
            id="gate off in 1.26",
        ),
        pytest.param(
            "1.27",
            {},
            {CLOSEST: "true"},
            "topology manager policy options map[prefer-closest-numa-nodes:true] require feature gates "
            '"TopologyManagerPolicyOptions" enabled',
            id="gate off in 1.27",
        ),
        pytest.param(
            "1.27",
            {"TopologyManagerPolicyOptions": True},
            {CLOSEST: "true"},
            'Topology Manager Policy Alpha-level Options not enabled, but option "prefer-closest-numa-nodes" provided',
            id="alpha option",
        ),
        pytest.param(
            "1.32",
            {"TopologyManagerPolicyBetaOptions": False},
            {MAX_NODES: "9"},
            'Topology Manager Policy Beta-level Options not enabled, but option "max-allowable-numa-nodes" provided',
            id="beta option, old words",
        ),
        pytest.param(
            "1.34",
            {"TopologyManagerPolicyBetaOptions": False},
            {MAX_NODES: "9"},
            'topology manager policy beta-level options not enabled, but option "max-allowable-numa-nodes" provided',
            id="beta option",
        ),
        pytest.param(
            "1.30",
            {},
            {MAX_NODES: "9"},
            'unknown Topology Manager Policy option: "max-allowable-numa-nodes"',
            id="option of a later minor",
        ),
        pytest.param(
            "1.34",
            {},
            {CLOSEST: "yes"},
            'bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "yes": invalid syntax',
            id="no truth value",
        ),
        pytest.param(
            "1.34",
            {},
            {MAX_NODES: "many"},
            'unable to convert policy option to integer "max-allowable-numa-nodes": strconv.Atoi: parsing "many": '
            "invalid syntax",
            id="no number",
        ),
        pytest.param(
            "1.34",
            {},
            {MAX_NODES: "9223372036854775808"},
            'unable to convert policy option to integer "max-allowable-numa-nodes": strconv.Atoi: parsing '
            '"9223372036854775808": value out of range',
            id="number too large",
        ),
        pytest.param(
            "1.34",
            {},
            {MAX_NODES: "9" * 5000},
            'unable to convert policy option to integer "max-allowable-numa-nodes": strconv.Atoi: parsing '
            f'"{"9" * 5000}": value out of range',
            id="number of 5000 digits",
        ),
        pytest.param(
            "1.34",
            {},
            {MAX_NODES: "7"},
            'the minimum value of "max-allowable-numa-nodes" should not be less than 8',
            id="number too small",
        ),
        pytest.param(
            "1.34",
            {},
            {CLOSEST: "true"},
            "cannot discover NUMA topology: error getting NUMA distances from cadvisor",
            id="no distances",
        ),
    ],
)
def test_options_that_a_minor_refuses(minor, gates, options, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        options_of(minor, gates=gates, options=options)


def test_machine_without_numa_nodes_needs_no_distances():
    settings = TopologySettings("restricted", options={CLOSEST: "true"}, numa_nodes=())

    assert policy_options(settings, version("1.34"), {}).prefers_closest


@pytest.mark.parametrize(
    ("minor", "gates"),
    [
        ("1.27", {"TopologyManagerPolicyOptions": True, "TopologyManagerPolicyAlphaOptions": True}),
        ("1.28", {}),
        ("1.31", {}),
        ("1.32", {"TopologyManagerPolicyBetaOptions": False}),
        ("1.37", {"TopologyManagerPolicyBetaOptions": False}),
    ],
)
def test_closest_nodes_can_be_preferred(minor, gates):
    options = options_of(minor, gates=gates, options={CLOSEST: "T"}, distances=FLAT)

    assert options == PolicyOptions(prefers_closest=True)


@pytest.mark.parametrize(
    ("minor", "gates"), [("1.31", {}), ("1.34", {}), ("1.35", {"TopologyManagerPolicyBetaOptions": False})]
)
def test_number_of_nodes_can_be_raised(minor, gates):
    assert options_of(minor, gates=gates, options={MAX_NODES: "+16"}) == PolicyOptions(max_numa_nodes=16)


def test_machine_of_more_than_eight_nodes_needs_the_option_unless_the_policy_is_none():
    large = {"numa_nodes": range(9)}

    with pytest.raises(InputError, match=r"^unsupported on machines with more than 8 NUMA Nodes$"):
        policy_options(TopologySettings("best-effort", **large), version("1.34"), {})
    policy_options(TopologySettings("best-effort", options={MAX_NODES: "9"}, **large), version("1.34"), {})
    policy_options(TopologySettings("none", **large), version("1.34"), {})


def test_options_are_read_without_a_policy_up_to_1_27():
    gates = {"TopologyManagerPolicyOptions": True}

    with pytest.raises(InputError, match="unknown Topology Manager Policy option"):
        options_of("1.27", "none", gates, options={"colour": "red"})
    options_of("1.28", "none", gates, options={"colour": "red"})
