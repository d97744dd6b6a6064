"""What a client asks about itself: who it is, and whether it may do something. Who is let in is the administrator.

Source: pkg/registry/authentication/selfsubjectreview/rest.go, pkg/apis/authorization/validation/validation.go,
``ValidateSelfSubjectAccessReviewSpec`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from typing import Final

from ...objects.objects import JSON
from ..errors import FieldError, GroupName, StatusError

__all__ = ["ACCESS_REVIEW", "SUBJECT_REVIEW", "reviewed_access", "reviewed_subject"]

ACCESS_REVIEW: Final = "SelfSubjectAccessReview"
SUBJECT_REVIEW: Final = "SelfSubjectReview"
_ADMINISTRATOR: Final = {"username": "kubernetes-admin", "groups": ["kubeadm:cluster-admins", "system:authenticated"]}


def reviewed_subject(now: str) -> JSON:
    """Who asks."""
    return {"metadata": {"creationTimestamp": now}, "status": {"userInfo": _ADMINISTRATOR}}


def reviewed_access(asked: JSON) -> JSON:
    """The answer to a question about access: yes.

    Raises:
        StatusError: it asks about both a resource and a path, or about none.
    """
    spec = asked.get("spec") or {}
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors = []
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        errors.append(FieldError.invalid("spec.nonResourceAttributes", path, why))
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(FieldError.invalid("spec.resourceAttributes", None, why))
    if errors:
        raise StatusError.invalid(GroupName("authorization.k8s.io", ""), "", errors)
    return {"metadata": {}, **asked, "spec": spec, "status": {"allowed": True}}
