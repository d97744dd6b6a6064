"""A kubelet's DRA manager: it has claims prepared before a pod's containers start, and unprepared after their end.

A pod that fails before the cache knows it needs no unprepare. From then on its reference stays, also where a driver
fails, until `unprepare` or, for a pod that is gone, the reconciliation of each minute. Where several drivers or claims
are asked, the kubelet takes them in the random order of a map; here it is that of the pod and its claims.

Source: pkg/kubelet/cm/dra/manager.go (kubernetes v1.34.4, v1.36.3, v1.37.0).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Final

from .._internal.doors import Door
from ..apis.drahealth import HEALTH_SERVICE, NodeWatchResourcesRequest, NodeWatchResourcesResponse
from ..apis.grpcwire.client import RpcError
from ..cluster_api import ClaimNotReadError, ResourceApi
from ..golang.message import MOST_FIELDS, UnreadableMessageError, read_message
from ..model.clock import Clock
from ..model.errors import KubeletPanicError
from ..model.pod import Pod, PodUID
from ..model.version import Difference, Version
from ..registration.plugin_client import Locate, as_it_is
from .checkpoint import BadCheckpointError, ClaimsFile, ClaimsNotWrittenError
from .claim_cache import ClaimInfoCache
from .claim_info import ClaimInfo
from .container_claims import ContainerClaims
from .driver_calls import DriverCalls
from .error_texts import error_texts, not_prepared
from .health import FOLLOWS_HEALTH, DriverHealth
from .plugins import DriverPlugin, DriverPlugins, OnConnection, nobody_asks
from .pod_claims import DynamicResourcesError, PodClaim, owner_refusal, pod_claims, use_refusal
from .slice_wipes import SliceWipes

__all__ = ["DraManager"]

_CHECKS_ALL_CLAIMS_FIRST: Final = Difference(
    "all claims of a pod and their drivers are checked before any is taken into the cache, and a claim of the cache "
    "with another uid is refused; before, each is taken when it was checked, allocated or not where the cache has it, "
    "and a driver is looked for when it is called",
    {"1.26": False, "1.34": True},
    "pkg/kubelet/cm/dra/manager.go, ``prepareResources`` (kubernetes v1.33.13, v1.34.4)",
)
_ENDS_AT_PREPARED_CLAIM: Final = Difference(
    "the claims of a pod after one that is prepared already are forgotten, and the pod's containers do not start",
    {"1.26": False, "1.34": True, "1.34.4": False, "1.35": True, "1.35.1": False},
    "pkg/kubelet/cm/dra/manager.go, ``prepareResources`` (kubernetes/kubernetes#135901; v1.33.13, v1.34.3, v1.34.4, "
    "v1.35.0, v1.35.1)",
)
_RESETS_DEVICES: Final = Difference(
    "the devices of a driver's answer take the place of those that it prepared before; before, they are added, and a "
    "claim that is prepared again has them twice",
    {"1.26": False, "1.34.12": True, "1.35": False, "1.36.4": True},
    "pkg/kubelet/cm/dra/manager.go, ``prepareResources``, claiminfo.go, ``resetDevices`` "
    "(kubernetes/kubernetes#140471; v1.34.11, v1.34.12, v1.35.8, v1.36.3, v1.36.4, v1.37.0)",
)
_UNPREPARES_FOR_USERS_ONLY: Final = Difference(
    "a claim is unprepared only for a pod that uses it; before, also for one whose prepare was refused",
    {"1.26": False, "1.37": True},
    "pkg/kubelet/cm/dra/manager.go, ``unprepareResources`` (kubernetes/kubernetes#140212; v1.36.3, v1.37.0)",
)
_UNPREPARES_KNOWN_CLAIMS: Final = Difference(
    "the claims to unprepare are those that the kubelet knows the pod to use; before, those that the pod names, and a "
    "claim that is not made yet blocks its end",
    {"1.26": False, "1.37": True},
    "pkg/kubelet/cm/dra/manager.go, ``unprepareResourcesForPod`` (kubernetes/kubernetes#139772; v1.36.3, v1.37.0)",
)
_REFUSES_LEAVING_CLAIMS: Final = Difference(
    "a claim that is being unprepared takes no further pod",
    {"1.26": False, "1.37": True},
    "pkg/kubelet/cm/dra/manager.go, ``prepareResources`` (kubernetes/kubernetes#140527; v1.36.3, v1.37.0)",
)

_RECONCILE_PERIOD_S: Final = 60.0
_HEALTH_PAUSE_S: Final = 5.0
_MOST_UPDATES: Final = 100
_MOST_IN_REPORT: Final = 2 * MOST_FIELDS
"""Fields; each of ten thousand devices has six."""
_READ_AT_ONCE_BYTES: Final = 16 << 10
"""A longer report is read beside the event loop, one at a time, so that others are served between those of drivers."""

_RECONCILE: Final = Door("claims of a pod that is gone", ClaimsNotWrittenError, DynamicResourcesError)
_HEALTH: Final = Door("health of a DRA driver's devices", RpcError, UnreadableMessageError)
_log = logging.getLogger(__name__)


class DraManager:
    """Claims and drivers of one kubelet instance, from `start` to `stop`.

    Args:
        folder: the kubelet's folder, with its checkpoints.
        cluster: where claims and slices are.
        version: the minor to behave as.
        clock: the node's time.
        tasks: owns connections, streams and loops.
        active_pods: the pods of this node that have not ended; None while not all sources have been heard.
        unix_time: the date of now on the node, in seconds since 1970.
        follows_health: whether the gate ResourceHealthStatus is on.
        serves_extended: whether the gate DRAExtendedResource is on.
        wipes: what removes ResourceSlices.
        within: the node's folder; no driver outside is reached. None for no limit.
        locate: where an endpoint that a driver names is on this host.
        on_connection: see `DriverPlugins`.

    Attributes:
        cache: the claims.
        claims: what containers get of them.
        health: the health of the drivers' devices.
        plugins: the drivers' plugins.
        updates: lists of pods whose devices have changed their health; at most a hundred wait.

    Raises:
        BadCheckpointError: the kubelet does not start on the checkpoint of the folder.
    """

    def __init__(
        self,
        folder: Path,
        cluster: ResourceApi,
        version: Version,
        *,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        active_pods: Callable[[], Collection[PodUID] | None],
        unix_time: Callable[[], float],
        follows_health: bool,
        serves_extended: bool,
        wipes: SliceWipes,
        within: Path | None = None,
        locate: Locate = as_it_is,
        on_connection: OnConnection = nobody_asks,
    ) -> None:
        self._texts = error_texts(version)
        self._calls = DriverCalls(self._texts)
        self._file = ClaimsFile(folder, version)
        try:
            self.cache = ClaimInfoCache(self._file.load())
        except BadCheckpointError as error:
            raise BadCheckpointError(self._texts.no_cache.format(error=error)) from None
        self._cluster = cluster
        self._version = version
        self._clock = clock
        self._group = tasks
        self._active_pods = active_pods
        self._wipes = wipes
        self._loop: asyncio.Task[None] | None = None
        self._is_over = False
        self._reading = asyncio.Lock()
        self.health = DriverHealth(folder, unix_time)
        self._serves_extended = serves_extended
        self.claims = ContainerClaims(self.cache, self.health, version, serves_extended=serves_extended)
        self.plugins = DriverPlugins(
            wipes,
            version,
            clock,
            tasks,
            self._watch_health if follows_health and FOLLOWS_HEALTH.at(version) else None,
            within=within,
            locate=locate,
            on_connection=on_connection,
        )
        self.updates: asyncio.Queue[Sequence[PodUID]] = asyncio.Queue(_MOST_UPDATES)

    def start(self) -> None:
        """Wipe the slices of the node, as no driver is usable yet, and begin to reconcile."""
        self._wipes.start()
        self._loop = self._group.create_task(self._reconcile_each_minute(), name="claims of pods that are gone")

    def cut(self) -> None:
        """Begin nothing more; `stop` has to follow."""
        self._is_over = True
        self._wipes.stop()
        if self._loop is not None:
            self._loop.cancel()

    async def stop(self) -> None:
        """Disconnect all drivers, as a process that ends: files stay as they are. May be called twice at any time."""
        self.cut()
        loop, self._loop = self._loop, None
        if loop is not None:
            await asyncio.gather(loop, return_exceptions=True)
        await self.plugins.stop()

    # Prepare

    async def prepare(self, pod: Pod) -> None:
        """Have the claims of a pod prepared; those that are prepared already get the pod as a user.

        Raises:
            DynamicResourcesError: a claim cannot be used, or a driver failed; the pod's containers must not start.
            KubeletPanicError: the kubelet of this minor would end here.
        """
        try:
            await self._prepare(pod)
        except (ClaimsNotWrittenError, DynamicResourcesError) as error:
            raise DynamicResourcesError(self._texts.prepare.format(error=error)) from None

    async def _prepare(self, pod: Pod) -> None:
        asked: dict[tuple[str, DriverPlugin | None], list[ClaimInfo]] = {}
        unprepared: list[ClaimInfo] = []
        async with aclosing(self._taken(pod)) as taken:
            async for info, plugins in taken:
                self._save(self._texts.save_cache)
                if info.is_prepared:
                    if _ENDS_AT_PREPARED_CLAIM.at(self._version):
                        break
                    continue
                unprepared.append(info)
                for driver in info.drivers:
                    if plugins is not None and driver not in plugins:
                        # The claim was allocated again, to another driver, while it was in the cache.
                        raise KubeletPanicError("runtime error: invalid memory address or nil pointer dereference")
                    found = None if plugins is None else plugins[driver]
                    asked.setdefault((driver, found), []).append(info)
        for (driver, found), infos in asked.items():
            await self._prepare_by(found or self._found(driver, self._texts.prepare_driver), infos)
        for info in unprepared:
            self._cached(info).is_prepared = True
        self._save(self._texts.save_state)

    async def _taken(self, pod: Pod) -> AsyncGenerator[tuple[ClaimInfo, Mapping[str, DriverPlugin] | None], None]:
        """The claims of a pod, as each comes into the cache with the pod as a user; plugins where those are checked."""
        if not _CHECKS_ALL_CLAIMS_FIRST.at(self._version):
            for one in self._claims_of(pod, self._texts.prepare_name):
                claim = await self._usable_claim(pod, one.claim, is_generated=one.is_generated)
                yield self._joined(pod, self.cache.find(pod.namespace, one.claim) or self._new(claim)), None
            return
        wanted = []
        for one in self._claims_of(pod, self._texts.prepare_name):
            new = self._new(await self._usable_claim(pod, one.claim, is_generated=one.is_generated))
            # A driver that is missing now would be missing for what follows, also where the claim is prepared already.
            wanted.append((new, {driver: self.plugins.find(driver) for driver in new.drivers}))
        for new, plugins in wanted:
            yield self._joined(pod, new), plugins

    def _claims_of(self, pod: Pod, error_text: str) -> Iterator[PodClaim]:
        """The claims of a pod's entries, and that of its extended resources."""
        yield from pod_claims(pod, error_text)
        if self._serves_extended and (extended := pod.extended_claim) is not None:
            yield PodClaim("", extended.name, is_generated=False)

    async def _usable_claim(self, pod: Pod, name: str, *, is_generated: bool) -> Mapping[str, Any]:
        try:
            claim = await self._cluster.resource_claim(pod.namespace, name)
        except ClaimNotReadError as error:
            raise self._not_fetched(pod, name, str(error)) from None
        if claim is None:
            raise self._not_fetched(pod, name, f'resourceclaims.resource.k8s.io "{name}" not found')
        refusal = owner_refusal(pod, claim, self._version) if is_generated else None
        refusal = refusal or use_refusal(pod, claim, self._texts)
        if refusal is not None:
            raise DynamicResourcesError(refusal)
        return claim

    def _not_fetched(self, pod: Pod, name: str, reason: str) -> DynamicResourcesError:
        return DynamicResourcesError(self._texts.fetch.format(claim=name, pod=pod.name, error=reason))

    def _new(self, claim: Mapping[str, Any]) -> ClaimInfo:
        info = ClaimInfo.of(claim)
        if info is None:
            name, namespace = claim["metadata"]["name"], claim["metadata"].get("namespace", "")
            raise DynamicResourcesError(self._texts.not_allocated.format(namespace=namespace, claim=name))
        return info

    def _found(self, driver: str, text: str) -> DriverPlugin:
        try:
            return self.plugins.find(driver)
        except DynamicResourcesError as error:
            raise DynamicResourcesError(text.format(driver=driver, error=error)) from None

    def _joined(self, pod: Pod, new: ClaimInfo) -> ClaimInfo:
        """The claim of the cache, with the pod as a user."""
        info = self.cache.find(new.namespace, new.name)
        undo: Callable[[], object] = partial(self.cache.remove, new.namespace, new.name)
        if info is None:
            info = new
            self.cache.add(info)
        elif info.uid != new.uid:
            raise DynamicResourcesError(
                f"old ResourceClaim with same name {info.name} and different UID {info.uid} still exists "
                "(previous pod force-deleted?!)"
            )
        elif info.is_being_unprepared and _REFUSES_LEAVING_CLAIMS.at(self._version):
            raise DynamicResourcesError(f"ResourceClaim {info.name} is being unprepared")
        else:
            undo = partial(info.pods.pop, pod.uid, None)
        info.pods[pod.uid] = None
        self._refuse_too_much(self._texts.save_cache, undo)
        return info

    async def _prepare_by(self, plugin: DriverPlugin, infos: Sequence[ClaimInfo]) -> None:
        async with aclosing(self._calls.prepare(plugin, infos)) as answers:
            async for asked, devices in answers:
                info = self._cached(asked)
                undo = partial(info.drivers.__setitem__, plugin.driver, info.drivers.get(plugin.driver))
                if _RESETS_DEVICES.at(self._version):
                    info.drivers[plugin.driver] = None
                info.add_devices(plugin.driver, devices)
                self._refuse_too_much(self._texts.save_state, undo)

    def _cached(self, info: ClaimInfo) -> ClaimInfo:
        """The claim of the cache now: while drivers were asked, another one may have taken its place."""
        cached = self.cache.find(info.namespace, info.name)
        if cached is None:
            raise DynamicResourcesError(not_prepared(self._version, info.namespace, info.name))
        return cached

    # Unprepare

    async def unprepare(self, pod: Pod) -> None:
        """Have the claims of a pod unprepared where no other pod uses them; does nothing the second time.

        Raises:
            DynamicResourcesError: a driver failed; the pod's end has to wait, and this to be tried again.
        """
        try:
            await self._unprepare(pod.uid, pod.namespace, self._names_to_unprepare(pod))
        except (ClaimsNotWrittenError, DynamicResourcesError) as error:
            raise DynamicResourcesError(self._texts.unprepare.format(error=error)) from None

    def _names_to_unprepare(self, pod: Pod) -> list[str]:
        if _UNPREPARES_KNOWN_CLAIMS.at(self._version) and (known := self.cache.of_pod(pod.uid)):
            return [info.name for info in known]
        return [one.claim for one in self._claims_of(pod, self._texts.unprepare_name)]

    async def _unprepare(self, pod: PodUID, namespace: str, names: Iterable[str]) -> None:
        asked: dict[str, list[ClaimInfo]] = {}
        leaving: dict[str, ClaimInfo] = {}
        for name in names:
            info = self.cache.find(namespace, name)
            if info is None or (pod not in info.pods and _UNPREPARES_FOR_USERS_ONLY.at(self._version)):
                continue
            if len(info.pods) > 1:
                info.pods.pop(pod, None)
                continue
            info.is_being_unprepared = True
            leaving[info.uid] = info
            for driver in info.drivers:
                asked.setdefault(driver, []).append(info)
        for driver, infos in asked.items():
            await self._calls.unprepare(self._found(driver, self._texts.unprepare_driver), infos)
        for info in leaving.values():
            self.cache.remove(namespace, info.name)
        self._save(self._texts.save_state)

    def might_need_to_unprepare(self, pod: PodUID) -> bool:
        """Whether a pod still uses a claim that this kubelet knows."""
        return bool(self.cache.of_pod(pod))

    async def reconcile(self, active: Collection[PodUID]) -> None:
        """Unprepare the claims of pods that are not active any more; what fails is tried again the next time."""
        inactive: dict[PodUID, list[ClaimInfo]] = {}
        for info in self.cache:
            for pod in info.pods:
                if pod not in active:
                    inactive.setdefault(pod, []).append(info)
        for pod, infos in inactive.items():
            try:
                with _RECONCILE(pod):
                    await self._unprepare(pod, infos[0].namespace, [info.name for info in infos])
            except (ClaimsNotWrittenError, DynamicResourcesError) as error:
                _log.info("Unpreparing pod resources in reconcile loop failed, will retry podUID=%s err=%s", pod, error)

    async def _reconcile_each_minute(self) -> None:
        while True:
            active = self._active_pods()
            if active is not None:
                await self.reconcile(active)
            await self._clock.sleep(_RECONCILE_PERIOD_S)

    # Drivers

    def _save(self, text: str) -> None:
        try:
            self._file.save(self.cache.as_they_are())
        except ClaimsNotWrittenError as error:
            raise ClaimsNotWrittenError(text.format(error=error)) from None

    def _refuse_too_much(self, text: str, undo: Callable[[], object]) -> None:
        """Undo a change of the cache that the checkpoint has no room for: no other claim could be written with it."""
        try:
            self._file.check(self.cache.as_they_are())
        except ClaimsNotWrittenError as error:
            undo()
            raise ClaimsNotWrittenError(text.format(error=error)) from None

    async def _watch_health(self, plugin: DriverPlugin) -> None:
        """Take the reports of a plugin, whatever services it has named, and ask again after each end."""
        while True:
            try:
                with _HEALTH(plugin.driver):
                    await self._take_reports(plugin)
            except (RpcError, UnreadableMessageError) as error:
                _log.info("WatchResources health stream of %s has ended: %s", plugin.driver, error)
            await self._clock.sleep(_HEALTH_PAUSE_S)

    async def _take_reports(self, plugin: DriverPlugin) -> None:
        method = f"/{HEALTH_SERVICE}/NodeWatchResources"
        await plugin.connect()
        try:
            async with aclosing(plugin.listen(method, NodeWatchResourcesRequest())) as messages:
                async for message in messages:
                    read = partial(read_message, NodeWatchResourcesResponse, message, self._version, _MOST_IN_REPORT)
                    if len(message) <= _READ_AT_ONCE_BYTES:
                        self._take_report(plugin.driver, read())
                        continue
                    async with self._reading:
                        self._take_report(plugin.driver, await asyncio.to_thread(read))
        finally:
            if not self._is_over:
                self.health.forget(plugin.driver)

    def _take_report(self, driver: str, report: NodeWatchResourcesResponse) -> None:
        pods = self.cache.pods_with_devices(driver, self.health.update(driver, report))
        if not pods:
            return
        try:
            self.updates.put_nowait(pods)
        except asyncio.QueueFull:
            _log.error("DRA health update channel is full, discarding pod update notification pods=%s", pods)
