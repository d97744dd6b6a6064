"""Reading Kubernetes' own descriptions of its kinds."""

from __future__ import annotations

from pathlib import Path

from tools.generate import api_schema

PROTO = """\
syntax = "proto2";

package k8s.io.api.core.v1;

// A thing.
message Thing {
  // Its name.
  optional string name = 1;

  repeated k8s.io.api.core.v1.Part parts = 2;

  map<string, .k8s.io.Quantity> amounts = 3;

  optional Source source = 4;
}

message Source {
  optional string path = 7;
}
"""


def test_fields_of_messages_have_number_and_type() -> None:
    messages = dict(api_schema.messages(PROTO))
    thing = messages["io.k8s.api.core.v1.Thing"]
    assert {name: number for name, (number, _) in thing.items()} == {"name": 1, "parts": 2, "amounts": 3, "source": 4}
    assert thing["source"][1] == "io.k8s.api.core.v1.Source"


def test_message_whose_fields_are_inlined_is_named(tmp_path: Path) -> None:
    (tmp_path / "generated.proto").write_text(PROTO)
    schemas = {"io.k8s.api.core.v1.Thing": {"properties": {"name": {}, "parts": {}, "amounts": {}, "path": {}}}}
    numbers = api_schema.field_numbers(schemas, [tmp_path])
    assert numbers["io.k8s.api.core.v1.Thing"]["source"] == [4, "io.k8s.api.core.v1.Source"]
    assert numbers["io.k8s.api.core.v1.Source"] == {"path": 7}


def test_schema_is_left_without_words_and_defaults() -> None:
    reference = {"allOf": [{"$ref": "#/components/schemas/io.k8s.Part"}], "default": {}, "description": "A part."}
    schema = {
        "description": "A thing.",
        "type": "object",
        "properties": {"parts": {"type": "array", "items": reference}},
    }
    assert api_schema.plain(schema) == {
        "type": "object",
        "properties": {"parts": {"type": "array", "items": {"$ref": "io.k8s.Part"}}},
    }


def test_change_of_a_minor_is_a_merge_patch() -> None:
    usual = {
        "A": {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
        "B": {"type": "object"},
        "Gone": {},
    }
    other = {"A": {"properties": {"a": {"type": "integer"}, "c": {}}}, "B": {"type": "object"}, "New": {"type": "x"}}

    assert api_schema.changes(usual, other) == {
        "A": {"properties": {"a": {"type": "integer"}, "b": None, "c": {}}, "required": None},
        "New": {"type": "x"},
    }
