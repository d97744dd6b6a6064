from __future__ import annotations

import pytest

from plugin.nvml.events import APPLICATION_XIDS, XidPolicy


def _policy(disable: str = "", enable: str = "") -> XidPolicy:
    return XidPolicy.from_environment({"DP_DISABLE_HEALTHCHECKS": disable, "DP_ENABLE_HEALTHCHECKS": enable})


@pytest.mark.parametrize(
    ("disable", "enable", "ignored", "watched"),
    [
        pytest.param("", "", {13, 31, 43, 45, 68, 109}, {48, 79, 555}, id="application errors are ignored by default"),
        pytest.param("48, 79", "", {13, 48, 79}, {555}, id="listed ones are ignored as well"),
        pytest.param("-48,x,,79 ", "", {13, 79}, {48}, id="what is no XID is passed over"),
        pytest.param("48,99999999999999999999", "", {48}, {79}, id="too large a number is no XID"),
        pytest.param("", "31", {13}, {31}, id="enabled beats the application errors"),
        pytest.param("11", "11", {13}, {11}, id="enabled beats disabled"),
        pytest.param("", "all", set(), {13, 48, 555}, id="all enabled ignores nothing"),
        pytest.param("ALL", "XIDs", set(), {13, 48, 555}, id="all enabled beats all disabled, in any case of letters"),
        pytest.param("", "0", set(), {13, 555}, id="zero enabled acts as all"),
    ],
)
def test_xids_are_ignored_as_listed(disable: str, enable: str, ignored: set[int], watched: set[int]) -> None:
    policy = _policy(disable, enable)

    assert not policy.ignores_everything
    assert {xid for xid in ignored | watched if policy.ignores(xid)} == ignored


@pytest.mark.parametrize(
    ("disable", "enable"),
    [
        pytest.param("all", "", id="all"),
        pytest.param("48,xids", "", id="xids among others"),
        pytest.param("0", "", id="zero"),
        pytest.param("all", "48", id="single ones enabled do not bring it back"),
    ],
)
def test_everything_disabled_means_no_health_check(disable: str, enable: str) -> None:
    assert _policy(disable, enable).ignores_everything


def test_unset_variables_are_as_empty_ones() -> None:
    assert XidPolicy.from_environment({}) == XidPolicy(APPLICATION_XIDS, frozenset())
