"""The kubelet's own DRA manager and ours: recorded sequences, files that are odd, and random commands to both."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import seed
from hypothesis.stateful import run_state_machine_as_test

from simkubelet.model.version import DEFAULT, DYNAMIC_RESOURCES, FEATURE_GATES, version
from tests.support.compared_dra_managers import MINOR, BothManagers
from tests.support.dra_sequences import play, recorded_sequences
from tests.support.dra_sides import DraSides
from tests.support.kubelet_sides import Answer
from tests.support.oracle import ROUNDS, SEED, LineProcess, compared

pytestmark = pytest.mark.oracle

SHARDS = 10 * ROUNDS
STEPS = 10


@pytest.fixture(scope="session")
def oracle() -> Path:
    path = os.environ.get("SIMKUBELET_ORACLE_DRA")
    if FEATURE_GATES[DYNAMIC_RESOURCES].at(version(MINOR)) is None:
        pytest.skip(f"the DRA manager of {MINOR} is not simulated")
    if path is None:
        pytest.skip("no oracle: SIMKUBELET_ORACLE_DRA is not set, as the nox session `oracle` does")
    return Path(path)


@pytest.fixture(scope="session")
def sides(oracle: Path) -> Iterator[DraSides]:
    both = DraSides(oracle, MINOR)
    yield both
    both.close()


@pytest.mark.skipif(MINOR != DEFAULT, reason="the recordings are those of the usual version")
@pytest.mark.parametrize("sequence", [pytest.param(sequence, id=sequence["name"]) for sequence in recorded_sequences()])
async def test_real_manager_answers_as_recorded(oracle: Path, sequence: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        place = ["--dir", folder]
        driver = [sys.executable, "-m", "tests.support.dra_driver", *place]
        async with LineProcess([str(oracle), *place]) as one, LineProcess(driver) as other:

            async def ask(to: str, command: dict[str, Any]) -> Answer:
                return await (one if to == "manager" else other).ask(**command)

            found = await play(sequence, Path(folder), ask)

    assert not found, "\n".join(found)


def checkpoint(listed: str) -> str:
    """A file with this list of claims, and the checksum that it should have."""
    data = f'{{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":{listed}}}'
    return json.dumps({"Data": data, "Checksum": crc32(data.encode())})


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{}",
        "null",
        "[]",
        "5",
        "true",
        '"text"',
        "gibberish",
        "{} {}",
        '{"Data":',
        '{"Data":""}',
        '{"Data":5}',
        '{"Data":{}}',
        '{"Checksum":"1"}',
        '{"Checksum":-1}',
        '{"Checksum":1.5}',
        '{"Checksum":4294967296}',
        '{"Checksum":4010664294}',
        '{"checksum":4010664294,"more":[]}',
        '{"data":"{}","CHECKSUM":2745614147}',
        checkpoint("null"),
        checkpoint("[]"),
        checkpoint("[{}]"),
        checkpoint(
            '[{"ClaimName":"c1","namespace":"default","PodUIDs":{"p1":{}},"DriverState":{"d":{"Devices":[{}]}}}]'
        ),
        checkpoint('[{"ClaimName":"c1"},{"ClaimName":"c1","ClaimUID":"u"}]'),
        checkpoint(
            '[{"ClaimUID":"u","ClaimName":"c1","Namespace":"default","PodUIDs":{"p2":{},"p1":{}},'
            '"DriverState":{"e":{"Devices":null},"d":{"Devices":[]}}},'
            '{"ClaimUID":"u","ClaimName":"c2","Namespace":"default","PodUIDs":{},"DriverState":{}}]'
        ),
        checkpoint(
            '[{"ClaimUID":"u","ClaimName":"c1","Namespace":"default","PodUIDs":{},"DriverState":{}},'
            '{"ClaimUID":"v","ClaimName":"c1","Namespace":"default","PodUIDs":{},"DriverState":{}}]'
        ),
        checkpoint('[{"ClaimUID":"u","ClaimName":"c1","Namespace":"default","PodUIDs":{},"DriverState":{}},]'),
        checkpoint("xyz"),
    ],
)
def test_both_take_and_refuse_the_same_files(sides: DraSides, text: str) -> None:
    sides.ask("manager", "write_checkpoint", text=text)
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "p"}}
    pod["spec"] = {
        "containers": [{"name": "c", "image": "x", "resources": {"claims": [{"name": "c1"}]}}],
        "resourceClaims": [{"name": "c1", "resourceClaimName": "c1"}],
    }

    for cmd, fields in (("restart", {}), ("claim_infos", {"pod": pod, "container": "c"}), ("checkpoint", {})):
        real, ours = sides.ask("manager", cmd, **fields)
        assert ours == real

    sides.ask("manager", "stop")
    for side in sides.both:
        side.clear()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_same_as_the_real_dra_manager(sides: DraSides, shard: int) -> None:
    machine = type("Machine", (BothManagers,), {"sides": sides})

    run_state_machine_as_test(
        seed(SEED + shard)(machine),
        settings=compared(stateful_step_count=STEPS),
    )
