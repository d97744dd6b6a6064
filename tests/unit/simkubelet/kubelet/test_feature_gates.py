"""The flag --feature-gates, as Kubernetes components read it."""

from __future__ import annotations

import pytest

from simkubelet.kubelet import read_feature_gates
from simkubelet.model.errors import InputError
from simkubelet.model.version import version


def test_entries_are_read_and_the_last_one_counts() -> None:
    entries = ["DynamicResourceAllocation=true", " ResourceHealthStatus = F", "", "DynamicResourceAllocation=0"]

    assert read_feature_gates(entries, version("1.33")) == {
        "DynamicResourceAllocation": False,
        "ResourceHealthStatus": False,
    }


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("ResourceHealthStatus", "missing bool value for ResourceHealthStatus"),
        (
            "ResourceHealthStatus=yes",
            'invalid value of ResourceHealthStatus=yes, err: strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        ("NoSuchGate=true", "unrecognized feature gate: NoSuchGate; those simulated in 1.33 are "),
        ("ContainerRestartRules=true", "unrecognized feature gate: ContainerRestartRules; "),
    ],
    ids=["no value", "no bool", "unknown", "of a later minor"],
)
def test_what_a_component_does_not_start_with_is_refused(entry: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_feature_gates([entry], version("1.33"))

    assert str(refused.value).startswith(message)
