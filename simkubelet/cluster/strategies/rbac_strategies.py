"""The rules of cluster roles and their bindings, which are stored and not enforced: every client may do everything.

Source: pkg/apis/rbac/validation/validation.go, pkg/apis/rbac/v1/defaults.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..api.errors import FieldError
from ..api.registry.names import is_dns_subdomain, is_path_segment
from ..api.registry.strategy import Strategy
from ..objects.objects import JSON

__all__ = ["rbac_strategies"]

_GROUP: Final = "rbac.authorization.k8s.io"
_SERVICE_ACCOUNT: Final = "ServiceAccount"
_PEOPLE: Final = ("User", "Group")


class ClusterRoleStrategy(Strategy):
    """A role's rules name verbs, and either resources with their groups or paths."""

    def validate(self, new: JSON) -> list[FieldError]:
        rules = enumerate(new.get("rules") or ())
        return [error for index, rule in rules for error in _rule_errors(rule, f"rules[{index}]")]

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        return self.validate(new)


class ClusterRoleBindingStrategy(Strategy):
    """A binding keeps its role and names those who have it."""

    def default(self, new: JSON) -> None:
        role = new.get("roleRef")
        if isinstance(role, dict):
            role["apiGroup"] = role.get("apiGroup") or _GROUP
        for subject in new.get("subjects") or ():
            if subject.get("kind") in _PEOPLE:
                subject["apiGroup"] = subject.get("apiGroup") or _GROUP

    def validate(self, new: JSON) -> list[FieldError]:
        role = new.get("roleRef") or {}
        errors = []
        if role.get("apiGroup") != _GROUP:
            errors.append(FieldError.not_supported("roleRef.apiGroup", role.get("apiGroup", ""), [_GROUP]))
        if role.get("kind") != "ClusterRole":
            errors.append(FieldError.not_supported("roleRef.kind", role.get("kind", ""), ["ClusterRole"]))
        if not role.get("name"):
            errors.append(FieldError.required("roleRef.name"))
        errors += [FieldError.invalid("roleRef.name", role["name"], fault) for fault in _faults(role)]
        for index, subject in enumerate(new.get("subjects") or ()):
            errors += _subject_errors(subject, f"subjects[{index}]")
        return errors

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = self.validate(new)
        if new.get("roleRef") != old.get("roleRef"):
            errors.append(FieldError.invalid("roleRef", new.get("roleRef"), "cannot change roleRef"))
        return errors


def _faults(role: JSON) -> list[str]:
    return is_path_segment(role["name"]) if role.get("name") else []


def _rule_errors(rule: JSON, path: str) -> list[FieldError]:
    errors = []
    if not rule.get("verbs"):
        errors.append(FieldError.required(f"{path}.verbs", "verbs must contain at least one value"))
    if urls := rule.get("nonResourceURLs"):
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            both = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(FieldError.invalid(f"{path}.nonResourceURLs", urls, both))
        return errors
    if not rule.get("apiGroups"):
        errors.append(FieldError.required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(FieldError.required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _subject_errors(subject: JSON, path: str) -> list[FieldError]:
    kind, name, group = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
    errors = [] if name else [FieldError.required(f"{path}.name")]
    if kind == _SERVICE_ACCOUNT:
        errors += [
            FieldError.invalid(f"{path}.name", name, fault) for fault in (is_dns_subdomain(name) if name else [])
        ]
        if group:
            errors.append(FieldError.not_supported(f"{path}.apiGroup", group, [""]))
        if not subject.get("namespace"):
            errors.append(FieldError.required(f"{path}.namespace"))
    elif kind not in _PEOPLE:
        errors.append(FieldError.not_supported(f"{path}.kind", kind, [_SERVICE_ACCOUNT, *_PEOPLE]))
    elif group != _GROUP:
        errors.append(FieldError.not_supported(f"{path}.apiGroup", group, [_GROUP]))
    return errors


def rbac_strategies() -> Mapping[str, Strategy]:
    """The rules by the text of `Kind.resource`."""
    return {
        "clusterroles.rbac.authorization.k8s.io": ClusterRoleStrategy(),
        "clusterrolebindings.rbac.authorization.k8s.io": ClusterRoleBindingStrategy(),
    }
