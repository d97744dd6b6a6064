"""Random selectors in CEL, by the real compiler and interpreter and by ours: the estimate, the answer, what it cost."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, event, given, seed, settings

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
from tests.support.oracle import EXAMPLES, ROUNDS, SEED
from tests.support.random_expressions import DEVICE, DRIVER, expressions

pytestmark = pytest.mark.oracle

RELEASE = max(version(os.environ.get("SIMKUBELET_ORACLE_VERSION", "1.34")), version("1.34"))
VIEW = device_view(DRIVER, DEVICE)
OF_THE_PACKAGE = re.compile(
    "error parsing regexp|duplicate|cannot|conversion|syntax|range error|Major|Minor|Patch|nvalid"
)
"""Errors that the package words otherwise."""


class RealCompiler:
    """The real compiler of selectors as a process."""

    def __init__(self, path: str) -> None:
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def select(self, expression: str, device: JSON | None = DEVICE) -> JSON:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"cmd": "select", "expression": expression, "driver": DRIVER, "device": device, "sharing": True}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return {key: answer[key] for key in ("estimate", "matches", "cost", "failure", "error") if key in answer}

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="session")
def real() -> Iterator[RealCompiler]:
    path = os.environ.get("SIMKUBELET_ORACLE_ALLOCATOR")
    if path is None:
        pytest.skip("no oracle: SIMKUBELET_ORACLE_ALLOCATOR is not set, as the nox session `oracle` does")
    compiler = RealCompiler(path)
    yield compiler
    compiler.close()


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
def test_same_costs_as_the_real_compiler_and_interpreter(real: RealCompiler, shard: int) -> None:
    def check(expression: str) -> None:
        expected, actual = real.select(expression), ours(expression)
        event("matches" if "matches" in expected else expected.get("failure", "error")[:20])
        if "error" in expected or "error" in actual:
            return
        if OF_THE_PACKAGE.search(expected.get("failure", "")):
            assert "failure" in actual
            actual["failure"] = expected["failure"]

        assert actual == expected

    settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )(seed(SEED + shard)(given(expression=expressions())(check)))()
