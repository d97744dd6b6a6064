"""A profile: what a user says about the plugin under test and about the node that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from ..story.check_spec import StandsFor
from ..story.document import load_part
from ..story.model import Step
from ..story.part import Count, Part, ResourceName, parse_duration
from ..story.specs import AmdSpec, File, GpuSpec, IluvatarSpec, NodeSpec
from ..story.verbs.pod_action import Apply

Env = Mapping[Annotated[StrictStr, Field(pattern="^[^=]+$")], StrictStr]


def _duration(text: str | None) -> str | None:
    try:
        parse_duration(text)
    except ValueError as error:
        raise PydanticCustomError("duration", "{reason}", {"reason": str(error)}) from error
    return text


class Many(Part):
    """Settings with which a plugin lists many devices.

    Attributes:
        count: How many devices of the resource it lists then.
        env: Added to the plugin's environment.
        files: Added to the node's, such as a configuration.
    """

    count: Annotated[Count, Field(ge=1)]
    env: Env = Field(default_factory=dict)
    files: tuple[File, ...] = ()


class Profile(Part):
    """What a plugin claims; all that is left out is discovered, or not checked.

    Attributes:
        resource: The resource to check, where the plugin has several; by default the first one by name.
        count: How many devices of it the node has; by default as many as the plugin's first list.
        env: Added to the plugin's environment.
        api: Whether the plugin talks to the API server.
        host_network: Whether it uses the host's network, as one with ``api`` does; else it has a loopback device.
        annotations: Added to each pod of a check, where the plugin reads what a scheduler of its own writes there.
        gpus: NVIDIA GPUs of the node, as in a story; `amd`, `iluvatar` and `files` likewise.
        break_: A step of a story that breaks a device, such as ``fail: {gpu: 0, xid: 79}``.
        heal: A step that heals it.
        breaks: How many devices that step makes unhealthy.
        many: How it lists many devices.
        wait: How long it may take to register again or to report a health; by default 15s, after a refusal 45s.
        watch: How long its lists are watched for one that is sent again; by default a little more than a minute, which
            is the longest period that is common. A plugin keeps real time, and so does this.
    """

    resource: ResourceName | None = None
    count: Count | None = None
    env: Env = Field(default_factory=dict)
    api: StrictBool = False
    host_network: StrictBool = False
    annotations: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    gpus: GpuSpec | None = None
    amd: AmdSpec | None = None
    iluvatar: IluvatarSpec | None = None
    files: tuple[File, ...] = ()
    break_: Annotated[Step | None, Field(alias="break")] = None
    heal: Step | None = None
    breaks: Annotated[Count, Field(ge=1)] = 1
    many: Many | None = None
    wait: Annotated[StrictStr | None, AfterValidator(_duration)] = None
    watch: Annotated[StrictStr, AfterValidator(_duration)] = "61s"

    @property
    def with_many(self) -> Profile:
        """The profile with the settings for many devices, where it has some."""
        if self.many is None:
            return self
        env, files = {**self.env, **self.many.env}, (*self.files, *self.many.files)
        return self.model_copy(update={"count": self.many.count, "env": env, "files": files})

    @model_validator(mode="after")
    def _heals_what_it_breaks(self) -> Profile:
        if self.heal is not None and self.break_ is None:
            raise PydanticCustomError("profile", "'heal' has nothing to heal without 'break'")
        for key, step in self.steps.items():
            if step.action is None:
                raise PydanticCustomError("profile", "{key} is a step that does something", {"key": f"'{key}'"})
        return self

    @property
    def steps(self) -> Mapping[StandsFor, Step]:
        """The steps that take the place of those of a check."""
        given = {StandsFor.BREAK: self.break_, StandsFor.HEAL: self.heal}
        return {key: step for key, step in given.items() if step is not None}

    def on(self, node: NodeSpec) -> NodeSpec:
        """A node of a check with what the plugin needs, in place of what the check's own plugin does."""
        return node.model_copy(update={key: getattr(self, key) for key in ("gpus", "amd", "iluvatar", "files")})

    def in_step(self, step: Step) -> Step:
        """A step of a check as the plugin needs it: its own where the check leaves it open, and its pods annotated."""
        if step.stands_for:
            return self.steps.get(step.stands_for, step)
        if not isinstance(step.action, Apply) or not self.annotations:
            return step
        manifest = step.action.manifest
        manifest["metadata"]["annotations"] = {**manifest["metadata"].get("annotations", {}), **self.annotations}
        return step.model_copy(update={"apply": Apply.model_validate(manifest)})


def read_profile(path: Path | None) -> Profile:
    """Read a profile file; the empty profile where there is none.

    Raises:
        DocumentError: It is no profile; with lines and columns.
    """
    return Profile() if path is None else load_part(path, Profile)
