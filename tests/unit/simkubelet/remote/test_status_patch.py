from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.api.decoding.definitions import schema_of
from simkubelet.cluster.api.patching.patches import strategic_merge
from simkubelet.remote.status_patch import status_patch

POD = schema_of("", "v1", "Pod")
CONDITIONS = st.dictionaries(
    st.sampled_from(["Ready", "Initialized", "PodScheduled", "DisruptionTarget"]),
    st.fixed_dictionaries({"status": st.sampled_from(["True", "False"])}, optional={"reason": st.just("Because")}),
).map(lambda by_type: [{"type": name, **rest} for name, rest in by_type.items()])
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running"]),
        "conditions": CONDITIONS,
        "podIPs": st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2"]), unique=True).map(
            lambda ips: [{"ip": ip} for ip in ips]
        ),
        "containerStatuses": st.lists(
            st.fixed_dictionaries({"name": st.just("main"), "restartCount": st.integers(0, 2)}), max_size=1
        ),
    },
)


def sorted_items(status: dict[str, Any]) -> dict[str, Any]:
    """A status without empty lists, which say what absent ones say, and with the others in one order."""
    lists = {name: sorted(value, key=repr) for name, value in status.items() if isinstance(value, list)}
    return {name: lists.get(name, value) for name, value in status.items() if value != []}


@given(old=STATUSES, new=STATUSES)
def test_server_makes_new_status_of_patch(old: dict[str, Any], new: dict[str, Any]) -> None:
    patched = strategic_merge({"status": old}, {"status": status_patch(old, new)}, POD)

    assert sorted_items(patched["status"]) == sorted_items(new)


@given(STATUSES)
def test_same_status_needs_no_patch(status: dict[str, Any]) -> None:
    assert status_patch(status, status) == {}


def test_absent_and_null_are_the_same() -> None:
    old = {"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "main"}]}
    new = {
        "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}],
        "containerStatuses": [{"name": "main", "finishedAt": None}],
    }

    assert status_patch(old, new) == {}


def test_conditions_of_others_are_not_named() -> None:
    old = {"conditions": [{"type": "example.com/gate", "status": "False"}, {"type": "Ready", "status": "False"}]}
    new = {"conditions": [{"type": "example.com/gate", "status": "False"}, {"type": "Ready", "status": "True"}]}

    assert status_patch(old, new) == {"conditions": [{"type": "Ready", "status": "True"}]}
