"""The verbs of a story that write through the API server, as a scheduler, a controller or kubectl does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field, StrictStr, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from ..part import LABEL_VALUE, MetadataKey, Name, Part

_Text = Annotated[StrictStr | None, WithJsonSchema({"type": ["string", "null"]})]
_LabelValue = Annotated[
    Annotated[StrictStr, Field(pattern=LABEL_VALUE)] | None,
    WithJsonSchema({"type": ["string", "null"], "pattern": LABEL_VALUE}),
]


class Bind(Part):
    """Bind a pod to a node, as the scheduler does that its manifest names; `node` None: the only one."""

    pod: Name
    node: Name | None = None


class MetadataAction(Part):
    """Base: entries of the ``metadata`` of a pod or of a node are set or removed; the others stay."""

    part: ClassVar[str]
    """The key of ``metadata`` that has the entries."""

    pod: Name | None = None
    node: Name | None = None

    @property
    def entries(self) -> Mapping[str, str | None]:
        """Key -> value; None removes the entry."""
        entries: Mapping[str, str | None] = getattr(self, self.part)
        return entries

    @property
    def subject(self) -> str:
        """The object in words."""
        return f"node {self.node}" if self.pod is None else f"pod {self.pod}"

    @model_validator(mode="after")
    def _one_object(self) -> MetadataAction:
        if (self.pod is None) == (self.node is None):
            raise PydanticCustomError("object", "needs exactly one of 'pod' and 'node'")
        return self


class Annotate(MetadataAction):
    """Set annotations of a pod or a node, or remove those whose value is null."""

    part = "annotations"

    annotations: Annotated[Mapping[MetadataKey, _Text], Field(min_length=1)]


class Label(MetadataAction):
    """Set labels of a pod or a node, or remove those whose value is null."""

    part = "labels"

    labels: Annotated[Mapping[MetadataKey, _LabelValue], Field(min_length=1)]


PodAction = Bind | Annotate | Label
