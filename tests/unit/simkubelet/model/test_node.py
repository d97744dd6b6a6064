from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from simkubelet.model.node import (
    ConditionStatus,
    DeviceCapacity,
    NodeCondition,
    NodeStatus,
    ReportSchedule,
    has_changed,
    updated,
    with_conditions,
    with_extended_resources_reset,
)

MACHINE = dict.fromkeys(("cpu", "memory", "pods", "ephemeral-storage"), 8)
BARE = NodeStatus(capacity=MACHINE, allocatable=MACHINE)


def at(now: float, status: NodeStatus = BARE) -> NodeStatus:
    return with_conditions(status, now=now)


def ready_of(status: NodeStatus) -> NodeCondition:
    return status.conditions[-1]


def test_healthy_node_has_four_conditions_with_ready_last():
    status = at(7)

    assert [(c.type.value, c.status.value, c.reason, c.message) for c in status.conditions] == [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    assert {(c.last_heartbeat_time, c.last_transition_time) for c in status.conditions} == {(7, 7)}


def test_heartbeat_continues_while_the_transition_stays():
    first = at(0)

    second = at(10, first)

    assert {(c.last_heartbeat_time, c.last_transition_time) for c in second.conditions} == {(10, 0)}
    assert not has_changed(first, second)


def test_node_without_native_resources_is_not_ready():
    status = at(0, NodeStatus(capacity={"cpu": 1, "pods": 1}))

    assert (ready_of(status).status, ready_of(status).reason) == (ConditionStatus.FALSE, "KubeletNotReady")
    assert ready_of(status).message == "missing node capacity for resources: memory, ephemeral-storage"


def test_condition_that_others_set_to_unknown_turns():
    first = at(0)
    lost = replace(first, conditions=tuple(replace(c, status=ConditionStatus.UNKNOWN) for c in first.conditions))

    back = at(50, lost)

    assert {c.last_transition_time for c in back.conditions} == {50}


def test_update_and_reset_leave_the_conditions_alone():
    status = at(0)
    devices = DeviceCapacity({"example.com/gpu": 2}, {"example.com/gpu": 1}, frozenset({"example.com/old"}))

    new = updated(status, MACHINE, devices)

    assert new.conditions == status.conditions
    assert new.capacity == {**MACHINE, "example.com/gpu": 2, "example.com/old": 0}
    assert new.allocatable == {**MACHINE, "example.com/gpu": 1, "example.com/old": 0}
    assert with_extended_resources_reset(new).capacity == {**MACHINE, "example.com/gpu": 0, "example.com/old": 0}


def test_unchanged_status_is_reported_every_five_minutes_after_a_first_time_of_its_own():
    schedule = ReportSchedule("node-1")
    reports = []
    for now in range(0, 1800, 10):
        if schedule.is_due(now, is_changed=False):
            schedule.reported(now, is_changed=False)
            reports.append(now)

    pauses = [after - before for before, after in pairwise(reports)]
    assert 150 <= pauses[0] <= 450
    assert set(pauses[1:]) == {300}


def test_changed_status_is_reported_at_once():
    schedule = ReportSchedule("node-1")
    schedule.reported(0, is_changed=False)

    assert schedule.is_due(10, is_changed=True)
    assert not schedule.is_due(10, is_changed=False)
