"""What an update may not change of a pod.

Source: pkg/apis/core/validation/validation.go, ``ValidatePodUpdate``, ``ValidateContainerUpdates``,
``validateOnlyAddedTolerations``, ``validateOnlyDeletedSchedulingGates``, ``validateNodeAffinityMutation``
(kubernetes v1.34.4).
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Sequence
from typing import Any, Final

from ....model.quality_of_service import quality_of_service
from ....model.version import Difference
from ...api.errors import FieldError
from ...objects.objects import JSON
from .checks import Fields, PodRules
from .containers import validate_image
from .equality import same
from .scheduling import validate_tolerations

__all__ = ["validate_spec_update"]

_UPDATABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_OTHER_FIELDS: Final = Difference(
    "the fields that an update of a pod may change, in the text about others",
    {"1.26": f"{', '.join(_UPDATABLE[:-1])} or {_UPDATABLE[-1]}", "1.27": ",".join(_UPDATABLE)},
    "pkg/apis/core/validation/validation.go, ``ValidatePodUpdate`` (kubernetes v1.26.15, v1.27.16)",
)
_NAMES_CLASS: Final = Difference(
    "an update that would change a pod's class of quality of service is refused for that, too",
    {"1.26": False, "1.29": True, "1.32": False},
    "pkg/apis/core/validation/validation.go, ``ValidatePodUpdate`` (kubernetes v1.28.15, v1.29.6, v1.31.14, v1.32.13)",
)
_LINES_AROUND: Final = 3
_MOST_DIFFERING: Final = 400
"""Lines of a spec that are compared for a message."""
_SETTLED: Final = ("activeDeadlineSeconds", "schedulingGates", "tolerations")
_MAX_INT32: Final = 2**31 - 1
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"


def validate_spec_update(rules: PodRules, new: JSON, old: JSON) -> list[FieldError]:
    """What is wrong with a spec beside the one that is stored."""
    errors: list[FieldError] = []
    for kind in ("containers", "initContainers"):
        if len(new.get(kind) or ()) != len(old.get(kind) or ()):
            text = "pod updates may not add or remove containers"
            return [*errors, FieldError.forbidden(f"spec.{kind}", text)]
        for place, container in enumerate(new.get(kind) or ()):
            where = f"spec.{kind}[{place}]"
            errors += [] if container.get("image") else [FieldError.required(f"{where}.image")]
            errors += validate_image(container, where)
    of_deadline = _validate_deadline(new, old)
    errors += of_deadline
    if of_deadline and new.get("activeDeadlineSeconds") is not None:
        return errors
    errors += [*_validate_added_tolerations(rules, new, old), *_validate_gates(new, old)]
    if rules.of(_NAMES_CLASS) and (found := quality_of_service(new)) != quality_of_service(old):
        errors.append(FieldError.invalid("metadata", found, "Pod QoS is immutable"))
    munged = copy.deepcopy(new)
    for kind in ("containers", "initContainers"):
        for container, before in zip(munged.get(kind) or (), old.get(kind) or (), strict=True):
            container["image"] = before.get("image")
    for name in _SETTLED:
        _take(munged, old, name)
    if old.get("terminationGracePeriodSeconds", 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if old.get("schedulingGates"):
        errors += _validate_gated(munged, old)
    if not same(munged, old):
        text = f"pod updates may not change fields other than {rules.of(_OTHER_FIELDS)}\n{_diff(old, munged)}"
        errors.append(FieldError.forbidden("spec", text))
    return errors


def _take(new: JSON, old: Fields, name: str) -> None:
    """Set a field to what it was."""
    new.pop(name, None)
    if name in old:
        new[name] = old[name]


def _diff(old: JSON, new: JSON) -> str:
    """The lines that differ, each with some before and after it; of very many the first ones.

    From the first difference on no more than so many are compared, as the time of that grows with their square.
    """
    before, after = (json.dumps(each, indent=1, sort_keys=True).splitlines(keepends=True) for each in (old, new))
    pairs = zip(before, after, strict=False)
    first = next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(before), len(after)))
    first = max(first - _LINES_AROUND, 0)
    lines = difflib.unified_diff(
        before[first : first + _MOST_DIFFERING], after[first : first + _MOST_DIFFERING], n=_LINES_AROUND
    )
    return "".join([*lines][2:])


def _validate_deadline(new: Fields, old: Fields) -> list[FieldError]:
    path, now, before = "spec.activeDeadlineSeconds", new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if now is None:
        text = "must not update from a positive integer to nil value"
        return [] if before is None else [FieldError.invalid(path, None, text)]
    if not 0 <= now <= _MAX_INT32:
        return [FieldError.invalid(path, now, f"must be between 0 and {_MAX_INT32}, inclusive")]
    if before is not None and before < now:
        return [FieldError.invalid(path, now, "must be less than or equal to previous value")]
    return []


def _validate_added_tolerations(rules: PodRules, new: Fields, old: Fields) -> list[FieldError]:
    def without_seconds(toleration: Fields) -> frozenset[tuple[str, Any]]:
        return frozenset((name, value) for name, value in toleration.items() if value and name != "tolerationSeconds")

    kept = {without_seconds(each) for each in new.get("tolerations") or ()}
    if any(without_seconds(each) not in kept for each in old.get("tolerations") or ()):
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [FieldError.forbidden("spec.tolerations", text)]
    return validate_tolerations(rules, new.get("tolerations") or (), "spec.tolerations")


def _validate_gates(new: Fields, old: Fields) -> list[FieldError]:
    known = {gate.get("name") or "" for gate in old.get("schedulingGates") or ()}
    # Of a name that is there twice the last place is shown.
    places = {gate.get("name") or "": place for place, gate in enumerate(new.get("schedulingGates") or ())}
    return [
        FieldError.forbidden(
            f"spec.schedulingGates[{place}].name",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for name, place in places.items()
        if name not in known
    ]


def _validate_gated(new: JSON, old: JSON) -> list[FieldError]:
    """What a pod that may not be scheduled yet may change of where it goes; these fields of `new` are set back."""
    errors: list[FieldError] = []
    labels, before = new.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in before.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(FieldError.invalid("spec.nodeSelector", labels or None, text))
    _take(new, old, "nodeSelector")
    affinity = new.get("affinity") or {}
    of_nodes, of_nodes_before = affinity.get("nodeAffinity"), (old.get("affinity") or {}).get("nodeAffinity")
    if same(of_nodes, of_nodes_before):
        return errors
    errors += _validate_terms(
        ((of_nodes or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or [],
        ((of_nodes_before or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or [],
    )
    rest = {name: value for name, value in affinity.items() if name != "nodeAffinity"}
    if of_nodes_before is not None:
        rest["nodeAffinity"] = of_nodes_before
    new["affinity"] = rest
    if old.get("affinity") is None and not rest:
        del new["affinity"]
    return errors


def _validate_terms(new: Sequence[Fields], old: Sequence[Fields]) -> list[FieldError]:
    if old and len(old) != len(new):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [FieldError.invalid(_TERMS, [_shown_term(term) for term in new] or None, text)]
    text = "only additions are allowed (no mutations or deletions)"
    return [
        FieldError.invalid(f"{_TERMS}[{place}]", _shown_term(new[place]), text)
        for place, before in enumerate(old)
        if not _has_only_more(new[place], before)
    ]


def _has_only_more(new: Fields, old: Fields) -> bool:
    names = ("matchExpressions", "matchFields")
    now, before = ([term.get(name) or [] for name in names] for term in (new, old))
    if not any(before) and any(now):
        return False
    return all(same(more[: len(known)], known) for more, known in zip(now, before, strict=True))


def _shown_term(term: Fields) -> JSON:
    return {
        shown: [
            {"Key": each.get("key") or "", "Operator": each.get("operator") or "", "Values": each.get("values") or None}
            for each in term.get(name) or ()
        ]
        or None
        for shown, name in (("MatchExpressions", "matchExpressions"), ("MatchFields", "matchFields"))
    }
