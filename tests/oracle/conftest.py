"""Both kubelets for the tests of this folder: the programs that the nox session `oracle` built, or a skip."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kubelet_sides import Programs, Sides
from tests.support.oracle import OracleProgram, oracle_program


@pytest.fixture(scope="session")
def oracle_programs() -> Programs:
    programs = Programs.named_by_environment()
    if programs is None:
        pytest.skip("no oracle: SIMKUBELET_ORACLE is not set, as the nox session `oracle` does")
    return programs


@pytest.fixture(scope="session")
def sides(oracle_programs: Programs) -> Iterator[Sides]:
    both = Sides(oracle_programs, ("a", "b"))
    yield both
    both.close()


@pytest.fixture(scope="session")
def api_server() -> Iterator[OracleProgram]:
    """The real API server's rules: ``tests/oracle/registry``."""
    yield from oracle_program("SIMKUBELET_ORACLE_REGISTRY")
