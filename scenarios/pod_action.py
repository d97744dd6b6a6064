"""The verbs of a story that stand for a scheduler of its own: what it writes into a pod, and where it binds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, StrictStr

from .part import Name, Part


class Bind(Part):
    """Bind a pod to a node, as the scheduler does that its manifest names; `node` None: the only one."""

    pod: Name
    node: Name | None = None


class Annotate(Part):
    """Set annotations of a pod; those that it has otherwise stay."""

    pod: Name
    annotations: Annotated[Mapping[StrictStr, StrictStr], Field(min_length=1)]


PodAction = Bind | Annotate
