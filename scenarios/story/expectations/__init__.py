"""What a story may expect of the world: one class for each subject, and the list of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Union

from pydantic import Discriminator, Tag

from .expectation import Expectation
from .node_expectation import NodeExpectation, PluginExpectation
from .pod_expectation import PodExpectation

EXPECTATIONS: Final[Mapping[str, type[Expectation]]] = {
    one.subject_key: one for one in (NodeExpectation, PodExpectation, PluginExpectation)
}
"""The key of its subject -> class."""


def _subject_tag(value: Any) -> str | None:
    """The tag of the class whose subject is given; another's may be given, too, where it is one of the class' keys."""
    if isinstance(value, Expectation):
        return f"({value.subject_key})"
    given = EXPECTATIONS.keys() & value.keys() if isinstance(value, Mapping) else set()
    meant = [key for key in sorted(given) if given <= EXPECTATIONS[key].model_fields.keys()]
    return f"({meant[0]})" if len(meant) == 1 else None


if TYPE_CHECKING:
    AnyExpectation = Expectation
else:
    AnyExpectation = Annotated[
        Union[tuple(Annotated[one, Tag(f"({key})")] for key, one in EXPECTATIONS.items())],  # noqa: UP007  # made of a tuple
        Discriminator(
            _subject_tag,
            custom_error_type="subject",
            custom_error_message=f"expected a mapping with exactly one of {', '.join(map(repr, EXPECTATIONS))}",
        ),
    ]
"""One expectation; its subject's key says which."""

__all__ = [
    "EXPECTATIONS",
    "AnyExpectation",
    "Expectation",
    "NodeExpectation",
    "PluginExpectation",
    "PodExpectation",
]
