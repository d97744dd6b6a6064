"""The base of what a story may expect of a node, a pod or a plugin: the document's ``expect`` parts.

The keys that are left out expect nothing. Whether an expectation is met is decided in `evaluation`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from ..duration import Duration
from ..part import Part


class Expectation(Part):
    """Base of all expectations: the subject, how long it may take to come true, and how long it must stay so.

    Attributes:
        subject_key: The key that names the subject, and by which a story says which expectation it means.
    """

    subject_key: ClassVar[str]

    within: Duration = 10.0
    holds: Duration = 0.0

    @property
    def subject(self) -> str:
        """The name of the node, pod or plugin."""
        return str(getattr(self, self.subject_key))

    @property
    def expected(self) -> frozenset[str]:
        """The fields that the story gives, without the subject and the times."""
        return frozenset(self.model_fields_set - {self.subject_key, "within", "holds"})

    @property
    def title(self) -> str:
        """What is expected of whom, in a few words."""
        return f"expect {self.subject_key} {self.subject}"

    @property
    def pods_to_get(self) -> tuple[str, ...]:
        """The pods of which it expects an answer to Get of a PodResources API."""
        return ()

    @property
    def reads_checkpoint(self) -> bool:
        """Whether it expects anything of a checkpoint."""
        return False

    @property
    def asks_pod_resources(self) -> bool:
        """Whether it takes a look at the PodResources API."""
        return not {"pod_resources", "pod_resources_get"}.isdisjoint(self.model_fields_set)

    @model_validator(mode="after")
    def _expects_something(self) -> Expectation:
        if not self.expected:
            raise PydanticCustomError("nothing", f"says nothing about the {self.subject_key}; add what is expected")
        return self


Phase = Literal["Pending", "Running", "Succeeded", "Failed"]
