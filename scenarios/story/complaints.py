"""What is wrong with a story, in the words of its author: where, what was expected, what was found.

Pydantic reports it about the story's own parts, the API server's strict decoding about the manifests of pods.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, Tag
from pydantic_core import ErrorDetails

from simkubelet.cluster import FieldFault, field_faults
from simkubelet.model.errors import InputError
from simkubelet.model.pod import pod_from_manifest

from .part import DataPath

_EXPECTED = {
    "bool_type": "expected true or false",
    "dict_type": "expected a mapping",
    "int_type": "expected a whole number",
    "mapping_type": "expected a mapping",
    "model_attributes_type": "expected a mapping",
    "model_type": "expected a mapping",
    "string_type": "expected text",
    "tuple_type": "expected a list",
}
_WITH_LIMIT = {
    "enum": "expected {expected}",
    "greater_than_equal": "expected {ge} or more",
    "literal_error": "expected {expected}",
    "string_pattern_mismatch": "expected text of the form {pattern}",
    "string_too_long": "expected at most {max_length} characters",
    "too_short": "expected at least {min_length} item",
}
_PYDANTIC_TYPES = {
    "array": "tuple_type",
    "boolean": "bool_type",
    "integer": "int_type",
    "object": "dict_type",
    "string": "string_type",
}
"""A type in OpenAPI -> what pydantic reports where a value is of another one."""
_OWN_WORDS_FOR_THE_FOUND = {"duration", "verb", "missing", "nothing", "program", "file", "gone", "object"}


@dataclass(frozen=True, slots=True)
class Complaint:
    """What is wrong at a path of a document; `is_about_key` where it is the key, not the value."""

    path: DataPath
    message: str
    is_about_key: bool = False


def complaints(errors: Iterable[ErrorDetails], model: type[BaseModel]) -> Iterator[Complaint]:
    """Turn pydantic's errors about a document into complaints, in the order of the errors."""
    found = [_ModelError(error, model) for error in errors]
    fixed_by_renaming = {error.meant for error in found}
    for error in found:
        if not error.is_aftermath and (error.kind != "missing" or error.path not in fixed_by_renaming):
            yield error.complaint


def manifest_complaints(manifest: Mapping[str, Any], path: DataPath) -> Iterator[Complaint]:
    """What the API server refuses about a pod's manifest when it decodes it strictly, as kubectl asks it to.

    Args:
        manifest: As the story has it.
        path: Where it is in the story.
    """
    found = list(object_complaints({**manifest, "apiVersion": "v1", "kind": "Pod"}, path))
    yield from found
    if found:
        return
    try:
        pod_from_manifest(manifest)
    except InputError as error:
        yield Complaint(path, str(error))


def object_complaints(manifest: Mapping[str, Any], path: DataPath) -> Iterator[Complaint]:
    """The same about an object of any kind; what its values say is not looked at."""
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    for fault in field_faults(dict(manifest), group, version, manifest["kind"]):
        yield _fault_complaint(fault, (*path, *fault.path))


def _fault_complaint(fault: FieldFault, path: DataPath) -> Complaint:
    if not fault.reason:
        close = difflib.get_close_matches(str(path[-1]), fault.known, n=1)
        return Complaint(path, _unknown_key(close[0] if close else None), is_about_key=True)
    kind = _PYDANTIC_TYPES.get(fault.wanted, "")
    return Complaint(path, _expected_but_found({"type": kind, "input": fault.value, "msg": fault.reason, "loc": path}))


def _unknown_key(meant: object) -> str:
    return f"unknown key; did you mean '{meant}'?" if meant else "unknown key"


class _ModelError:
    """One error; `meant` is the path that an unknown key was probably meant to be."""

    def __init__(self, error: ErrorDetails, model: type[BaseModel]) -> None:
        self._error = error
        self.kind = error["type"]
        self.path = _data_path(error["loc"])
        self.meant: DataPath | None = None
        if self.kind == "extra_forbidden":
            close = difflib.get_close_matches(str(self.path[-1]), _keys_at(model, error["loc"][:-1]), n=1)
            self.meant = (*self.path[:-1], close[0]) if close else None

    @property
    def is_aftermath(self) -> bool:
        """Whether it only says that a list is too short because its items are wrong."""
        given = self._error["input"]
        return self.kind == "too_short" and isinstance(given, Sequence) and len(given) > 0

    @property
    def complaint(self) -> Complaint:
        if self.kind == "missing":
            return Complaint(self.path[:-1], f"missing key '{self.path[-1]}'")
        is_about_key = self.kind == "extra_forbidden" or "[key]" in self._error["loc"]
        return Complaint(self.path, self._message(), is_about_key)

    def _message(self) -> str:
        if self.kind == "extra_forbidden":
            return _unknown_key(self.meant[-1] if self.meant else None)
        return _expected_but_found(self._error)


def _expected_but_found(error: ErrorDetails) -> str:
    """What was expected at a place, and what was found there."""
    kind, found = error["type"], error["input"]
    if kind in _WITH_LIMIT:
        expected = _WITH_LIMIT[kind].format(**error.get("ctx", {}))
    else:
        expected = _EXPECTED.get(kind, error["msg"])
    if kind in _OWN_WORDS_FOR_THE_FOUND:
        return expected
    hint = "; put it in quotes" if kind == "string_type" and isinstance(found, int | float) else ""
    close = difflib.get_close_matches(str(found), _choices(error), n=1)
    hint = f"; did you mean '{close[0]}'?" if close else hint
    return f"{expected}; found {_short(found)}{hint}"


def _choices(error: ErrorDetails) -> list[str]:
    if error["type"] not in {"literal_error", "enum"}:
        return []
    return [choice.strip(" '") for part in error["ctx"]["expected"].split(",") for choice in part.split(" or ")]


def _short(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _data_path(location: tuple[int | str, ...]) -> DataPath:
    """The location in the document: without the tags of unions, which are in parentheses, and without ``[key]``."""
    return tuple(part for part in location if not _is_tag(part) and part != "[key]")


def _is_tag(part: int | str) -> bool:
    return isinstance(part, str) and part.startswith("(") and part.endswith(")")


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys that the model at a location knows."""
    models: Mapping[str, type[BaseModel]] = {"": model}
    for part in location:
        if isinstance(part, int):
            continue
        if part in models:
            models = {"": models[part]}
            continue
        fields = [field for one in models.values() for field in one.model_fields.values() if field.alias == part]
        # Anything else is a key of a mapping.
        models = dict(_models_in(fields[0].annotation)) if fields else models
    return [field.alias for one in models.values() for field in one.model_fields.values() if field.alias]


def _models_in(annotation: Any, tag: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Tag -> model class for all that an annotation may hold; without a tag the class' name."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield tag or annotation.__name__, annotation
        return
    if get_origin(annotation) is Annotated:
        tag = next((extra.tag for extra in annotation.__metadata__ if isinstance(extra, Tag)), tag)
        annotation = annotation.__origin__
        yield from _models_in(annotation, tag)
        return
    for argument in get_args(annotation):
        yield from _models_in(argument, tag)
