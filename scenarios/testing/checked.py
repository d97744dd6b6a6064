"""Parts of a story that a test gives as Python values: read as from a file, and refused in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from fakegpu import profile_names
from simkubelet.model.errors import InputError

from ..story.complaints import complaints
from ..story.crosscheck import is_supported, unknown, unsupported
from ..story.document import installed, shown_path
from ..story.part import Part
from ..story.specs import NodeSpec

P = TypeVar("P", bound=Part)


def checked(model: type[P], what: str, values: Mapping[str, Any]) -> P:
    """Return a part of a story.

    Args:
        model: The part's class.
        what: What the values are, for the message.
        values: Keys and values as a story has them.

    Raises:
        InputError: They are no such part; the message has all that is wrong.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        found = complaints(error.errors(include_url=False), model)
        wrong = "; ".join(f"{shown_path(one.path)}: {one.message}".removeprefix(": ") for one in found)
        raise InputError(f"{what}: {wrong}") from None


def checked_node(values: Mapping[str, Any]) -> NodeSpec:
    """Return a node as a story describes it.

    Raises:
        InputError: There is no such key, Kubernetes version or GPU profile.
    """
    node = checked(NodeSpec, "node", values)
    if not is_supported(node.kubernetes, installed().kubernetes):
        raise InputError(f"node: kubernetes: {unsupported(node.kubernetes, installed().kubernetes)}")
    if node.gpus is not None and node.gpus.profile not in profile_names():
        raise InputError(f"node: gpus.profile: {unknown('profile', node.gpus.profile, profile_names())}")
    return node
