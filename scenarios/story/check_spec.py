"""What makes a story a check of `simkubelet conform`: what it is about, and what a plugin has to be for it to apply."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field, StrictBool, StrictStr

from .part import Count, KubernetesVersion, Part


class Severity(StrEnum):
    """What a check that does not pass means."""

    FAILURE = "failure"
    """Pods fail, or devices are lost or given twice."""
    WARNING = "warning"
    """The plugin works on, but breaks a rule or leaves something behind."""


class Needs(Part):
    """What a plugin must have for a check to apply.

    Attributes:
        devices: How many devices at least.
        registers: It calls Register. A kubelet finds the socket of any other in ``plugins_registry``, and asks it.
        found: It does not, so that the kubelet finds its socket.
        pre_start: It asks for PreStartContainer.
        preferred_allocation: It offers GetPreferredAllocation.
        breakable: Its profile says how a device breaks.
        healable: Its profile says how that device is healed.
        many: Its profile says how it lists many devices.
        passed: Checks by their ids that it has to pass first: of a plugin that fails one, this check measures nothing.
            Those that do not apply to the plugin do not count.
    """

    devices: Count = 1
    registers: Literal[True] | None = None
    found: Literal[True] | None = None
    pre_start: Literal[True] | None = None
    preferred_allocation: Literal[True] | None = None
    breakable: StrictBool = False
    healable: StrictBool = False
    many: StrictBool = False
    passed: tuple[StrictStr, ...] = ()


class CheckSpec(Part):
    """The section `check` of a story.

    Attributes:
        since: The first Kubernetes version whose kubelets do so.
        severity: `failure` or `warning`: what it means where the story does not come true.
        kubelet: What real kubelets do.
        why: Why it matters.
        fix: How to fix a plugin that does not pass.
        needs: What a plugin must have for the check to apply.
    """

    since: KubernetesVersion
    severity: Severity = Severity.FAILURE
    kubelet: StrictStr
    why: StrictStr
    fix: StrictStr
    needs: Needs = Field(default_factory=Needs)


class StandsFor(StrEnum):
    """What a profile's steps do to a device."""

    BREAK = "break"
    HEAL = "heal"
