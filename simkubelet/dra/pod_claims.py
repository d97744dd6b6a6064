"""What a pod says about its claims, and what a claim says about its pods; errors of both.

Source: k8s.io/dynamic-resource-allocation v0.34.4, resourceclaim/resourceclaim.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..golang.text import quoted
from ..model.pod import Pod
from ..model.version import Difference, Version
from .error_texts import ErrorTexts

__all__ = [
    "DynamicResourcesError",
    "PodClaim",
    "allocation_results",
    "claims_of_container",
    "is_reserved_for",
    "owner_refusal",
    "pod_claims",
    "pod_entries",
    "use_refusal",
]


_WRITES_KINDS_LARGE: Final = Difference(
    "the text about a claim of another owner speaks of the ``Pod``; before, of the ``pod``",
    {"1.26": False, "1.36": True},
    "k8s.io/dynamic-resource-allocation, resourceclaim/resourceclaim.go, ``IsForPod`` (v0.35.4, v0.36.3)",
)


class DynamicResourcesError(Exception):
    """The dynamic resources of a pod cannot be prepared, unprepared or found; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """One entry of a pod's ``spec.resourceClaims`` that has a claim.

    Attributes:
        entry: its name in the pod, by which containers refer to it.
        claim: the name of the ResourceClaim, in the pod's namespace.
        is_generated: whether the claim was made from a template, and so has to belong to the pod.
    """

    entry: str
    claim: str
    is_generated: bool


def pod_entries(
    pod: Pod, error_text: str = "{error}", only: Collection[str] | None = None
) -> Iterator[tuple[str, PodClaim | None]]:
    """The entries of ``spec.resourceClaims`` with their claims; None for one that turned out to need no claim.

    Args:
        pod: with its status.
        error_text: around the errors; see `ErrorTexts.prepare_name`.
        only: names of the entries to look at; None for all.

    Raises:
        DynamicResourcesError: a claim is not made yet, or an entry names neither claim nor template; once the entries
            before it have been read.
    """
    generated = {
        status.get("name", ""): status.get("resourceClaimName")
        # The first of a name counts.
        for status in reversed(_status(pod).get("resourceClaimStatuses") or ())
    }
    for entry in pod.spec.get("resourceClaims") or ():
        name = str(entry.get("name", ""))
        if only is not None and name not in only:
            continue
        if (claim := entry.get("resourceClaimName")) is not None:
            yield name, PodClaim(name, str(claim), is_generated=False)
        elif entry.get("resourceClaimTemplateName") is None:
            text = f'pod "{pod.namespace}/{pod.name}", spec.resourceClaim {quoted(name)}'
            raise DynamicResourcesError(error_text.format(error=f"{text}: none of the supported fields are set"))
        elif name not in generated:
            text = f'pod "{pod.namespace}/{pod.name}": ResourceClaim not created yet'
            raise DynamicResourcesError(error_text.format(error=text))
        else:
            made = generated[name]
            yield name, None if made is None else PodClaim(name, str(made), is_generated=True)


def pod_claims(pod: Pod, error_text: str = "{error}") -> Iterator[PodClaim]:
    """The claims of a pod, in order; as `pod_entries`."""
    return (claim for _, claim in pod_entries(pod, error_text) if claim is not None)


def claims_of_container(pod: Pod, container: str) -> Sequence[Mapping[str, Any]]:
    """``resources.claims`` of a container of any kind: each has the ``name`` of an entry and may have a ``request``."""
    claims: Sequence[Mapping[str, Any]] = (pod.spec_of(container).get("resources") or {}).get("claims") or ()
    return claims


def owner_refusal(pod: Pod, claim: Mapping[str, Any], version: Version) -> str | None:
    """Why a generated claim is not the pod's own, None where it is."""
    metadata = claim["metadata"]
    owners = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    if metadata.get("namespace", "") == pod.namespace and owners and owners[0].get("uid") == pod.uid:
        return None
    kind = "Pod" if _WRITES_KINDS_LARGE.at(version) else "pod"
    of_pod = f"was not created for {kind} {pod.namespace}/{pod.name} ({kind} is not owner)"
    return f"ResourceClaim {metadata.get('namespace', '')}/{metadata['name']} {of_pod}"


def allocation_results(claim: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """The devices that are allocated to a claim, as its status has them; none where it is not allocated."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or ()


def is_reserved_for(pod: Pod, claim: Mapping[str, Any]) -> bool:
    """Whether a pod may use a claim."""
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    return any(consumer.get("uid") == pod.uid for consumer in reserved)


def use_refusal(pod: Pod, claim: Mapping[str, Any], texts: ErrorTexts) -> str | None:
    """Why the pod may not use a claim, None where the claim is reserved for it."""
    if is_reserved_for(pod, claim):
        return None
    metadata = claim["metadata"]
    return texts.use.format(pod=pod.name, pod_uid=pod.uid, claim=metadata["name"], uid=metadata.get("uid", ""))


def _status(pod: Pod) -> Mapping[str, Any]:
    status: Mapping[str, Any] = pod.manifest.get("status") or {}
    return status
