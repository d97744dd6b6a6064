"""No line ends the program that drives a DRA manager: what is odd in it is the answer's error."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkubelet.stdio.__main__ import DRA_COMMANDS
from tests.support.dra_node import DraWorld, claim_object, pod_object

names = st.sampled_from(["metadata", "spec", "status", "name", "uid", "c1", "p1", "default", "resourceClaims", "kind"])
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(-3, 3), st.text(max_size=3), names),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)
GOOD: dict[str, Any] = {
    "pod": pod_object("p1", "c1"),
    "object": claim_object("c1", "p1"),
    "kind": "ResourceClaim",
    "container": "c",
    "status": {"containerStatuses": [{"name": "c"}]},
    "driver": "d",
    "endpoint": "d.sock",
    "services": ["v1.DRAPlugin"],
    "name": "c1",
    "namespace": "default",
    "uid": "p1",
    "active": [],
    "text": "",
    "value": True,
}
COMMANDS = sorted(set(DRA_COMMANDS) - {"sleep", "updates"})


@st.composite
def odd_objects(draw: st.DrawFn, good: Any) -> Any:
    """A good value, of which one part may be anything."""
    if draw(st.integers(0, 3)) == 0:
        return draw(values)
    if isinstance(good, dict) and good:
        chosen = draw(st.sampled_from(sorted(good)))
        return {**good, chosen: draw(odd_objects(good[chosen]))}
    if isinstance(good, list) and good:
        return [draw(odd_objects(good[0])), *good[1:]]
    return good


@st.composite
def commands(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(COMMANDS))
    fields = [field for field in DRA_COMMANDS[name].takes if field in GOOD]
    chosen = draw(st.sampled_from(fields)) if fields else ""
    return {"cmd": name, **{f: draw(odd_objects(GOOD[f])) if f == chosen else GOOD[f] for f in fields}}


@settings(max_examples=60, deadline=None)
@given(sent=st.lists(commands(), max_size=4))
def test_every_line_is_answered(tmp_path_factory: pytest.TempPathFactory, sent: list[dict[str, Any]]) -> None:
    folder: Path = tmp_path_factory.mktemp("dra")

    async def play() -> None:
        async with asyncio.TaskGroup() as tasks:
            world = DraWorld(folder, tasks)
            await world.manager("start")
            await world.manager("put", kind="ResourceClaim", object=GOOD["object"])
            for command in sent:
                answer = await world.ask("manager", command)
                assert answer["ok"] or answer["error"], json.dumps(command)
                await world.clock.advance(31)
            await world.close()

    asyncio.run(play())
