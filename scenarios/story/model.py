"""A story as data: nodes, plugins and steps. The document format of ``*.yaml`` stories, published as a JSON Schema.

`document` reads it from YAML with positions, `crosscheck` looks at what no single part can know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, StrictBool, StrictStr, create_model, model_validator
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import PydanticCustomError

from .bug import Bug
from .check_spec import CheckSpec, StandsFor
from .expectations import AnyExpectation
from .part import (
    PARAMETER_NAME,
    Action,
    Capability,
    KubernetesCondition,
    KubernetesVersion,
    Name,
    ParameterValue,
    Part,
    is_met,
)
from .specs import NodeSpec, PluginSpec
from .verbs import VERBS
from .verbs.node_action import RebootNode, RestartKubelet, StartKubelet, StopKubelet
from .verbs.plugin_action import MeasurePlugin, PausePlugin, ResumePlugin, SignalPlugin, StartPlugin
from .verbs.pod_action import Apply, Create

DEFAULT_NODE = "node-1"
PARAMETERS: Final = "parameters"
"""The key by which a story declares its parameters."""
_Tag = Annotated[StrictStr, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]


class _Step(Part):
    """One verb of a story, with a label for the reader of a failure.

    Attributes:
        name: The label that a failure shows.
        expect: What must be observed, of a node, a pod or a plugin.
        kubernetes: Leave the step out where the story is played on another version than this.
        stands_for: Of a check: the profile's step of this name takes the place of this one.
    """

    name: StrictStr | None = None
    kubernetes: KubernetesCondition | None = None
    stands_for: StandsFor | None = None
    expect: AnyExpectation | None = None

    @model_validator(mode="after")
    def _one_verb(self) -> _Step:
        given = sorted(self.model_fields_set - {"name", "kubernetes", "stands_for"})
        if len(given) != 1:
            found = ", ".join(map(to_camel, given)) or "none"
            raise PydanticCustomError("verb", f"needs exactly one verb ({', '.join(STEP_KEYS)}); found {found}")
        if getattr(self, given[0]) is None:
            raise PydanticCustomError("verb", f"'{to_camel(given[0])}' has no value; write {{}} for an empty one")
        return self

    @property
    def action(self) -> Action | None:
        """What the step does to the world; None where it expects something of it."""
        values = (getattr(self, field) for field in self.model_fields_set)
        return next((value for value in values if isinstance(value, Action)), None)

    @property
    def verb(self) -> str:
        """The key of the step's verb."""
        return "expect" if self.action is None else self.action.verb

    @property
    def title(self) -> str:
        """The label, or what the step does in a few words."""
        if self.name:
            return self.name
        if self.expect is not None:
            return self.expect.title
        return "" if self.action is None else self.action.title


STEP_KEYS: Final = (*VERBS, "expect")
"""What a step may have beside its name and its condition: exactly one of these."""
if TYPE_CHECKING:
    Step = _Step
else:
    Step = create_model(
        "Step",
        __base__=_Step,
        __module__=__name__,
        __doc__=_Step.__doc__,
        **{to_snake(verb): (action | None, None) for verb, action in VERBS.items()},
    )
    Step.model_config["json_schema_extra"] = {"oneOf": [{"required": [key]} for key in STEP_KEYS]}


class Scenario(Part):
    """A whole story; `name` equals the stem of its file, without a ``.story`` at its end.

    Attributes:
        name: The stem of the file's name.
        description: What the story shows; listings show the first sentence.
        tags: Words for what it is about, in small letters, by which a run selects stories.
        bug: The bug that it reproduces.
        nodes: The machines and their kubelets; one where it is left out.
        plugins: The device plugins, each run on every node.
        steps: What happens, in order.
        parameters: Name -> default of what a run may set; ``${NAME}`` in any text of the story stands for it.
        kubernetes: The versions on which it can be played; on any other it is skipped.
        check: What makes it a check of `simkubelet conform`.
        runtime_config: Version of an API group, such as ``resource.k8s.io/v1beta1``, and whether the API server serves
            it, as kube-apiserver's ``--runtime-config``.
        versions: The Kubernetes versions that it is played on one after the other, on all nodes; once, on the nodes'
            own, where it is left out.
    """

    name: Name
    description: StrictStr
    tags: tuple[_Tag, ...] = ()
    bug: Bug | None = None
    parameters: Mapping[Annotated[StrictStr, Field(pattern=PARAMETER_NAME)], ParameterValue] = Field(
        default_factory=dict
    )
    kubernetes: KubernetesCondition | None = None
    check: CheckSpec | None = None
    runtime_config: Mapping[StrictStr, StrictBool] = Field(default_factory=dict)
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
        return tuple(sorted({pod for step in self.steps if step.expect for pod in step.expect.pods_to_get}))

    @property
    def changed_files(self) -> tuple[str, ...]:
        """The paths of a node at which its steps may make files."""
        return tuple(path for step in self.steps if step.action is not None for path in step.action.files_made)

    @property
    def reads_checkpoints(self) -> bool:
        """Whether it expects anything of a checkpoint."""
        return any(step.expect is not None and step.expect.reads_checkpoint for step in self.steps)

    @property
    def reads_claims(self) -> bool:
        """Whether it expects anything of a checkpoint of claims."""
        return any(step.expect is not None and step.expect.reads_claims for step in self.steps)

    @property
    def reads_slices(self) -> bool:
        """Whether it expects anything of ResourceSlices."""
        return any(step.expect is not None and step.expect.reads_slices for step in self.steps)

    @property
    def has_claims(self) -> bool:
        """Whether a pod names a ResourceClaim or a template of claims, or a step makes objects of their group."""
        actions = [step.action for step in self.steps]
        pods = (one.manifest["spec"] for one in actions if isinstance(one, Apply))
        return any(isinstance(one, Create) for one in actions) or any(spec.get("resourceClaims") for spec in pods)

    @property
    def stubs_without_process(self) -> frozenset[str]:
        """The stubs of which no step needs that they are processes: they may be tasks of the backend."""
        seen = {
            step.action.plugin
            for step in self.steps
            if isinstance(step.action, PausePlugin | ResumePlugin | SignalPlugin | MeasurePlugin)
        }
        return frozenset(one.name for one in self.plugins if one.builtin == "stub" and not one.tap) - seen

    def has_step(self, step: Step) -> bool:
        """Whether a step is played on the version of the first node."""
        return step.kubernetes is None or is_met(step.kubernetes, self.nodes[0].kubernetes)

    @property
    def needed(self) -> frozenset[Capability]:
        """All that a backend must be able to do to play it on the version of the first node."""
        steps = [step for step in self.steps if self.has_step(step)]
        by_part = [*(node.needed for node in self.nodes), *(plugin.needed for plugin in self.plugins)]
        by_part += [step.action.needed for step in steps if step.action is not None]
        by_part += [step.expect.needed for step in steps if step.expect is not None]
        on_the_whole = {
            Capability.SEVERAL_NODES: len(self.nodes) > 1,
            Capability.API_VERSIONS: bool(self.runtime_config),
            Capability.PLUGIN_BEFORE_KUBELET: self._starts_before_kubelet(steps),
        }
        return frozenset(one for one, is_needed in on_the_whole.items() if is_needed).union(*by_part)

    def _starts_before_kubelet(self, steps: Iterable[Step]) -> bool:
        """Whether a step starts a plugin on a node whose kubelet a step before it has stopped."""
        stopped: set[str] = set()
        for step in steps:
            match step.action:
                case StopKubelet(node=node):
                    stopped.add(node or self.nodes[0].name)
                case StartKubelet(node=node) | RestartKubelet(node=node) | RebootNode(node=node):
                    stopped.discard(node or self.nodes[0].name)
                case StartPlugin(node=node) if (node or self.nodes[0].name) in stopped:
                    return True
        return False
