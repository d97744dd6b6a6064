"""A real control plane for the tests of each process, whose programs the nox session `join` builds and names."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from simkubelet.remote import ApiClient, read_kubeconfig
from tests.support.joined_nodes import PROGRAMS, control_plane
from tools.control_plane import ControlPlane


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    programs = os.environ.get(PROGRAMS)
    if not programs:
        pytest.skip(f"{PROGRAMS} is not set: run nox -s join, which builds a control plane")
    with control_plane(Path(programs)) as running:
        yield running


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[ApiClient]:
    async with ApiClient(read_kubeconfig(plane.kubeconfig)) as client:
        yield client
