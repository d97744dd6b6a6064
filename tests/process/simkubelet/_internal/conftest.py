"""A node's folder, and views of it by each way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.views import WAYS, Node, node_of


@pytest.fixture(params=WAYS)
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    with node_of(request.param) as made:
        yield made
