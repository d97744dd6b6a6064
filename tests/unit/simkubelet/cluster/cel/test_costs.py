"""Costs of selectors, estimated and actual, and their answers: as the real compiler and interpreter gave them."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from itertools import pairwise

import pytest

from simkubelet.cluster.cel.run import Run
from simkubelet.cluster.cel.values import EvaluationError, LimitError
from simkubelet.cluster.objects.device_selector import (
    COST_LIMIT,
    SelectorError,
    compiled_selector,
    device_view,
)
from simkubelet.cluster.objects.objects import JSON
from simkubelet.model.version import version
from tests.support.random_expressions import DEVICE, DRIVER
from tests.support.recorded_costs import recorded_costs

VIEW = device_view(DRIVER, DEVICE)
LONG = 100_000
"""A cost that takes a moment."""


@pytest.mark.parametrize(
    "recorded",
    [
        pytest.param(each, id=each["expression"][:60], marks=[pytest.mark.slow] if each["cost"] > LONG else [])
        for each in recorded_costs()
    ],
)
def test_costs_and_answer_are_those_recorded(recorded: JSON) -> None:
    selector = compiled_selector(recorded["expression"])
    seen: JSON = {"expression": recorded["expression"], "estimate": selector.greatest_cost}
    try:
        seen["matches"] = selector.matches(VIEW)
    except SelectorError as error:
        seen["failure"] = str(error)
    run = Run({"device": VIEW}, COST_LIMIT)
    with suppress(EvaluationError, LimitError):
        selector.step(run)

    assert {**seen, "cost": run.cost} == recorded


LETTERS = {letter: f'"{letter * 3000}"' for letter in "abc"}
DOUBLED = """.replace("a", "aa")""" * 29


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(
            f"""{LETTERS["a"]}.replace("a", "{"b" * 1600}").replace("b", {LETTERS["c"]}).size() > 0""",
            id="one replacement",
        ),
        pytest.param(f'"a"{DOUBLED}.size() > 0', id="many replacements"),
        pytest.param(f"""cel.bind(x, {LETTERS["a"]}, [{"x, " * 1900}x].join("").size() > 0 && "a" == x)""", id="join"),
        pytest.param(f'cel.bind(x, "a", {"cel.bind(x, x + x, " * 14}x.size() > 0{")" * 15}', id="names"),
    ],
)
def test_memory_stays_small_whatever_the_estimate(expression: str) -> None:
    selector = compiled_selector(expression)
    tracemalloc.start()
    try:
        with suppress(SelectorError):
            selector.matches(VIEW)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 100 << 20


TWICE = "".join(f"cel.bind({one}, [{other}, {other}], " for other, one in pairwise("abcdefghijklmnopqrstuvwxy"))
SHARED = f"cel.bind(a, [1], {TWICE}INNER{')' * (len(TWICE.split('bind')))}"


@pytest.mark.parametrize("inner", ["y == y", "y != y", "y in [y]", "'%s'.format([y]) == ''"])
def test_list_with_another_one_twice_and_again_is_not_read(inner: str) -> None:
    selector = compiled_selector(SHARED.replace("INNER", inner))

    with pytest.raises(SelectorError, match="actual cost limit exceeded"):
        selector.matches(VIEW)


@pytest.mark.parametrize(("minor", "cost"), [("1.36", 1), ("1.37", 2)])
def test_pattern_of_a_function_has_a_cost_from_1_37_on(minor: str, cost: int) -> None:
    assert compiled_selector('matches("abcdefghij", "abcd")', release=version(minor)).greatest_cost == cost


@pytest.mark.parametrize(("minor", "cost"), [("1.36", 2), ("1.37", 1)])
def test_prefix_costs_by_its_own_length_from_1_37_on(minor: str, cost: int) -> None:
    run = Run({"device": VIEW}, COST_LIMIT)

    assert compiled_selector('"abcdefghijkl".startsWith("abc")', release=version(minor)).step(run)

    assert run.cost == cost


@pytest.mark.parametrize("error", [MemoryError, RecursionError, ValueError, RuntimeError, KeyError])
def test_error_of_an_evaluation_is_one_of_the_selector(error: type[Exception]) -> None:
    def fail(_: Run) -> None:
        raise error("broken")

    selector = type(compiled_selector("true"))(0, fail)

    with pytest.raises(SelectorError, match="broken"):
        selector.matches(VIEW)
