"""Random objects of a kind, created and updated by the real API server's code and by ours: one answer is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given, seed
from hypothesis import strategies as st

from tests.support.oracle import SEED, OracleProgram, compared
from tests.support.random_objects import Change, Pool, changed, changes
from tests.support.registry_sides import comparable, ours

__all__ = ["compare"]

Answer = dict[str, Any]


def compare(
    api_server: OracleProgram,
    kind: str,
    wholes: st.SearchStrategy[Mapping[str, Any]],
    pool: Pool,
    shard: int,
    subresources: Sequence[str] = ("", "status"),
) -> None:
    """Create objects like whole ones, with changes from a pool, and update them or what a subresource writes.

    Raises:
        AssertionError: The two sides differ.
    """

    def check(whole: Mapping[str, Any], at_create: list[Change], at_update: list[Change], subresource: str) -> None:
        _check(api_server, kind, pool, whole, at_create, at_update, subresource)

    drawn = st.sampled_from(subresources)
    checked = given(whole=wholes, at_create=changes, at_update=changes, subresource=drawn)(check)
    compared()(seed(SEED + shard)(checked))()


def _check(
    api_server: OracleProgram,
    kind: str,
    pool: Pool,
    whole: Mapping[str, Any],
    at_create: list[Change],
    at_update: list[Change],
    subresource: str,
) -> None:
    asked = {"kind": kind, "gates": {}}
    created = _same(api_server, {"cmd": "create", "object": changed(whole, at_create, pool), **asked})
    if not created["ok"]:
        return
    before = created["object"]
    before["metadata"]["resourceVersion"] = "1"
    if "status" in whole and kind == "Pod":
        # A pod is created without most of its status.
        status = {**whole["status"], "qosClass": before["status"]["qosClass"]}
        written = {"cmd": "update", "old": before, "object": {**before, "status": status}, "subresource": "status"}
        answer = _same(api_server, {**written, **asked})
        before = answer["object"] if answer["ok"] else before
    update = {"cmd": "update", "old": before, "object": changed(before, at_update, pool), **asked}
    _same(api_server, {**update, "subresource": subresource if subresource != "status" or "status" in whole else ""})


def _same(api_server: OracleProgram, command: Mapping[str, Any]) -> Answer:
    """Send a command to both, and expect one answer."""
    answer = api_server.ask(**command)
    expected, actual = comparable(answer, without_zeros=True), comparable(ours(command), without_zeros=True)
    assert actual == expected
    return answer
