"""What tests/conftest.py does, in a project of its own that has this conftest."""

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


def test_waiting_tests_begin_in_turn_with_the_longest(pytester: pytest.Pytester, project: pytest.Pytester) -> None:
    for module, number in (("test_any", 3), ("test_docs", 2), ("test_nvidia_stories", 2)):
        pytester.makepyfile(**{module: "".join(f"def test_{n}(): pass\n" for n in range(number))})

    begun = project.runpytest_inprocess("--collect-only", "-q", "test_any.py", "test_docs.py", "test_nvidia_stories.py")

    in_turn = ["test_nvidia_stories.py::test_0", "test_docs.py::test_0"]
    in_turn += ["test_nvidia_stories.py::test_1", "test_docs.py::test_1"]
    assert begun.outlines[:7] == [*in_turn, *(f"test_any.py::test_{n}" for n in range(3))]


@pytest.mark.parametrize("folders", [["process", "e2e"], ["process"]])
def test_seconds_of_parts_are_printed_where_there_are_several(project: pytest.Pytester, folders: list[str]) -> None:
    project.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\nmarkers = nvidia_go")
    body = "import pytest\ndef test_one(): pass\n@pytest.mark.nvidia_go\ndef test_two(): pass\n"
    for folder in folders:
        place = project.mkdir("tests") if folder == "process" else project.path / "tests"
        (place / folder).mkdir()
        (place / folder / f"test_{folder}.py").write_text(body if folder == "e2e" else "def test_it(): pass\n")

    lines = project.runpytest_inprocess("tests").outlines

    printed = [line.split()[1] for line in lines if line.endswith((" process", " e2e", " nvidia"))]
    assert sorted(printed) == (["e2e", "nvidia", "process"] if len(folders) > 1 else [])
