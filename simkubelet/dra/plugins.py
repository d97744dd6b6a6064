"""The plugins of DRA drivers, as a kubelet reaches them.

A driver may have several instances of its plugin at once, as during a rolling update; each registers its own endpoint.
The one that is called is the newest of those that are connected, or the newest of all where none is. A driver without
a connected instance gets some time; then its ResourceSlices are wiped, so that no more pods come for its devices
(`slice_wipes`). Before 1.34 the first call connects, and to be registered counts as to be connected.

Source: pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go, dra_plugin.go (kubernetes v1.34.4); registration.go,
plugins_store.go, plugin.go (v1.32.13, v1.33.13).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from .._internal.doors import Door
from ..apis.dra import CALL_TIMEOUT_S, SERVICES
from ..apis.grpcwire.client import RpcError
from ..golang.text import quoted
from ..model.clock import Clock
from ..model.version import Difference, Version
from ..registration.plugin_client import Locate, PluginChannel, as_it_is, path_authority
from .error_texts import error_texts
from .pod_claims import DynamicResourcesError
from .slice_wipes import SliceWipes

__all__ = [
    "Connection",
    "DriverPlugin",
    "DriverPlugins",
    "OnConnection",
    "WatchHealth",
    "driver_authority",
    "nobody_asks",
]

M = TypeVar("M", bound=Message)

_SERVICES: Final = Difference(
    "the services that the kubelet calls, newest first; it takes the first of the plugin's list that is one of them, "
    "and refuses a plugin without. Where ``v1alpha3.NodeService`` is among them it takes the newest that is in the "
    "list, and that one for any other list",
    {
        "1.26": "v1beta1.DRAPlugin, v1alpha3.NodeService",
        "1.34": "v1.DRAPlugin, v1beta1.DRAPlugin",
    },
    "pkg/kubelet/cm/dra/plugin/registration.go, ``validateSupportedServices`` (kubernetes v1.33.13); "
    "dra_plugin_manager.go (v1.34.4)",
)
_WATCHES_CONNECTIONS: Final = Difference(
    "the kubelet connects to the plugin of a driver when that registers, again when the connection ends, and calls the "
    "newest that is connected; before, the first call connects, the newest is called, and a plugin that dies without "
    "removing its registration socket keeps its ResourceSlices",
    {"1.26": False, "1.34": True},
    "pkg/kubelet/cm/dra/plugin/plugin.go, plugins_store.go (kubernetes/kubernetes#132058; v1.33.13); "
    "dra_plugin_manager.go, ``HandleConn`` (v1.34.4)",
)
_DIALS_BY_PATH: Final = Difference(
    "calls to a driver have the path of its socket as `:authority`, which servers of Rust's h2 refuse; then "
    "`localhost`",
    {"1.26": True, "1.34": False},
    "pkg/kubelet/cm/dra/plugin/plugin.go, ``getOrCreateGRPCConn`` (kubernetes v1.33.13); dra_plugin_manager.go, "
    "``add`` (v1.34.4)",
)
_KEEPS_INSTANCES: Final = Difference(
    "a driver may have several plugins registered at once; before, the newest takes the place of the one before, and "
    "the end of any of their sockets ends it",
    {"1.26": False, "1.33": True},
    "pkg/kubelet/cm/dra/plugin/plugins_store.go, ``add``, ``delete`` (kubernetes v1.32.13, v1.33.13)",
)
_HANGS_WHEN_IDLE: Final = Difference(
    "the connection to a driver that is not called for half an hour hangs when it would become idle: no call comes to "
    "an end, and the driver does not register again on its socket; then it is closed and made again",
    {"1.26": False, "1.34": True, "1.34.2": False},
    "pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go, ``HandleConn``, ``add``, ``remove``, ``DRAPluginManager`` "
    "(kubernetes/kubernetes#133920; v1.34.0, v1.34.2); google.golang.org/grpc v1.72.1, internal/idle/idle.go, "
    "``tryEnterIdleMode``",
)
_IDLE_AFTER_S: Final = 1800.0
_MOST_PLUGINS: Final = 1000
"""A kubelet has no bound but that of open files."""
_OLDEST_SERVICE: Final = "v1alpha3.NodeService"

_CONNECTION: Final = Door("connection to a DRA driver")
_log = logging.getLogger(__name__)


class DriverPlugin:
    """One registered instance of a driver's plugin.

    Attributes:
        driver: the driver's name.
        endpoint: path of its socket.
        service: which of `SERVICES` it is called by.
        hangs: whether its connection does, and with it all calls for ever.
        was_reached: whether there was a connection since its registration.
    """

    def __init__(self, driver: str, endpoint: str, service: str, channel: PluginChannel, clock: Clock) -> None:
        self.driver = driver
        self.endpoint = endpoint
        self.service = service
        self.hangs = False
        self.was_reached = False
        self._channel = channel
        self._clock = clock
        self._calls = 0
        self._used_at = clock.now()
        self._is_renewed = False
        self._was_connected = False

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now, or one that hangs."""
        return self.hangs or self._is_renewed or self._channel.is_connected

    async def call(self, method: str, request: Message, answer: type[M]) -> M:
        """Ask the plugin; a call without a connection fails at once, and each one ends after 45 real seconds.

        Raises:
            RpcError: it refused, died, cannot be reached, or the time is over.
        """
        path = f"/{SERVICES[self.service]}/{method}"
        async with self._used():
            return await self._channel.call(path, request, answer, timeout_s=CALL_TIMEOUT_S)

    async def connect(self) -> None:
        """Connect, unless there is a connection; raises as `call`."""
        await self._channel.connect()

    async def listen(self, method: str, request: Message) -> AsyncGenerator[bytes, None]:
        """Ask for a stream by the full name of a method; raises as `call`."""
        async with self._used(), aclosing(self._channel.listen(method, request)) as messages:
            async for message in messages:
                yield message

    async def wait_idle(self) -> None:
        """Wait until there is a connection that nobody has used for half an hour of the node's time."""
        while (left := self._used_at + _IDLE_AFTER_S - self._clock.now()) > 0 or self._calls:
            await self._clock.sleep(left if left > 0 else _IDLE_AFTER_S)

    async def hang(self) -> None:
        """Close the connection, which no call notices."""
        self.hangs = True
        await self._channel.disconnect()

    async def renew(self) -> None:
        """Make another connection in the place of this one; raises as `call`.

        It counts as connected meanwhile: in the time of a node that passes quickly a driver's grace could end.
        """
        self._used_at = self._clock.now()
        self._is_renewed = True
        try:
            await self._channel.disconnect()
            await self._channel.connect()
        finally:
            self._is_renewed = False

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[None]:
        if self.hangs:
            await asyncio.Future[None]()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._used_at = self._clock.now()

    async def keep_connected(self, on_change: Callable[[], None]) -> None:
        """Keep a connection, until `close`; calls back when `is_connected` has changed."""

        def changed(is_connected: bool) -> None:
            if self._is_renewed or is_connected == self._was_connected:
                return
            self._was_connected = is_connected
            _log.info("Connection changed driverName=%s endpoint=%s connected=%s", *self.key, is_connected)
            on_change()

        await self._channel.keep_connected(changed)

    @property
    def key(self) -> tuple[str, str]:
        """Its driver and endpoint, which no other instance has at the same time."""
        return self.driver, self.endpoint

    async def close(self) -> None:
        """Close the connection, which fails the calls that are under way."""
        await self._channel.close()


def driver_authority(endpoint: str, release: Version) -> str:
    """The header ``:authority`` of calls to a driver."""
    return path_authority(endpoint, release) if _DIALS_BY_PATH.at(release) else "localhost"


class Connection(Enum):
    """What became of the connection to a registered plugin."""

    MADE = auto()
    """For the first time since the plugin has registered."""
    MADE_AGAIN = auto()
    ENDED = auto()


OnConnection = Callable[[str, str, Connection], None]
"""Gets a driver, the endpoint of a plugin of it, and what became of the connection to that."""


def nobody_asks(driver: str, endpoint: str, connection: Connection) -> None:
    """What gets the connections of a manager alone."""


WatchHealth = Callable[[DriverPlugin], Coroutine[Any, Any, None]]
"""Follows the health of a plugin's devices as long as the plugin is registered."""


class DriverPlugins:
    """The registered plugins; takes those of the type DRAPlugin from the plugin manager.

    Args:
        wipes: remove the slices of drivers.
        version: the minor it behaves as.
        clock: the node's time, in which connections become idle.
        tasks: owns the connections.
        watch_health: None where the kubelet does not follow the health of devices.
        within: the node's folder; no driver outside is reached. None for no limit.
        locate: where an endpoint that a driver names is on this host.
        on_connection: called where a plugin is connected, or is not any more.
    """

    def __init__(
        self,
        wipes: SliceWipes,
        version: Version,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        watch_health: WatchHealth | None,
        *,
        within: Path | None = None,
        locate: Locate = as_it_is,
        on_connection: OnConnection = nobody_asks,
    ) -> None:
        self._wipes = wipes
        self._version = version
        self._clock = clock
        self._texts = error_texts(version)
        self._watches_connections = _WATCHES_CONNECTIONS.at(version)
        self._group = tasks
        self._watch_health = watch_health
        self._within = within
        self._locate = locate
        self._on_connection = on_connection
        self._plugins: dict[str, list[DriverPlugin]] = {}
        self._tasks: dict[DriverPlugin, list[asyncio.Task[None]]] = {}
        self._unclosed: list[DriverPlugin] = []
        """Not registered any more, and not disconnected, as before 1.34."""

    def find(self, driver: str) -> DriverPlugin:
        """The instance that is called.

        Raises:
            DynamicResourcesError: none is registered.
        """
        if not driver:
            raise DynamicResourcesError(self._texts.no_driver_name)
        plugins = self.of_driver(driver)
        if not plugins:
            raise DynamicResourcesError(self._texts.no_driver.format(driver=driver))
        if not self._watches_connections:
            return plugins[-1]
        return next((plugin for plugin in reversed(plugins) if plugin.is_connected), plugins[-1])

    def of_driver(self, driver: str) -> Sequence[DriverPlugin]:
        """A driver's instances in the order of their registration."""
        return self._plugins.get(driver, ())

    async def stop(self) -> None:
        """Close all connections; may be called twice."""
        self._wipes.stop()
        for plugin in [*self._unclosed, *(plugin for plugins in self._plugins.values() for plugin in plugins)]:
            await self._end(plugin)
        self._plugins.clear()
        self._unclosed.clear()

    # PluginTypeHandler

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> str | None:
        refusal = _service_refusal(versions, self._services)
        if refusal is None:
            return None
        return self._texts.bad_versions.format(driver=name, endpoint=endpoint, error=refusal)

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> str | None:
        refusal = self.validate(name, endpoint, versions)
        if refusal is not None:
            return refusal
        if not _KEEPS_INSTANCES.at(self._version):
            for plugin in self._plugins.pop(name, []):
                await self._leave_open(plugin)
        elif any(plugin.endpoint == endpoint for plugin in self.of_driver(name)):
            return self._texts.registered_twice.format(endpoint=endpoint, driver=name)
        if sum(map(len, self._plugins.values())) >= _MOST_PLUGINS:
            return f"there are {_MOST_PLUGINS} plugins already"
        channel = PluginChannel(
            self._locate(endpoint),
            self._version,
            within=self._within,
            address=endpoint,
            authority=driver_authority(endpoint, self._version),
        )
        plugin = DriverPlugin(name, endpoint, self._service(versions), channel, self._clock)
        self._plugins.setdefault(name, []).append(plugin)
        if not self._watches_connections:
            self._on_connection(name, endpoint, Connection.MADE)
            self._sync(name)
            return None
        connect = partial(plugin.keep_connected, lambda: self._changed(plugin))
        works = [_CONNECTION.again_until_done(f"{name} {endpoint}", connect, asyncio.sleep)]
        if self._watch_health is not None:
            works.append(self._watch_health(plugin))
        self._tasks[plugin] = [self._group.create_task(work, name=f"DRA plugin {endpoint}") for work in works]
        idle = self._follow_idleness(plugin, self._tasks[plugin][0])
        self._tasks[plugin].append(self._group.create_task(idle, name=f"idleness of {endpoint}"))
        self._sync(name)
        return None

    async def _follow_idleness(self, plugin: DriverPlugin, connecting: asyncio.Task[None]) -> None:
        while True:
            await plugin.wait_idle()
            if plugin.is_connected and _HANGS_WHEN_IDLE.at(self._version):
                connecting.cancel()
                await plugin.hang()
                return
            try:
                await plugin.renew()
            except RpcError:
                # Who keeps it connected reports that.
                self._changed(plugin)

    async def deregister(self, name: str, endpoint: str) -> None:
        ends_any = not _KEEPS_INSTANCES.at(self._version)
        plugin = next((plugin for plugin in self.of_driver(name) if ends_any or plugin.endpoint == endpoint), None)
        if plugin is None:
            return
        self._plugins[name].remove(plugin)
        self._sync(name)
        if plugin.is_connected or not self._watches_connections:
            self._on_connection(name, plugin.endpoint, Connection.ENDED)
        if self._watches_connections:
            await self._end(plugin)
        else:
            await self._leave_open(plugin)
        if plugin.hangs:
            # So does what closes it.
            await asyncio.Future[None]()

    async def _leave_open(self, plugin: DriverPlugin) -> None:
        self._unclosed.append(plugin)
        if len(self._unclosed) > _MOST_PLUGINS:
            await self._end(self._unclosed.pop(0))

    @property
    def _services(self) -> Sequence[str]:
        return _SERVICES.at(self._version).split(", ")

    def _service(self, versions: Sequence[str]) -> str:
        """The service by which a plugin is called that serves these."""
        ours = self._services
        if _OLDEST_SERVICE in ours:
            return next((version for version in ours if version in versions), _OLDEST_SERVICE)
        # The order is the plugin's, not that of the services.
        return next(version for version in versions if version in ours)

    def _changed(self, plugin: DriverPlugin) -> None:
        connection = Connection.ENDED
        if plugin.is_connected:
            connection = Connection.MADE_AGAIN if plugin.was_reached else Connection.MADE
            plugin.was_reached = True
        self._on_connection(plugin.driver, plugin.endpoint, connection)
        self._sync(plugin.driver)

    def _sync(self, driver: str) -> None:
        plugins = self.of_driver(driver)
        usable = (plugin for plugin in plugins if plugin.is_connected or not self._watches_connections)
        self._wipes.set_usable(driver, any(usable))

    async def _end(self, plugin: DriverPlugin) -> None:
        tasks = self._tasks.pop(plugin, [])
        for task in tasks:
            task.cancel()
        await plugin.close()
        await asyncio.gather(*tasks, return_exceptions=True)


def _service_refusal(versions: Sequence[str], services: Sequence[str]) -> str | None:
    """Why a plugin that serves these cannot be called by one of the kubelet's services, None where it can."""
    if not versions:
        return "empty list of supported gRPC services (aka supported versions)"
    if _OLDEST_SERVICE in services or any(version in services for version in versions):
        return None
    theirs, ours = (f"[{' '.join(map(quoted, names))}]" for names in (versions, services))
    return f"none of services supported by the plugin ({theirs}) are supported by the kubelet ({ours})"
