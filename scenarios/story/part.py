"""What every part of a story document has in common: frozen, camelCase keys, unknown keys are errors, no guessing.

Types are strict at the leaves: ``"8"`` is text and ``1.30`` is a number, so neither is taken for the other.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError


class Part(BaseModel):
    """Base of all parts of a story document."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


class FilledPart(Part):
    """Base of those parts that say nothing without a key."""

    @model_validator(mode="after")
    def _names_something(self) -> FilledPart:
        if not self.model_fields_set:
            keys = ", ".join(f"'{field.alias}'" for field in type(self).model_fields.values())
            raise PydanticCustomError("nothing", f"needs at least one of {keys}")
        return self


def _absolute(path: str) -> str:
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts:
        raise PydanticCustomError("path", "expected an absolute path on the node without '..'")
    return str(pure)


Name = Annotated[StrictStr, Field(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=253)]
"""A name as Kubernetes takes it for nodes and pods (DNS subdomain)."""

ResourceName = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$")]
"""A resource as a node publishes it, for example ``nvidia.com/gpu``."""

MetadataKey = Annotated[
    StrictStr,
    Field(pattern=r"^([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"),
]
"""The key of a label or an annotation, for example ``example.com/rack`` (qualified name)."""

LABEL_VALUE: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
"""What the API server takes as a label's value."""

NodePath = Annotated[StrictStr, AfterValidator(_absolute)]
"""A file on the node, as a plugin with host paths would name it."""

Count = Annotated[StrictInt, Field(ge=0)]
"""A whole number, zero or more."""
