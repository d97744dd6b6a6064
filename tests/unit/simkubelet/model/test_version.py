"""Releases, what differs between them, and gates."""

from __future__ import annotations

import pytest

from simkubelet.model.errors import InputError
from simkubelet.model.version import FEATURE_GATES, SUPPORTED, Difference, version


@pytest.mark.parametrize(
    ("release", "value"),
    [("1.26.4", "old"), ("1.26.5", "new"), ("1.26", "new"), ("1.27.1", "old"), ("1.27.2", "new"), ("1.37", "new")],
)
def test_value_stands_from_its_patch_on(release, value):
    fixed = Difference("", {"1.26": "old", "1.26.5": "new", "1.27": "old", "1.27.2": "new"}, "")

    assert fixed.at(version(release)) == value


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"1.27": 1}, id="first minor missing"),
        pytest.param({"1.26": 1, "1.30": 2, "1.28": 3}, id="out of order"),
        pytest.param({"1.26": 1, "1.30": 1}, id="no change"),
    ],
)
def test_mistaken_row_is_refused(values):
    with pytest.raises(ValueError, match=r"1\.26"):
        Difference("a row", values, "")


@pytest.mark.parametrize("text", ["1.25", "1.99", "2.34", "1.34.x", "v1.34", ""])
def test_unknown_release_is_refused(text):
    with pytest.raises(InputError, match="is not simulated; choose one of"):
        version(text)


def test_minor_stands_for_the_patch_that_was_read():
    assert version("1.34") == version("1.34.4") < version("1.34.7")
    assert version("1.34").kubelet_version == "v1.34.4"


@pytest.mark.parametrize(
    ("release", "chosen", "is_there", "is_on"),
    [
        pytest.param("1.27", {}, False, False, id="not yet"),
        pytest.param("1.27", {"SidecarContainers": True}, False, False, id="cannot be set before it is there"),
        pytest.param("1.28", {}, True, False, id="off by default"),
        pytest.param("1.28", {"SidecarContainers": True}, True, True, id="switched on"),
        pytest.param("1.36", {"SidecarContainers": False}, True, False, id="switched off"),
        pytest.param("1.37", {}, False, True, id="gate gone"),
    ],
)
def test_gate_by_release(release, chosen, is_there, is_on):
    gate = FEATURE_GATES["SidecarContainers"]

    assert gate.exists(version(release)) is is_there
    assert gate.is_on(version(release), chosen) is is_on


def test_every_gate_exists_somewhere():
    assert all(any(gate.exists(version(minor)) for minor in SUPPORTED) for gate in FEATURE_GATES.values())
