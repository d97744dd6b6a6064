"""The JSON Schema of stories, for editors: descriptions from docstrings, examples from the built-in stories."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from .model import PARAMETERS, STEP_KEYS, Scenario
from .stories import builtin, contents


def documented(model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """What the docstring of a class says: its first paragraph, and attribute -> text of ``Attributes``, each a line."""
    text, _, attributes = inspect.cleandoc(model.__doc__ or "").partition("Attributes:\n")
    attributes = textwrap.dedent(attributes.partition("\n\n")[0])
    found = re.findall(r"^(\w+): (.*(?:\n(?!\w+: ).*)*)", attributes, re.MULTILINE)
    return _line(text.partition("\n\n")[0]), {name: _line(about) for name, about in found}


def _line(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")


def _about_fields(model: type[BaseModel]) -> dict[str, str]:
    """Attribute -> what the class or the nearest of its bases says about it."""
    classes = [one for one in model.__mro__ if issubclass(one, BaseModel)]
    return {name: text for one in reversed(classes) for name, text in documented(one)[1].items()}


class _StorySchema(GenerateJsonSchema):
    """Optional means that a key may be left out; no key takes null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        model = schema["cls"]
        made["description"] = documented(model)[0]
        about, properties = _about_fields(model), made.get("properties", {})
        for name, field in model.model_fields.items():
            if name in about and (field.alias or name) in properties:
                properties[field.alias or name]["description"] = about[name]
        return made


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a story document (draft 2020-12)."""
    plain = Scenario.model_json_schema(schema_generator=_StorySchema)
    schema = _or_references(plain)
    schema["properties"][PARAMETERS] = plain["properties"][PARAMETERS]
    schema["$defs"][_REFERENCE] = {
        "type": "string",
        "pattern": r"\$\{[^{}]*\}",
        "description": "A text with parameters of the story, such as ${count}.",
    }
    properties = schema["$defs"]["Step"]["properties"]
    for key, example in _examples().items():
        properties[key]["examples"] = [example]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


_REFERENCE: Final = "Reference"
"""The name of the schema of a text with a parameter in it."""
_FORMS: Final = frozenset({"pattern", "enum", "const", "maxLength"})
"""Keywords of texts that have to be of some form."""
_ABOUT: Final = ("description", "title", "default")


def _or_references(schema: Any) -> Any:
    """The same schema, in which a text with a parameter can stand for a number, a boolean or a text of some form."""
    if isinstance(schema, list):
        return [_or_references(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if kind in ("integer", "boolean") or ((kind == "string" or "const" in schema) and not _FORMS.isdisjoint(schema)):
        about = {key: schema[key] for key in _ABOUT if key in schema}
        value = {key: part for key, part in schema.items() if key not in _ABOUT}
        return {**about, "anyOf": [value, {"$ref": f"#/$defs/{_REFERENCE}"}]}
    return {key: _or_references(value) for key, value in schema.items()}


def _examples() -> dict[str, Any]:
    """Verb -> what the first built-in story that has it says; a story without a new verb is not read."""
    found: dict[str, Any] = {}
    for path in builtin().values():
        text = path.read_text(encoding="utf-8")
        if any(f" {key}:" in text for key in STEP_KEYS if key not in found):
            for step in contents(path)["steps"]:
                found = {key: value for key, value in step.items() if key in STEP_KEYS} | found
    return found
