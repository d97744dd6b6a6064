"""What all profiles share: exact keys and types, and sections whose figures name the documents they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel


class Part(BaseModel):
    """Base of everything in a profile: camelCase keys, no others, exact types."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True)


class Section(Part):
    """One group of figures with where they come from."""

    source: str | Mapping[str, Sequence[str]] = Field(description="key of `sources`, or which key each figure has")

    def figures(self) -> set[str]:
        """Keys, as in YAML, of the figures that this section gives."""
        given = ((name, field.alias or name) for name, field in type(self).model_fields.items() if name != "source")
        return {key for name, key in given if name in self.model_fields_set and getattr(self, name) is not None}


class Sourced(Part):
    """Sections of figures, and the documents that these come from."""

    description: str
    sources: Mapping[str, str] = Field(min_length=1, description="documents that the figures come from, by short name")

    def sections(self) -> Iterator[tuple[str, Section]]:
        """Key and value of every section."""
        for key in type(self).model_fields:
            value: Any = getattr(self, key)
            if isinstance(value, Section):
                yield key, value

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        for key, section in self.sections():
            if complaint := _source_complaint(section, self.sources):
                raise ValueError(f"{key}.source: {complaint}")
        return self


def _source_complaint(section: Section, documents: Mapping[str, str]) -> str | None:
    named = {section.source: section.figures()} if isinstance(section.source, str) else section.source
    if unknown := sorted(set(named) - set(documents)):
        return f"no '{unknown[0]}' under sources"
    listed = [figure for figures in named.values() for figure in figures]
    if missing := sorted(section.figures() - set(listed)):
        return f"names no document for {missing[0]}"
    if wrong := next(
        (figure for figure in listed if figure not in section.figures() or listed.count(figure) > 1), None
    ):
        return f"{wrong} is no figure of this section, or is named twice"
    return None
