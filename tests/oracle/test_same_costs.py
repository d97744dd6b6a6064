"""Random selectors in CEL, by the real compiler and interpreter and by ours: the estimate, the answer, what it cost."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import event, given, seed

from simkubelet.cluster.cel.run import Run
from simkubelet.cluster.cel.values import EvaluationError, LimitError
from simkubelet.cluster.objects.device_selector import (
    COST_LIMIT,
    CompileError,
    SelectorError,
    compiled_selector,
    device_view,
)
from simkubelet.cluster.objects.objects import JSON
from simkubelet.model.version import version
from tests.support.oracle import ROUNDS, SEED, OracleProgram, compared, oracle_program
from tests.support.random_expressions import DEVICE, DRIVER, expressions, select

pytestmark = pytest.mark.oracle

RELEASE = max(version(os.environ.get("SIMKUBELET_ORACLE_VERSION", "1.34")), version("1.34"))
VIEW = device_view(DRIVER, DEVICE)
OF_THE_PACKAGE = re.compile(
    "error parsing regexp|duplicate|cannot|conversion|syntax|range error|Major|Minor|Patch|nvalid"
)
"""Errors that the package words otherwise."""


@pytest.fixture(scope="session")
def real() -> Iterator[OracleProgram]:
    yield from oracle_program("SIMKUBELET_ORACLE_ALLOCATOR")


def ours(expression: str) -> JSON:
    """The same answer by our compiler."""
    try:
        selector = compiled_selector(expression, release=RELEASE)
    except CompileError as error:
        return {"error": str(error)}
    answer: JSON = {"estimate": selector.greatest_cost}
    try:
        answer["matches"] = selector.matches(VIEW)
    except SelectorError as error:
        answer["failure"] = str(error)
    run = Run({"device": VIEW}, COST_LIMIT)
    with suppress(EvaluationError, LimitError):
        selector.step(run)
    return {**answer, "cost": run.cost}


@pytest.mark.parametrize("shard", range(10 * ROUNDS))
def test_same_costs_as_the_real_compiler_and_interpreter(real: OracleProgram, shard: int) -> None:
    def check(expression: str) -> None:
        expected, actual = select(real, expression), ours(expression)
        event("matches" if "matches" in expected else expected.get("failure", "error")[:20])
        if "error" in expected or "error" in actual:
            return
        if OF_THE_PACKAGE.search(expected.get("failure", "")):
            assert "failure" in actual
            actual["failure"] = expected["failure"]

        assert actual == expected

    compared()(seed(SEED + shard)(given(expression=expressions())(check)))()
