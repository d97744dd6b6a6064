"""A story as data: nodes, plugins and steps. The document format of ``*.yaml`` stories, published as a JSON Schema.

`document` reads it from YAML with positions, `crosscheck` looks at what no single part can know.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictStr, model_validator
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from .expectations.expectation import Expectation, NodeExpectation
from .kubernetes import KubernetesCondition, KubernetesVersion, is_met
from .node_spec import NodeSpec
from .part import Name, Part
from .plugin_spec import PluginSpec
from .verbs.action import (
    Action,
    AddStaticPod,
    Advance,
    Apply,
    CreateFile,
    CreateFolder,
    Delete,
    ExitContainer,
    MoveFile,
    RemoveFile,
    RemoveFolder,
    RemoveStaticPod,
    WriteFile,
    verb_of,
)
from .verbs.hardware_action import (
    Fail,
    FailDevice,
    FailNvml,
    Heal,
    HealDevice,
    HealNvml,
    PartitionGpu,
    describe_device,
    describe_gpu,
)
from .verbs.node_action import (
    ChangeCheckpoint,
    FillDisk,
    FreeDisk,
    PauseRuntime,
    RebootNode,
    RefuseCri,
    RestartKubelet,
    ResumeRuntime,
    StartKubelet,
    StopKubelet,
    SyncNodeStatus,
)
from .verbs.plugin_action import (
    AnswerRpc,
    EndStream,
    KillPlugin,
    ListDevices,
    PausePlugin,
    PluginAction,
    RegisterPlugin,
    ResumePlugin,
    SignalPlugin,
    StartPlugin,
    StopPlugin,
    StopServer,
)
from .verbs.pod_action import Annotate, Bind, Label, MetadataAction

DEFAULT_NODE = "node-1"


_NO_VERBS = frozenset({"name", "kubernetes"})


class Step(Part):
    """One verb of a story, with a label for the reader of a failure.

    Attributes:
        kubernetes: Leave the step out where the story is played on another version than this.
    """

    name: StrictStr | None = None
    kubernetes: KubernetesCondition | None = None
    apply: Apply | None = None
    add_static_pod: AddStaticPod | None = None
    remove_static_pod: RemoveStaticPod | None = None
    delete: Delete | None = None
    exit_container: ExitContainer | None = None
    bind: Bind | None = None
    annotate: Annotate | None = None
    label: Label | None = None
    restart_kubelet: RestartKubelet | None = None
    stop_kubelet: StopKubelet | None = None
    start_kubelet: StartKubelet | None = None
    reboot_node: RebootNode | None = None
    change_checkpoint: ChangeCheckpoint | None = None
    fill_disk: FillDisk | None = None
    free_disk: FreeDisk | None = None
    sync_node_status: SyncNodeStatus | None = None
    pause_runtime: PauseRuntime | None = None
    resume_runtime: ResumeRuntime | None = None
    refuse_cri: RefuseCri | None = None
    start_plugin: StartPlugin | None = None
    stop_plugin: StopPlugin | None = None
    kill_plugin: KillPlugin | None = None
    pause_plugin: PausePlugin | None = None
    resume_plugin: ResumePlugin | None = None
    signal_plugin: SignalPlugin | None = None
    register_plugin: RegisterPlugin | None = None
    list_devices: ListDevices | None = None
    answer_rpc: AnswerRpc | None = None
    end_stream: EndStream | None = None
    stop_server: StopServer | None = None
    fail: Fail | None = None
    heal: Heal | None = None
    fail_device: FailDevice | None = None
    heal_device: HealDevice | None = None
    partition_gpu: PartitionGpu | None = None
    fail_nvml: FailNvml | None = None
    heal_nvml: HealNvml | None = None
    create_file: CreateFile | None = None
    write_file: WriteFile | None = None
    move_file: MoveFile | None = None
    remove_file: RemoveFile | None = None
    create_folder: CreateFolder | None = None
    remove_folder: RemoveFolder | None = None
    advance: Advance | None = None
    expect: Expectation | None = None

    @model_validator(mode="after")
    def _one_verb(self) -> Step:
        given = self.model_fields_set - _NO_VERBS
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
        case Apply(pod=pod) | Delete(pod=pod) | RemoveStaticPod(pod=pod) | AddStaticPod(manifest=Apply(pod=pod)):
            return f"{verb_of(action)} {'' if 'Pod' in verb_of(action) else 'pod '}{pod}"
        case Fail(gpu=gpu, xid=None):
            return f"{describe_gpu(gpu)} falls off the bus"
        case Fail(gpu=gpu, xid=xid, lost=lost):
            return f"XID {xid} on {describe_gpu(gpu)}{', which falls off the bus' if lost else ''}"
        case Heal(gpu=gpu):
            return f"heal {describe_gpu(gpu)}"
        case FailDevice(device=device):
            return f"{describe_device(device)} falls ill"
        case HealDevice(device=device):
            return f"heal {describe_device(device)}"
        case PartitionGpu(gpu=gpu, mig=mig):
            return f"MIG on GPU {gpu}: {mig if isinstance(mig, str) else ', '.join(mig) or 'no devices'}"
        case FailNvml(call=call, error=error):
            return f"{call} answers {error}"
        case HealNvml():
            return "NVML answers as usual"
        case Bind(pod=pod):
            return f"{verb_of(action)} pod {pod}"
        case MetadataAction():
            return f"{verb_of(action)} {action.subject}"
        case ExitContainer(pod=pod, code=code):
            return f"a container of pod {pod} exits with {code}"
        case AnswerRpc(plugin=plugin, rpc=rpc):
            return f"answerRpc {rpc.value} of plugin {plugin}"
        case PluginAction(plugin=plugin):
            return f"{verb_of(action)} {plugin}"
        case RefuseCri(calls=calls):
            return f"the container runtime refuses {', '.join(calls) or 'nothing'}"
        case ChangeCheckpoint(to=to):
            return f"the checkpoint becomes {to.value}"
        case CreateFile(path=path) | WriteFile(path=path) | MoveFile(path=path) | RemoveFile(path=str(path)):
            return f"{verb_of(action)} {path}"
        case CreateFolder(path=path) | RemoveFolder(path=path):
            return f"{verb_of(action)} {path}"
        case _:
            return verb_of(action)


_ACTION_FIELDS = tuple(field for field in Step.model_fields if field not in {*_NO_VERBS, "expect"})
VERBS = tuple(_alias(field) for field in (*_ACTION_FIELDS, "expect"))
"""Every verb a step may have, by its key."""
Step.model_config["json_schema_extra"] = {"oneOf": [{"required": [verb]} for verb in VERBS]}


class Scenario(Part):
    """A whole story; `name` equals the stem of its file.

    Attributes:
        kubernetes: The versions on which it can be played; on any other it is skipped.
        versions: The Kubernetes versions that it is played on one after the other, on all nodes; once, on the nodes'
            own, where it is left out.
    """

    name: Name
    description: StrictStr
    kubernetes: KubernetesCondition | None = None
    versions: Annotated[tuple[KubernetesVersion, ...], Field(min_length=1)] | None = None
    nodes: Annotated[tuple[NodeSpec, ...], Field(min_length=1)] = (NodeSpec(name=DEFAULT_NODE),)
    plugins: tuple[PluginSpec, ...] = ()
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]

    def on_kubernetes(self, version: str) -> Scenario:
        """The same story with this Kubernetes version on every node."""
        nodes = tuple(node.model_copy(update={"kubernetes": version}) for node in self.nodes)
        return self.model_copy(update={"nodes": nodes})

    @property
    def fits(self) -> bool:
        """Whether it can be played on the version of the first node."""
        return self.kubernetes is None or is_met(self.kubernetes, self.nodes[0].kubernetes)

    @property
    def asks_pod_resources(self) -> bool:
        """Whether it expects anything of a PodResources API; the others are spared the calls."""
        return any(step.expect is not None and step.expect.asks_pod_resources for step in self.steps)

    @property
    def pods_to_get(self) -> tuple[str, ...]:
        """The pods of which it expects an answer to Get of a PodResources API."""
        expected = (step.expect for step in self.steps)
        found = {pod for one in expected if isinstance(one, NodeExpectation) for pod in one.pod_resources_get}
        return tuple(sorted(found))

    @property
    def changed_files(self) -> tuple[str, ...]:
        """The paths of a node at which its steps may make files."""
        actions = [step.action for step in self.steps]
        made = [one.path for one in actions if isinstance(one, CreateFile | CreateFolder)]
        return (*made, *(one.to for one in actions if isinstance(one, MoveFile)))

    @property
    def reads_checkpoints(self) -> bool:
        """Whether it expects anything of a checkpoint."""
        return any(isinstance(step.expect, NodeExpectation) and step.expect.checkpoint for step in self.steps)

    def has_step(self, step: Step) -> bool:
        """Whether a step is played on the version of the first node."""
        return step.kubernetes is None or is_met(step.kubernetes, self.nodes[0].kubernetes)


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
