from __future__ import annotations

import pytest

from scenarios.evaluation.verdict import Outcome, Verdict, exit_status, from_error
from simkubelet.model.errors import HostError, InputError, PluginError

V, I, E, U, S = Outcome.VALID, Outcome.INVALID, Outcome.ERROR, Outcome.UNKNOWN, Outcome.SKIPPED  # noqa: E741


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([], 0),
        ([V, V], 0),
        ([S], 0),
        ([V, S], 0),
        ([V, I], 1),
        ([U], 3),
        ([V, U, S], 3),
        ([U, I], 1),
        ([E, V], 2),
        ([U, E], 2),
        ([U, E, I], 1),
    ],
)
def test_exit_status_of_a_run(outcomes: list[Outcome], status: int) -> None:
    assert exit_status(Verdict("story", outcome, 0.1) for outcome in outcomes) == status


def test_first_of_the_gravest_errors_gives_the_reason() -> None:
    group = ExceptionGroup("", [PluginError("a"), ExceptionGroup("", [HostError("b"), HostError("c")])])

    assert from_error(group) == (Outcome.UNKNOWN, "b")
    assert from_error(ExceptionGroup("", [group, InputError("d")])) == (Outcome.ERROR, "d")


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        pytest.param(KeyError("x"), KeyError, id="a bug"),
        pytest.param(ExceptionGroup("", [PluginError("x"), KeyError("y")]), ExceptionGroup, id="a bug among others"),
    ],
)
def test_bugs_go_through(error: Exception, raised: type[Exception]) -> None:
    with pytest.raises(raised):
        from_error(error)
