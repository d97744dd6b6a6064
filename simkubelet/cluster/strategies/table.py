"""The strategy of every kind, and the short strategies: of namespaces, data, leases, revisions and cluster roles.

Cluster roles and their bindings are stored and not enforced: every client may do everything.

Source: pkg/registry/core/{namespace,secret}/strategy.go, pkg/registry/coordination/lease/strategy.go,
pkg/apis/core/validation/validation.go, pkg/apis/rbac/validation/validation.go, pkg/apis/rbac/v1/defaults.go
(kubernetes v1.34.4, v1.37.2).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from ...model.version import DEFAULT, Difference, Version, version
from ..api.decoding.documents import json_document
from ..api.errors import FieldError
from ..api.registry.metadata import finalizer_faults
from ..api.registry.names import is_dns_subdomain, is_path_segment
from ..api.registry.strategy import Strategy, UpdateRules, keep_status
from ..objects.objects import JSON, Objects, copied
from .daemonsets import DaemonSetStrategy
from .dra.gates import gates_of
from .dra.strategies import device_strategies
from .events import CoreEventStrategy, EventStrategy
from .nodes import NodeStrategy
from .pod.checks import is_config_key
from .pod.gates import pod_gates_of
from .pod.scheduling import validate_label_selector
from .pods import PodStrategy
from .priority_classes import PRIORITY_CLASSES, PriorityClassStrategy
from .rules import Rules

__all__ = ["all_strategies", "basic_strategies", "server_rules"]

_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_BASIC_AUTH: Final = "kubernetes.io/basic-auth"
_SSH_AUTH: Final = "kubernetes.io/ssh-auth"
_NEEDED_IN_SECRETS: Final = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    _SSH_AUTH: ("ssh-privatekey",),
    _BASIC_AUTH: ("username", "password"),
}
"""Type -> keys that must be there; of those of the last, one."""
_DOCKER_CONFIGS: Final = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")
_GO_KINDS: Final = {list: "array", str: "string", bool: "bool"}
_GO_MAP: Final = "map[string]interface {}"
_MAX_BYTES: Final = 1024 * 1024
_IMMUTABLE: Final = "field is immutable when `immutable` is set"
_RBAC: Final = "rbac.authorization.k8s.io"
_SERVICE_ACCOUNT: Final = "ServiceAccount"
_PEOPLE: Final = ("User", "Group")
_ROLES_ARE_DECLARED: Final = Difference(
    "of rules without verbs the API server says no more than required, of another `roleRef` that it is immutable",
    {"1.26": False, "1.37": True},
    "pkg/apis/rbac/validation/validation.go, ``ValidateClusterRoleBindingUpdate``; pkg/apis/rbac/v1/"
    "zz_generated.validations.go (kubernetes v1.36.5, v1.37.2)",
)


_READS_REVISIONS: Final = Difference(
    "the data of a new ControllerRevision have to be an object; before, an update may not leave them out",
    {"1.26": False, "1.31": True},
    "pkg/apis/apps/validation/validation.go, ``ValidateControllerRevision`` (kubernetes v1.30.14, v1.31.14)",
)


def all_strategies(
    objects: Objects, release: Version | None = None, gates: Mapping[str, bool] | None = None
) -> Mapping[str, Strategy]:
    """The rules of one cluster's kinds, by the text of `Kind.resource`; admission looks into its objects.

    Args:
        objects: of the cluster.
        release: of its control plane; the default version's where it is None.
        gates: feature gate -> whether it is on, of those that a user has set.
    """
    rules = server_rules(release, gates)
    return {
        **basic_strategies(rules.release),
        **device_strategies(objects, rules),
        "daemonsets.apps": DaemonSetStrategy(rules),
        "nodes": NodeStrategy(rules),
        "pods": PodStrategy(objects, rules),
        PRIORITY_CLASSES: PriorityClassStrategy(objects),
    }


def server_rules(release: Version | None = None, gates: Mapping[str, bool] | None = None) -> Rules:
    """What decides how an API server checks objects; the arguments are those of `all_strategies`."""
    served = release or version(DEFAULT)
    return Rules(served, gates_of(served, gates or {}) | pod_gates_of(served, gates or {}))


def basic_strategies(release: Version | None = None) -> Mapping[str, Strategy]:
    """The rules of the kinds for which no other object is looked up, as `all_strategies`."""
    return {
        "namespaces": _NamespaceStrategy(release),
        "configmaps": _DataStrategy(),
        "secrets": _SecretStrategy(),
        "leases.coordination.k8s.io": _LeaseStrategy(),
        "events": CoreEventStrategy(),
        "events.events.k8s.io": EventStrategy(),
        "controllerrevisions.apps": _ControllerRevisionStrategy(release or version(DEFAULT)),
        f"clusterroles.{_RBAC}": _ClusterRoleStrategy(release or version(DEFAULT)),
        f"clusterrolebindings.{_RBAC}": _ClusterRoleBindingStrategy(release or version(DEFAULT)),
    }


class _NamespaceStrategy(Strategy):
    """A namespace has a label with its name, and goes when its finalizers in ``spec`` have gone."""

    def __init__(self, release: Version | None) -> None:
        self._release = release

    def default(self, new: JSON) -> None:
        status = new.setdefault("status", {})
        status["phase"] = status.get("phase") or "Active"
        metadata = new["metadata"]
        if metadata.get("name"):
            metadata["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata["name"]}

    def prepare_for_create(self, new: JSON) -> None:
        finalizers = (new.get("spec") or {}).get("finalizers") or []
        new["spec"] = {"finalizers": [*finalizers, *(() if "kubernetes" in finalizers else ("kubernetes",))]}
        new["status"] = {"phase": "Active"}

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        new["spec"] = {**(new.get("spec") or {}), "finalizers": list((old.get("spec") or {}).get("finalizers") or ())}
        keep_status(new, old)

    def validate(self, new: JSON) -> list[FieldError]:
        return self._finalizer_errors(new)

    def prepare_for_status_update(self, new: JSON, old: JSON) -> None:
        """Take back the changes of the spec; labels and annotations may be written along with the status."""
        new["spec"] = copied(old.get("spec") or {})

    def validate_status_update(self, new: JSON, old: JSON) -> list[FieldError]:
        is_deleted = new["metadata"].get("deletionTimestamp")
        phase, only = new["status"]["phase"], "Terminating" if is_deleted else "Active"
        if phase == only:
            return []
        why = f"may only be '{only}' if `deletionTimestamp` is {'not ' if is_deleted else ''}empty"
        return [FieldError.invalid("status.Phase", phase, why)]

    def update_rules(self, subresource: str) -> UpdateRules:
        if subresource == "finalize":
            return UpdateRules(keep_status, lambda new, old: self._finalizer_errors(new, "[{}]"))
        return super().update_rules(subresource)

    def is_held(self, obj: JSON) -> bool:
        return bool((obj.get("spec") or {}).get("finalizers")) or super().is_held(obj)

    def _finalizer_errors(self, namespace: JSON, index: str = "") -> list[FieldError]:
        """What is wrong with the finalizers in the spec; `index` is how their place is written, if it is."""
        found = (namespace.get("spec") or {}).get("finalizers") or ()
        pairs = ((one, f"spec.finalizers{index.format(place)}") for place, one in enumerate(found))
        return [error for one, path in pairs for error in finalizer_faults(one, path, self._release)]


class _DataStrategy(Strategy):
    """What config maps and secrets have in common: keys, a size, and that they can be made immutable."""

    validates_alone = True
    _too_long = "[]"
    """The path in the message about their size; Go's for the whole object."""

    def validate(self, new: JSON) -> list[FieldError]:
        texts, binary = new.get("data") or {}, new.get("binaryData") or {}
        errors = [
            FieldError.invalid(f"{name}[{key}]", key, fault)
            for name, data in (("data", texts), ("binaryData", binary))
            for key in data
            for fault in is_config_key(key)
        ]
        both = "duplicate of key present in binaryData"
        errors += [FieldError.invalid(f"data[{key}]", key, both) for key in texts if key in binary]
        if self._bytes(new) > _MAX_BYTES:
            errors.append(FieldError.too_long(self._too_long, _MAX_BYTES))
        return errors

    def _bytes(self, new: JSON) -> int:
        """The size of all values, as they are once base64 is decoded."""
        texts = sum(len(text.encode()) for text in (new.get("data") or {}).values())
        return texts + _decoded_bytes(new.get("binaryData") or {})

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = []
        if old.get("immutable"):
            if not new.get("immutable"):
                errors.append(FieldError.forbidden("immutable", _IMMUTABLE))
            errors += [
                FieldError.forbidden(name, _IMMUTABLE)
                for name in ("data", "binaryData")
                if (new.get(name) or {}) != (old.get(name) or {})
            ]
        return errors + self.validate(new)


class _SecretStrategy(_DataStrategy):
    """A secret's texts are stored as bytes, its type stays."""

    _too_long = "data"

    def default(self, new: JSON) -> None:
        new["type"] = new.get("type") or "Opaque"
        texts = new.pop("stringData", None) or {}
        if texts:
            coded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
            new["data"] = {**(new.get("data") or {}), **coded}

    def validate(self, new: JSON) -> list[FieldError]:
        data, errors = new.get("data") or {}, super().validate(new)
        needed = _NEEDED_IN_SECRETS.get(new["type"], ())
        if new["type"] == _BASIC_AUTH and not data.keys().isdisjoint(needed):
            return errors
        if new["type"] in _DOCKER_CONFIGS and needed[0] in data:
            fault = _json_fault(base64.b64decode(data[needed[0]]))
            hidden = "<secret contents redacted>"
            return errors + [FieldError.invalid(f"data[{needed[0]}]", hidden, text) for text in fault]
        missing = (key for key in needed if not data.get(key) and (key not in data or new["type"] == _SSH_AUTH))
        return errors + [FieldError.required(f"data[{key}]") for key in missing]

    def _bytes(self, new: JSON) -> int:
        return _decoded_bytes(new.get("data") or {})

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = super().validate_update(new, old)
        if new.get("type") != old.get("type"):
            errors.append(FieldError.invalid("type", new.get("type"), "field is immutable"))
        return errors


def _json_fault(text: bytes) -> list[str]:
    """What keeps a text from being an object in JSON, in the words of Go."""
    try:
        found = json_document(text)
    except ValueError as error:
        return [str(error)]
    if found is None or isinstance(found, dict):
        return []
    return [f"json: cannot unmarshal {_GO_KINDS.get(type(found), 'number')} into Go value of type {_GO_MAP}"]


def _decoded_bytes(data: Mapping[str, str]) -> int:
    return sum(len(base64.b64decode(text)) for text in data.values())


class _LeaseStrategy(Strategy):
    """A lease may be created by a PUT, and is updated only by who knows its version."""

    allow_unconditional_update = False
    allow_create_on_update = True

    def validate(self, new: JSON) -> list[FieldError]:
        spec = new.get("spec") or {}
        errors = []
        if spec.get("leaseDurationSeconds", 1) <= 0:
            value = spec["leaseDurationSeconds"]
            errors.append(FieldError.invalid("spec.leaseDurationSeconds", value, "must be greater than 0"))
        if spec.get("leaseTransitions", 0) < 0:
            value = spec["leaseTransitions"]
            errors.append(FieldError.invalid("spec.leaseTransitions", value, "must be greater than or equal to 0"))
        return errors


class _ControllerRevisionStrategy(Strategy):
    """A controller's revision keeps its data."""

    def __init__(self, release: Version) -> None:
        self._release = release

    def validate(self, new: JSON) -> list[FieldError]:
        errors = _negative_revision(new)
        if new.get("data") is None:
            errors.append(FieldError.required("data", "data is mandatory"))
        elif not isinstance(new["data"], dict) and _READS_REVISIONS.at(self._release):
            errors.append(FieldError.required("data", "data must be a valid JSON object"))
        return errors

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = _negative_revision(new) if _READS_REVISIONS.at(self._release) else self.validate(new)
        if new.get("data") != old.get("data"):
            errors.append(FieldError.invalid("data", new.get("data"), "field is immutable"))
        return errors


def _negative_revision(new: JSON) -> list[FieldError]:
    number = new.get("revision", 0)
    return [FieldError.invalid("revision", number, "must be greater than or equal to 0")] if number < 0 else []


class _ClusterRoleStrategy(Strategy):
    """A role's rules name verbs, and either resources with their groups or paths."""

    def __init__(self, release: Version) -> None:
        self._release = release

    def validate(self, new: JSON) -> list[FieldError]:
        no_verbs = "" if _ROLES_ARE_DECLARED.at(self._release) else "verbs must contain at least one value"
        rules = enumerate(new.get("rules") or ())
        errors = [error for index, rule in rules for error in _rule_errors(rule, f"rules[{index}]", no_verbs)]
        if new.get("aggregationRule") is None:
            return errors
        path, selectors = "aggregationRule.clusterRoleSelectors", new["aggregationRule"].get("clusterRoleSelectors")
        if not selectors:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(FieldError.required(path, text))
        for index, selector in enumerate(selectors or ()):
            if faults := validate_label_selector(selector, f"{path}[{index}]", self._release):
                errors += [*faults, FieldError.invalid(f"{path}[{index}]", None, "invalid label selector.")]
        return errors

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        return self.validate(new)


def _rule_errors(rule: JSON, path: str, no_verbs: str) -> list[FieldError]:
    errors = []
    if not rule.get("verbs"):
        errors.append(FieldError.required(f"{path}.verbs", no_verbs))
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


class _ClusterRoleBindingStrategy(Strategy):
    """A binding keeps its role and names those who have it."""

    def __init__(self, release: Version) -> None:
        self._release = release

    def default(self, new: JSON) -> None:
        role = new["roleRef"] = new.get("roleRef") or {}
        role["apiGroup"] = role.get("apiGroup") or _RBAC
        for subject in new.get("subjects") or ():
            if subject.get("kind") in _PEOPLE:
                subject["apiGroup"] = subject.get("apiGroup") or _RBAC

    def validate(self, new: JSON) -> list[FieldError]:
        role = new.get("roleRef") or {}
        errors = []
        if role.get("apiGroup") != _RBAC:
            errors.append(FieldError.not_supported("roleRef.apiGroup", role.get("apiGroup", ""), [_RBAC]))
        if role.get("kind") != "ClusterRole":
            errors.append(FieldError.not_supported("roleRef.kind", role.get("kind", ""), ["ClusterRole"]))
        if not role.get("name"):
            errors.append(FieldError.required("roleRef.name"))
        errors += [FieldError.invalid("roleRef.name", role["name"], fault) for fault in _role_name_faults(role)]
        for index, subject in enumerate(new.get("subjects") or ()):
            errors += _subject_errors(subject, f"subjects[{index}]")
        return errors

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = self.validate(new)
        if new["roleRef"] != old["roleRef"]:
            shown = {name: new["roleRef"].get(f"{name[0].lower()}{name[1:]}", "") for name in ("Kind", "Name")}
            shown = {"APIGroup": new["roleRef"]["apiGroup"], **shown}
            text = "field is immutable" if _ROLES_ARE_DECLARED.at(self._release) else "cannot change roleRef"
            errors.append(FieldError.invalid("roleRef", shown, text))
        return errors


def _role_name_faults(role: JSON) -> list[str]:
    return is_path_segment(role["name"]) if role.get("name") else []


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
    elif group != _RBAC:
        errors.append(FieldError.not_supported(f"{path}.apiGroup", group, [_RBAC]))
    return errors
