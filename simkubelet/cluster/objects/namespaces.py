"""Namespaces that are being terminated: nothing new is created there, be it an object, an Event or a Binding."""

from __future__ import annotations

from .objects import Key, Objects

__all__ = ["termination"]


def termination(objects: Objects, namespace: str) -> str | None:
    """Why the API server creates nothing in a namespace that is being terminated; None for any other.

    Source: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go, ``Admit`` (v0.34.4; the same from
    v0.26.15 to v0.37.2).
    """
    found = objects.get(Key("namespaces", "", namespace)) or {}
    if (found.get("status") or {}).get("phase") != "Terminating":
        return None
    return f"unable to create new content in namespace {namespace} because it is being terminated"
