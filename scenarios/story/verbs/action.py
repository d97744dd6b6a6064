"""What a step does: the base of all verbs, each of which declares itself in one class.

The class is the document's part, read and checked, and a backend takes it as it is; a selector such as
``{heldBy: trainer}`` is resolved when the step is performed, see `selection`. It also has all else that is known of the
verb: its key, its title, the capability that it needs, the events that it causes, and what it refers to. `Step`, the
JSON Schema and the page about stories are made from these classes; each backend has a handler for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from pydantic import BaseModel

from ...trace.trace import Event
from ..capability import Capability
from ..part import Name, Part
from ..positioned import DataPath


class Action(BaseModel):
    """Base of all verbs: what a step asks a backend to perform.

    Attributes:
        verb: The key in a story: ``restartKubelet`` for `RestartKubelet`.
        section: The heading in the page about stories below which the verb stands.
        capability: What a backend must be able to do; None where every one can.
        events: What it leaves in the trace, at once or soon afterwards.
    """

    verb: ClassVar[str]
    section: ClassVar[str]
    capability: ClassVar[Capability | None] = None
    events: ClassVar[tuple[type[Event], ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        cls.verb = cls.__name__[0].lower() + cls.__name__[1:]

    @property
    def title(self) -> str:
        """What it does in a few words."""
        return self.verb

    @property
    def needed(self) -> frozenset[Capability]:
        """All that a backend must be able to do."""
        return frozenset(() if self.capability is None else (self.capability,))

    @property
    def pods_named(self) -> Iterable[tuple[str, DataPath]]:
        """The pods that steps before this one must have created, each with the path of its name below the verb."""
        return ()

    @property
    def files_made(self) -> tuple[str, ...]:
        """The paths of a node at which it may make files."""
        return ()


class NodeAction(Action, Part):
    """Base of the verbs that act on one node; the only one where none is named."""

    node: Name | None = None
