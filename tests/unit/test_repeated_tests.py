"""`--flake` of tests/conftest.py, in a project of its own that has this conftest."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).parents[1] / "conftest.py"
FAILS_EACH_THIRD_TIME = """
    import pytest

    ROUNDS = []

    @pytest.fixture
    def place(tmp_path):
        return tmp_path

    @pytest.mark.parametrize("word", ["a"])
    def test_flaky(word, place):
        assert place not in ROUNDS
        ROUNDS.append(place)
        assert len(ROUNDS) % 3

    def test_steady():
        pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makepyfile(FAILS_EACH_THIRD_TIME)
    return pytester


def test_flake_runs_each_chosen_test_so_often(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("--flake", "6", "-k", "flaky")

    result.assert_outcomes(passed=4, failed=2, deselected=6)
    result.stdout.fnmatch_lines(["FAILED *test_flaky?*round 3*", "FAILED *test_flaky?*round 6*"])


def test_flake_overrides_reruns(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("--flake", "3", "--reruns", "2", "-k", "flaky")

    result.assert_outcomes(passed=2, failed=1, deselected=3)
    assert "RERUN" not in result.stdout.str()


def test_without_flake_each_test_runs_once(project: pytest.Pytester) -> None:
    project.runpytest_inprocess().assert_outcomes(passed=2)
