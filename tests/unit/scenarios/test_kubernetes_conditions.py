from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.story.model import Scenario
from scenarios.story.part import is_met, versions_in
from simkubelet.model.version import SUPPORTED, version


@pytest.mark.parametrize(
    ("condition", "kubernetes", "expected"),
    [
        pytest.param(">=1.37", "1.37", True, id="a minor is not older than itself"),
        pytest.param("<1.37", "1.37", False, id="nor younger"),
        pytest.param("<1.26.5", "1.26.4", True, id="patch before"),
        pytest.param("<1.26.5", "1.26", False, id="a minor is its patch that was read"),
        pytest.param(">=1.27, <1.27.2", "1.27.1", True, id="both hold"),
        pytest.param(">=1.27, <1.27.2", "1.26.4", False, id="one fails"),
        pytest.param("<=1.34", "1.34.7", True, id="a minor without a patch is all of it"),
        pytest.param(">1.34", "1.34.7", False, id="and none of it is after it"),
        pytest.param(">1.29,<=1.30", "1.30", True, id="without spaces"),
        pytest.param("<1.26.5 || >=1.27, <1.27.2", "1.26.4", True, id="first side"),
        pytest.param("<1.26.5 || >=1.27, <1.27.2", "1.27.1", True, id="second side"),
        pytest.param("<1.26.5 || >=1.27, <1.27.2", "1.26.9", False, id="between the sides"),
        pytest.param("<1.26.5||>=1.27,<1.27.2", "1.27.2", False, id="after both"),
    ],
)
def test_condition_compares_releases(condition: str, kubernetes: str, expected: bool) -> None:
    assert is_met(condition, kubernetes) is expected


@given(st.sampled_from(SUPPORTED), st.sampled_from(SUPPORTED))
def test_older_and_newer_exclude_each_other(here: str, there: str) -> None:
    assert is_met(f"<{there}", here) is not is_met(f">={there}", here)
    assert is_met(f"<{there}", here) is (version(here) < version(there))


def test_versions_of_a_condition_can_be_checked() -> None:
    assert versions_in(">=1.27.2, <1.28") == ("1.27.2", "1.28")


def test_step_is_left_out_on_other_versions() -> None:
    story = {
        "name": "s",
        "description": "x",
        "steps": [{"kubernetes": "<1.37", "restartKubelet": {}}, {"rebootNode": {}}],
    }
    scenario = Scenario.model_validate(story)

    played = [
        [scenario.on_kubernetes(version).has_step(step) for step in scenario.steps] for version in ("1.36", "1.37")
    ]

    assert played == [[True, True], [False, True]]
