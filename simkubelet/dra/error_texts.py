"""What a kubelet says of claims and drivers that fail: its Events, and what it logs.

Source: pkg/kubelet/cm/dra/manager.go, claiminfo.go, plugin/plugin.go, plugin/registration.go, plugin/plugins_store.go
(kubernetes v1.33.13); manager.go, claiminfo.go, plugin/dra_plugin_manager.go (v1.34.4, v1.36.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..model.version import Difference, Version

__all__ = ["ErrorTexts", "error_texts", "not_prepared"]

_NAMES_RESOURCE_CLAIMS: Final = Difference(
    "errors about claims begin with what failed and speak of ``ResourceClaim c``; before, of ``claim ns/c``",
    {"1.26": False, "1.34": True},
    "pkg/kubelet/cm/dra/manager.go, claiminfo.go (kubernetes v1.33.13, v1.34.4)",
)
_NAMES_NAMESPACE: Final = Difference(
    "the error about a claim that was never prepared names its namespace",
    {"1.26": True, "1.34": False, "1.36": True},
    "pkg/kubelet/cm/dra/manager.go, ``GetResources``, ``prepareResources`` (kubernetes v1.33.13, v1.35.4, v1.36.3)",
)


@dataclass(frozen=True, slots=True)
class ErrorTexts:
    """Texts with what `str.format` fills in; ``error`` is the reason, ``claim`` a name and ``namespace`` its place.

    Attributes:
        no_cache: the kubelet does not start on its checkpoint.
        prepare: around all that fails while claims are prepared.
        unprepare: around all that fails while they are unprepared.
        prepare_name: around what is wrong with an entry of a pod when its claims are prepared.
        unprepare_name: the same when they are unprepared.
        container_name: the same when a container is created with its CDI devices.
        listed_name: the same when PodResources or a pod's status lists the devices of a container.
        fetch: a claim cannot be read.
        use: a claim is not reserved for a pod.
        not_allocated: a claim has no devices.
        unlisted: a claim is not in the cache for such a list; the older text also where it has to be there to be used.
        save_cache: the checkpoint cannot be written before the drivers are asked.
        save_state: nor after they were.
        prepare_driver: around a driver that cannot be called to prepare.
        unprepare_driver: nor to unprepare.
        call: a call failed.
        refused: a driver refused a claim.
        skipped: a driver left out some claims.
        no_driver_name: a claim has a device of no driver.
        no_driver: a driver is not registered.
        bad_versions: a plugin cannot be called.
        registered_twice: a plugin is there already.
    """

    no_cache: str
    prepare: str
    unprepare: str
    prepare_name: str
    unprepare_name: str
    container_name: str
    listed_name: str
    fetch: str
    use: str
    not_allocated: str
    unlisted: str
    save_cache: str
    save_state: str
    prepare_driver: str
    unprepare_driver: str
    call: str
    refused: str
    skipped: str
    no_driver_name: str
    no_driver: str
    bad_versions: str
    registered_twice: str


_NEW: Final = ErrorTexts(
    no_cache="create ResourceClaim cache: {error}",
    prepare="prepare dynamic resources: {error}",
    unprepare="unprepare dynamic resources: {error}",
    prepare_name="{error}",
    unprepare_name="{error}",
    container_name="{error}",
    listed_name="{error}",
    fetch="fetch ResourceClaim {claim}: {error}",
    use="pod {pod} ({pod_uid}) is not allowed to use ResourceClaim {claim} ({uid})",
    not_allocated="ResourceClaim {claim}: not allocated",
    unlisted="unable to get information for ResourceClaim {claim}",
    save_cache="checkpoint ResourceClaim cache: {error}",
    save_state="checkpoint ResourceClaim state: {error}",
    prepare_driver="{error}",
    unprepare_driver="{error}",
    call="{method}: {error}",
    refused="{method} failed for ResourceClaim {claim}: {error}",
    skipped="{method} skipped {count} ResourceClaims",
    no_driver_name="DRA driver name is empty",
    no_driver="DRA driver {driver} is not registered",
    bad_versions="invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}: {error}",
    registered_twice="endpoint {endpoint} already registered for DRA driver plugin {driver}",
)
_OLD: Final = ErrorTexts(
    no_cache="failed to create claimInfo cache: error calling {error}",
    prepare="{error}",
    unprepare="{error}",
    prepare_name="prepare resource claim: {error}",
    unprepare_name="unprepare resource claim: {error}",
    container_name="list resource claims: {error}",
    listed_name="determine resource claim information: {error}",
    fetch="failed to fetch ResourceClaim {claim} referenced by pod {pod}: {error}",
    use="pod {pod}({pod_uid}) is not allowed to use resource claim {claim}({uid})",
    not_allocated="locked cache operation: claim {namespace}/{claim}: not allocated",
    unlisted="locked cache operation: unable to get claim info for claim {claim} in namespace {namespace}",
    save_cache="locked cache operation: failed to checkpoint claimInfo state: {error}",
    save_state="locked cache operation: failed to checkpoint claimInfo state: {error}",
    prepare_driver="failed to get gRPC client for driver {driver}: {error}",
    unprepare_driver="get gRPC client for DRA driver {driver}: {error}",
    call="{method} failed: {error}",
    refused="{method} failed for claim {namespace}/{claim}: {error}",
    skipped="{method} left out {count} claims",
    no_driver_name="plugin name is empty",
    no_driver="plugin name {driver} not found in the list of registered DRA plugins",
    bad_versions="invalid versions of plugin {driver}: {error}",
    registered_twice="endpoint {endpoint} already registered for plugin {driver}",
)


def error_texts(version: Version) -> ErrorTexts:
    """The texts of a kubelet."""
    return _NEW if _NAMES_RESOURCE_CLAIMS.at(version) else _OLD


def not_prepared(version: Version, namespace: str, claim: str) -> str:
    """What is wrong where a claim that has to be in the cache is not there."""
    if not _NAMES_RESOURCE_CLAIMS.at(version):
        return _OLD.unlisted.format(namespace=namespace, claim=claim)
    where = f" in namespace {namespace}" if _NAMES_NAMESPACE.at(version) else ""
    return f"internal error: unable to get claim info for ResourceClaim {claim}{where}"
