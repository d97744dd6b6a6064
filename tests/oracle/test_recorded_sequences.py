"""The recorded sequences: the real manager still answers as it did, and ours answers as the real one of its minor."""

from __future__ import annotations

from typing import Any

import pytest

from simkubelet.model.version import DEFAULT
from tests.support.kubelet_sides import Programs
from tests.support.sequences import SEQUENCES, play, read_sequences, record

pytestmark = pytest.mark.oracle

every_sequence = pytest.mark.parametrize(
    "sequence", [pytest.param(sequence, id=sequence["name"]) for sequence in read_sequences(SEQUENCES)]
)


@every_sequence
async def test_the_real_manager_answers_as_recorded(oracle_programs: Programs, sequence: dict[str, Any]):
    if oracle_programs.minor != DEFAULT:
        pytest.skip(f"recorded on {DEFAULT}, this is {oracle_programs.minor}")

    differences = await play(sequence, oracle_programs.oracle, oracle_programs.stub)

    assert not differences, "\n".join(map(str, differences))


@every_sequence
async def test_simulated_manager_answers_as_the_real_one(oracle_programs: Programs, sequence: dict[str, Any]):
    if oracle_programs.minor != DEFAULT:
        sequence = await record(sequence, oracle_programs.oracle, oracle_programs.stub)

    differences = await play(sequence, oracle_programs.ours, oracle_programs.stub)

    assert not differences, "\n".join(map(str, differences))
