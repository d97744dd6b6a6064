"""A story as data: nodes, plugins and steps. The document format of ``*.yaml`` stories, published as a JSON Schema.

`document` reads it from YAML with positions, `crosscheck` looks at what no single part can know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StrictStr, model_validator
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from .action import (
    Action,
    Advance,
    Apply,
    CreateFile,
    Delete,
    Fail,
    Heal,
    RemoveFile,
    RestartKubelet,
    describe_gpu,
    verb_of,
)
from .expectation import Expectation
from .part import Name, NodePath, Part

DEFAULT_NODE = "node-1"
DEFAULT_KUBERNETES = "1.34"


class GpuSpec(Part):
    """The fake GPUs of a node, all of one profile."""

    profile: StrictStr
    count: Annotated[int, Field(strict=True, ge=1, le=1024)]


class NodeSpec(Part):
    """A node: its kubelet's minor version, its fake GPUs, and the files that exist when the story begins."""

    name: Name
    kubernetes: StrictStr = DEFAULT_KUBERNETES
    gpus: GpuSpec | None = None
    files: tuple[NodePath, ...] = ()


class PluginSpec(Part):
    """A device plugin, run on every node and started again when it exits, as a DaemonSet would.

    Attributes:
        builtin: One of the plugins that come along.
        command: Any other program's argv.
        args: Appended to the argv of either.
        env: Added to the plugin's environment.
    """

    name: Name
    builtin: Literal["gopher", "nvidia"] | None = None
    command: Annotated[tuple[StrictStr, ...], Field(min_length=1)] | None = None
    args: tuple[StrictStr, ...] = ()
    env: Mapping[Annotated[StrictStr, Field(pattern="^[^=]+$")], StrictStr] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_program(self) -> PluginSpec:
        if (self.builtin is None) == (self.command is None):
            raise PydanticCustomError("program", "needs exactly one of 'builtin' and 'command'")
        return self


class Step(Part):
    """One verb of a story, with a label for the reader of a failure."""

    name: StrictStr | None = None
    apply: Apply | None = None
    delete: Delete | None = None
    restart_kubelet: RestartKubelet | None = None
    fail: Fail | None = None
    heal: Heal | None = None
    create_file: CreateFile | None = None
    remove_file: RemoveFile | None = None
    advance: Advance | None = None
    expect: Expectation | None = None

    @model_validator(mode="after")
    def _one_verb(self) -> Step:
        given = self.model_fields_set - {"name"}
        if len(given) != 1:
            found = ", ".join(sorted(_alias(field) for field in given)) or "none"
            raise PydanticCustomError("verb", f"needs exactly one verb ({', '.join(VERBS)}); found {found}")
        if self.action is None and self.expect is None:
            raise PydanticCustomError("verb", f"'{_alias(given.pop())}' has no value; write {{}} for an empty one")
        return self

    @property
    def action(self) -> Action | None:
        """What the step does to the world; None where it expects something of it."""
        return next((value for field in _ACTION_FIELDS if (value := getattr(self, field)) is not None), None)

    @property
    def verb(self) -> str:
        """The key of the step's verb."""
        return "expect" if self.action is None else verb_of(self.action)

    @property
    def title(self) -> str:
        """The label, or what the step does in a few words."""
        if self.name:
            return self.name
        if self.expect is not None:
            return f"expect {self.expect.subject_key} {self.expect.subject}"
        return "" if self.action is None else _summary(self.action)


def _alias(field: str) -> str:
    return Step.model_fields[field].alias or field


def _summary(action: Action) -> str:
    match action:
        case Apply() | Delete():
            return f"{verb_of(action)} pod {action.pod}"
        case Fail(gpu=gpu, xid=xid):
            return f"XID {xid} on {describe_gpu(gpu)}"
        case Heal(gpu=gpu):
            return f"heal {describe_gpu(gpu)}"
        case CreateFile(path=path) | RemoveFile(path=str(path)):
            return f"{verb_of(action)} {path}"
        case _:
            return verb_of(action)


_ACTION_FIELDS = tuple(field for field in Step.model_fields if field not in {"name", "expect"})
VERBS = tuple(_alias(field) for field in (*_ACTION_FIELDS, "expect"))
"""Every verb a step may have, by its key."""
Step.model_config["json_schema_extra"] = {"oneOf": [{"required": [verb]} for verb in VERBS]}


class Scenario(Part):
    """A whole story; `name` equals the stem of its file."""

    name: Name
    description: StrictStr
    nodes: Annotated[tuple[NodeSpec, ...], Field(min_length=1)] = (NodeSpec(name=DEFAULT_NODE),)
    plugins: tuple[PluginSpec, ...] = ()
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]

    def on_kubernetes(self, minor: str) -> Scenario:
        """The same story with this minor version on every node."""
        nodes = tuple(node.model_copy(update={"kubernetes": minor}) for node in self.nodes)
        return self.model_copy(update={"nodes": nodes})


class _StorySchema(GenerateJsonSchema):
    """Optional means that a key may be left out; no key takes null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a story document (draft 2020-12)."""
    schema = Scenario.model_json_schema(schema_generator=_StorySchema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
