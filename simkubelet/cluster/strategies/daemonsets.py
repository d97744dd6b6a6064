"""What the API server fills in and refuses of a DaemonSet.

Source: pkg/apis/apps/v1/defaults.go, ``SetDefaults_DaemonSet``; pkg/registry/apps/daemonset/strategy.go;
pkg/apis/apps/validation/validation.go, ``ValidateDaemonSetSpec`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import re
from typing import Any, Final

from ...model.version import Version
from ..api.errors import FieldError
from ..api.registry.strategy import Strategy, keep_status
from ..objects.node_selection import as_integer, selects
from ..objects.objects import JSON
from .pod.checks import PodRules, non_negative
from .pod.defaults import default_pod_spec
from .pod.equality import same
from .pod.gates import drop_pod_fields
from .pod.not_simulated import not_simulated
from .pod.scheduling import validate_label_selector
from .pod.spec import validate_pod_template
from .rules import Rules

__all__ = ["DaemonSetStrategy", "template_generation"]

_GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"

_AMOUNTS: Final = ("maxUnavailable", "maxSurge")
_ROLLING: Final = "RollingUpdate"
_PERCENT: Final = re.compile(r"[0-9]+%")
_BAD_PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
_NEGATIVE: Final = "must be greater than or equal to 0"
_NO_CHANGE: Final = "field is immutable"


class DaemonSetStrategy(Strategy):
    """The rules of DaemonSets of an API server."""

    validates_alone = True

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def default(self, new: JSON) -> None:
        spec = new.setdefault("spec", {})
        update = spec.setdefault("updateStrategy", {})
        if not update.get("type"):
            update["type"] = _ROLLING
        if update["type"] == _ROLLING:
            rolling = update.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}), self._rules, "DaemonSet")

    def prepare_for_create(self, new: JSON) -> None:
        new.pop("status", None)
        drop_pod_fields(self._rules, new["spec"]["template"]["spec"])
        new["metadata"]["generation"] = 1
        _set_template_generation(new, max(_generation(new), 1))
        new["status"] = _no_pods()

    def validate(self, new: JSON) -> list[FieldError]:
        spec = new["spec"]
        return [
            *_selector(spec, self._rules.release),
            *validate_pod_template(PodRules(self._rules, is_template=True), spec["template"], "spec.template"),
            *_restart_policy(spec["template"].get("spec") or {}),
            *non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds"),
            *_update_strategy(spec["updateStrategy"]),
            *non_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit"),
        ]

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        keep_status(new, old)
        drop_pod_fields(self._rules, new["spec"]["template"]["spec"])
        generation = old["metadata"].get("generation", 0)
        is_new_template = not same(new["spec"].get("template"), old["spec"].get("template"))
        new["metadata"]["generation"] = generation + (is_new_template or not same(new["spec"], old["spec"]))
        _set_template_generation(new, _generation(old) + is_new_template)

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = self.validate(new)
        selector = new["spec"].get("selector")
        if selector != old["spec"].get("selector"):
            errors.insert(0, FieldError.invalid("spec.selector", _shown_selector(selector), _NO_CHANGE))
        return errors

    def warnings(self, new: JSON, old: JSON | None) -> list[str]:
        template = new["spec"]["template"]
        is_new = old is None or template != old["spec"].get("template")
        return not_simulated(template.get("spec") or {}, "spec.template.spec") if is_new else []


def template_generation(daemon_set: JSON) -> str | None:
    """Return the template's generation, which an annotation held before there were revisions."""
    annotations = daemon_set["metadata"].get("annotations") or {}
    generation: str | None = annotations.get(_GENERATION_ANNOTATION)
    return generation


def _no_pods() -> JSON:
    """The counts that have no ``omitempty``; the controller fills them."""
    names = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    return dict.fromkeys(names, 0)


def _generation(daemon_set: JSON) -> int:
    text = template_generation(daemon_set) or "0"
    return as_integer(text) or 0


def _set_template_generation(new: JSON, generation: int) -> None:
    annotations = new["metadata"].get("annotations") or {}
    new["metadata"]["annotations"] = {**annotations, _GENERATION_ANNOTATION: str(generation)}


def _selector(spec: JSON, release: Version) -> list[FieldError]:
    selector = spec.get("selector")
    labels = (spec["template"].get("metadata") or {}).get("labels")
    labels = labels and dict(sorted(labels.items()))
    unmatched = "`selector` does not match template `labels`"
    if selector is None:
        return [FieldError.invalid("spec.template.metadata.labels", labels, unmatched)]
    if errors := validate_label_selector(selector, "spec.selector", release):
        return errors
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return [FieldError.invalid("spec.selector", selector, "empty selector is invalid for daemonset")]
    if not selects(selector, labels or {}):
        return [FieldError.invalid("spec.template.metadata.labels", labels, unmatched)]
    return []


def _shown_selector(selector: JSON | None) -> JSON | None:
    """A selector as a message shows it: its labels in order."""
    labels = (selector or {}).get("matchLabels")
    return {**(selector or {}), "matchLabels": dict(sorted(labels.items()))} if labels else selector


def _restart_policy(spec: JSON) -> list[FieldError]:
    errors = []
    policy = spec.get("restartPolicy")
    if policy != "Always":
        errors.append(FieldError.not_supported("spec.template.spec.restartPolicy", policy, ["Always"]))
    if spec.get("activeDeadlineSeconds") is not None:
        text = "activeDeadlineSeconds in DaemonSet is not Supported"
        errors.append(FieldError.forbidden("spec.template.spec.activeDeadlineSeconds", text))
    return errors


def _update_strategy(strategy: JSON) -> list[FieldError]:
    path = "spec.updateStrategy"
    if strategy["type"] == "OnDelete":
        return []
    if strategy["type"] != _ROLLING:
        rolling = strategy.get("rollingUpdate")
        amounts = rolling and {f"{name[0].upper()}{name[1:]}": rolling.get(name) or 0 for name in _AMOUNTS}
        shown = {"Type": strategy["type"], "RollingUpdate": amounts}
        return [FieldError.not_supported(path, shown, [_ROLLING, "OnDelete"])]
    rolling, path = strategy["rollingUpdate"], f"{path}.rollingUpdate"
    errors = [error for name in _AMOUNTS for error in _amount(rolling[name], f"{path}.{name}")]
    unavailable, surge = (_number(rolling[name]) for name in _AMOUNTS)
    if unavailable and surge:
        text = "may not be set when maxUnavailable is non-zero"
        errors.append(FieldError.invalid(f"{path}.maxSurge", rolling["maxSurge"], text))
    elif not unavailable and not surge:
        errors.append(FieldError.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def _amount(value: Any, path: str) -> list[FieldError]:
    if isinstance(value, str) and not _PERCENT.fullmatch(value):
        return [FieldError.invalid(path, value, _BAD_PERCENT)]
    if isinstance(value, str) and _number(value) > 100:
        return [FieldError.invalid(path, value, "must not be greater than 100%")]
    if isinstance(value, int) and value < 0:
        return [FieldError.invalid(path, value, _NEGATIVE)]
    return []


def _number(value: str | int) -> int:
    if isinstance(value, str):
        return int(value.removesuffix("%")) if _PERCENT.fullmatch(value) else 0
    return value
