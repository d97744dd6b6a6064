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
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from .._internal.doors import Door
from ..apis.dra import CALL_TIMEOUT_S, SERVICES
from ..golang.text import quoted
from ..model.version import Difference, Version
from ..registration.plugin_client import PluginChannel
from .error_texts import error_texts
from .pod_claims import DynamicResourcesError
from .slice_wipes import SliceWipes

__all__ = ["DriverPlugin", "DriverPlugins", "Locate", "OnConnection", "WatchHealth", "as_it_is", "nobody_asks"]

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
_KEEPS_INSTANCES: Final = Difference(
    "a driver may have several plugins registered at once; before, the newest takes the place of the one before, and "
    "the end of any of their sockets ends it",
    {"1.26": False, "1.33": True},
    "pkg/kubelet/cm/dra/plugin/plugins_store.go, ``add``, ``delete`` (kubernetes v1.32.13, v1.33.13)",
)
_OLDEST_SERVICE: Final = "v1alpha3.NodeService"

_CONNECTION: Final = Door("connection to a DRA driver")
_log = logging.getLogger(__name__)


class DriverPlugin:
    """One registered instance of a driver's plugin.

    Attributes:
        driver: the driver's name.
        endpoint: path of its socket.
        service: which of `SERVICES` it is called by.
    """

    def __init__(self, driver: str, endpoint: str, service: str, channel: PluginChannel) -> None:
        self.driver = driver
        self.endpoint = endpoint
        self.service = service
        self._channel = channel

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._channel.is_connected

    async def call(self, method: str, request: Message, answer: type[M]) -> M:
        """Ask the plugin; a call without a connection fails at once, and each one ends after 45 real seconds.

        Raises:
            RpcError: it refused, died, cannot be reached, or the time is over.
        """
        path = f"/{SERVICES[self.service]}/{method}"
        return await self._channel.call(path, request, answer, timeout_s=CALL_TIMEOUT_S)

    async def connect(self) -> None:
        """Connect, unless there is a connection; raises as `call`."""
        await self._channel.connect()

    def listen(self, method: str, request: Message) -> AsyncGenerator[bytes, None]:
        """Ask for a stream by the full name of a method; raises as `call`."""
        return self._channel.listen(method, request)

    async def keep_connected(self, on_change: Callable[[], None]) -> None:
        """Keep a connection, until `close`; calls back when `is_connected` has changed."""

        def changed(is_connected: bool) -> None:
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


Locate = Callable[[str], str]
"""Path of a socket as a driver names it -> where it is on this host."""


def as_it_is(path: str) -> str:
    """Where a socket is that drivers name as it is on this host."""
    return path


OnConnection = Callable[[str, str, bool], None]
"""Gets a driver and the endpoint of a plugin of it, and whether the kubelet is connected to that now."""


def nobody_asks(driver: str, endpoint: str, is_connected: bool) -> None:
    """What gets the connections of a manager alone."""


WatchHealth = Callable[[DriverPlugin], Coroutine[Any, Any, None]]
"""Follows the health of a plugin's devices as long as the plugin is registered."""


class DriverPlugins:
    """The registered plugins; takes those of the type DRAPlugin from the plugin manager.

    Args:
        wipes: remove the slices of drivers.
        version: the minor it behaves as.
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
        tasks: asyncio.TaskGroup,
        watch_health: WatchHealth | None,
        *,
        within: Path | None = None,
        locate: Locate = as_it_is,
        on_connection: OnConnection = nobody_asks,
    ) -> None:
        self._wipes = wipes
        self._version = version
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
            self._unclosed += self._plugins.pop(name, [])
        elif any(plugin.endpoint == endpoint for plugin in self.of_driver(name)):
            return self._texts.registered_twice.format(endpoint=endpoint, driver=name)
        channel = PluginChannel(self._locate(endpoint), self._version, within=self._within, address=endpoint)
        plugin = DriverPlugin(name, endpoint, self._service(versions), channel)
        self._plugins.setdefault(name, []).append(plugin)
        if not self._watches_connections:
            self._on_connection(name, endpoint, True)
            self._sync(name)
            return None
        connect = partial(plugin.keep_connected, lambda: self._changed(plugin))
        works = [_CONNECTION.again_until_done(f"{name} {endpoint}", connect, asyncio.sleep)]
        if self._watch_health is not None:
            works.append(self._watch_health(plugin))
        self._tasks[plugin] = [self._group.create_task(work, name=f"DRA plugin {endpoint}") for work in works]
        self._sync(name)
        return None

    async def deregister(self, name: str, endpoint: str) -> None:
        ends_any = not _KEEPS_INSTANCES.at(self._version)
        plugin = next((plugin for plugin in self.of_driver(name) if ends_any or plugin.endpoint == endpoint), None)
        if plugin is None:
            return
        self._plugins[name].remove(plugin)
        self._sync(name)
        if plugin.is_connected or not self._watches_connections:
            self._on_connection(name, plugin.endpoint, False)
        if self._watches_connections:
            await self._end(plugin)
        else:
            self._unclosed.append(plugin)

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
        self._on_connection(plugin.driver, plugin.endpoint, plugin.is_connected)
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
