"""The smallest plan that fails as a larger one does; what fails is decided by a planted condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.campaign.generator import plan_of
from scenarios.campaign.plan import Plan
from scenarios.campaign.shrinker import smaller

LONG_S = 600.0
RED = "example.com/red"


def applied(plan: Plan) -> list[Any]:
    return [step["apply"] for step in plan.steps if "apply" in step]


def asks_for_red(plan: Plan) -> bool:
    return any(RED in one.get("resources", {}).get("limits", {}) for pod in applied(plan) for one in containers(pod))


def containers(pod: Any) -> list[Any]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def first_plan(fails: Callable[[Plan], bool]) -> Plan:
    return next(plan for plan in (plan_of(7, number) for number in range(1000)) if fails(plan))


def test_plan_of_one_step_is_left_where_one_step_fails() -> None:
    plan = first_plan(asks_for_red)

    smallest = smaller(plan, asks_for_red, LONG_S)

    (step,) = smallest.steps
    assert step["apply"]["spec"].keys() == {"containers"}
    assert [one["resources"]["limits"] for one in containers(step["apply"])] == [{RED: "1"}]
    assert not smallest.is_healed
    assert [set(node) for node in smallest.nodes] == [{"name"}]
    assert smallest.plugins == ()


def test_plan_without_steps_is_left_where_the_world_itself_fails() -> None:
    plan = plan_of(7, 1)

    smallest = smaller(plan, lambda candidate: True, LONG_S)

    assert smallest == Plan(({"name": "node-1"},), (), (), is_healed=False)


def test_steps_that_fail_together_stay_in_their_order() -> None:
    def fails(plan: Plan) -> bool:
        verbs = [next(iter(step)) for step in plan.steps]
        return "restartKubelet" in verbs and "delete" in verbs[verbs.index("restartKubelet") :]

    smallest = smaller(first_plan(fails), fails, LONG_S)

    assert [next(iter(step)) for step in smallest.steps] == ["restartKubelet", "delete"]


@settings(max_examples=25)
@given(number=st.integers(0, 500), wanted=st.sampled_from(["apply", "listDevices", "restartKubelet", "answerRpc"]))
def test_smallest_plan_fails_and_no_step_of_it_can_be_left_out(number: int, wanted: str) -> None:
    plan = plan_of(7, number)
    times = min(2, sum(wanted in step for step in plan.steps))

    def fails(candidate: Plan) -> bool:
        return sum(wanted in step for step in candidate.steps) >= times

    smallest = smaller(plan, fails, LONG_S)

    assert len(smallest.steps) == times
    assert fails(smallest)


def test_plan_stays_as_it_is_when_there_is_no_time() -> None:
    plan = plan_of(7, 1)

    assert smaller(plan, lambda candidate: True, -1.0) == plan
