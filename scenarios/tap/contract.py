"""Whether a plugin keeps to the device plugin API: each message that a tap sees is judged by the rules about it.

Pure: what is judged is what plugin and kubelet said, byte for byte, and never how the kubelet took it. A kubelet
accepts much of what is wrong here, and the pod or the container runtime fails instead, far from the cause.
"""

from __future__ import annotations

import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from simkubelet.apis import deviceplugin as api
from simkubelet.model.resources import is_extended_resource
from simkubelet.model.words import number_of

from ..trace.snapshot import Rpc, Rule


class Breach(NamedTuple):
    """A rule that a message breaks, and how."""

    rule: Rule
    detail: str


Breaches = Iterator[Breach]
_LONGEST_ID: Final = 63
_PERMISSIONS: Final = re.compile(r"(?!.*(.).*\1)[rwm]{1,3}")
_CDI_NAME: Final = re.compile(
    r"[A-Za-z0-9][-A-Za-z0-9_.]*/[A-Za-z][-A-Za-z0-9_]*=[A-Za-z0-9]([-A-Za-z0-9_.:]*[A-Za-z0-9])?"
)
_LONGEST_VARIABLE_BYTES: Final = 128 * 1024 - 1
"""Of name, equals sign and value: Linux takes a closing zero byte more; include/uapi/linux/binfmts.h (v6.1)."""
_OPTIONS: Final = {"pre_start_required": "preStart", "get_preferred_allocation_available": "preferredAllocation"}


def options_of(message: bytes) -> tuple[str, ...]:
    """The options that an answer to GetDevicePluginOptions has on, in a story's words; none of what cannot be read."""
    try:
        return _options_on(api.DevicePluginOptions.FromString(message))
    except DecodeError:
        return ()


class Contract:
    """The rules for one plugin, which has to be consistent over all its calls; judges what it is given in turn."""

    def __init__(self) -> None:
        self._registered_with: tuple[str, ...] | None = None

    def asked(self, rpc: Rpc, request: bytes, mode_of: Callable[[str], int | None]) -> Breaches:
        """Judge a call that the plugin makes.

        Args:
            rpc: Which.
            request: Its message.
            mode_of: The permissions of the socket of a name in the plugin folder, None where there is none.
        """
        if rpc is not Rpc.REGISTER:
            return
        try:
            asked = api.RegisterRequest.FromString(request)
        except DecodeError:
            yield Breach(Rule.READABLE, "the request of Register is no message of the API")
            return
        self._registered_with = _options_on(asked.options)
        if asked.version != api.VERSION:
            yield Breach(Rule.VERSION, f"Register names version '{asked.version}', not {api.VERSION}")
        if not is_extended_resource(asked.resource_name):
            yield Breach(Rule.RESOURCE_NAME, f"'{asked.resource_name}' is no name of an extended resource")
        if not asked.endpoint or asked.endpoint != PurePosixPath(asked.endpoint).name:
            yield Breach(Rule.ENDPOINT, f"the endpoint '{asked.endpoint}' is not a bare file name")
        elif (mode := mode_of(asked.endpoint)) is None:
            yield Breach(Rule.SERVES_FIRST, f"Register came before the socket '{asked.endpoint}' was there")
        elif mode & stat.S_IWOTH:
            yield Breach(Rule.SOCKET_MODE, f"the socket '{asked.endpoint}' has the mode {mode:04o}")

    def answered(self, rpc: Rpc, request: bytes, message: bytes, before: bytes | None) -> Breaches:
        """Judge a message of the plugin's answer to a call of the kubelet.

        Args:
            rpc: Which.
            request: The kubelet's message.
            message: The plugin's.
            before: The last one of the same answer, None for the first.
        """
        try:
            match rpc:
                case Rpc.GET_DEVICE_PLUGIN_OPTIONS:
                    yield from self._options(api.DevicePluginOptions.FromString(message))
                case Rpc.LIST_AND_WATCH:
                    if message == before:
                        yield Breach(Rule.NEW_LISTS, "a list is sent that is the last one again")
                    yield from _list(api.ListAndWatchResponse.FromString(message))
                case Rpc.ALLOCATE:
                    asked = api.AllocateRequest.FromString(request)
                    yield from _allocated(asked, api.AllocateResponse.FromString(message))
                case Rpc.GET_PREFERRED_ALLOCATION:
                    wanted = api.PreferredAllocationRequest.FromString(request)
                    yield from _preferred(wanted, api.PreferredAllocationResponse.FromString(message))
        except DecodeError:
            yield Breach(Rule.READABLE, f"an answer to {rpc} is no message of the API")

    def refused(self, rpc: Rpc, error: str) -> Breaches:
        """Judge an error with which the plugin ends a call of the kubelet, or the kubelet one of the plugin."""
        if rpc not in (Rpc.REGISTER, Rpc.LIST_AND_WATCH):
            yield Breach(Rule.ANSWERS, f"{rpc} was answered with an error: {error}")

    def _options(self, options: Any) -> Breaches:
        on, before = _options_on(options), self._registered_with
        if before is not None and on != before:
            said, says = ", ".join(before) or "none", ", ".join(on) or "none"
            yield Breach(Rule.SAME_OPTIONS, f"Register named the options: {said}; GetDevicePluginOptions: {says}")


def _options_on(options: Any) -> tuple[str, ...]:
    return tuple(word for attribute, word in _OPTIONS.items() if getattr(options, attribute))


def _list(listed: Any) -> Breaches:
    counts = Counter(device.ID for device in listed.devices)
    for repeated in [device for device, count in counts.items() if count > 1]:
        yield Breach(Rule.DEVICE_IDS, f"device '{repeated}' is listed {counts[repeated]} times")
    if "" in counts:
        yield Breach(Rule.DEVICE_IDS, "a device has no id")
    for device in listed.devices:
        if len(device.ID) > _LONGEST_ID:
            yield Breach(Rule.ID_LENGTH, f"the id '{device.ID}' has {len(device.ID)} characters, not {_LONGEST_ID}")
        if device.health not in (api.HEALTHY, api.UNHEALTHY):
            yield Breach(Rule.HEALTH, f"device '{device.ID}' has the health '{device.health}'")
        if negative := [node.ID for node in device.topology.nodes if node.ID < 0]:
            yield Breach(Rule.NUMA_NODES, f"device '{device.ID}' is on NUMA node {negative[0]}")


def _allocated(asked: Any, answer: Any) -> Breaches:
    wanted, given = len(asked.container_requests), len(answer.container_responses)
    if wanted != given:
        yield Breach(Rule.RESPONSES, f"Allocate for {_containers(wanted)} was answered for {_containers(given)}")
    for response in answer.container_responses:
        yield from _paths(response)
        yield from _files(response)
        for name in response.envs:
            if not name or "=" in name or "\0" in name:
                yield Breach(Rule.ENV, f"'{name}' is no name of a variable")
        for name, value in response.envs.items():
            if (size := len(f"{name}={value}".encode())) > _LONGEST_VARIABLE_BYTES:
                yield Breach(Rule.ENV_SIZE, f"the variable '{name}' has {size} bytes")
        for device in response.cdi_devices:
            if not _CDI_NAME.fullmatch(device.name):
                yield Breach(Rule.CDI_NAMES, f"'{device.name}' is no name of a CDI device such as vendor.com/gpu=0")


def _paths(response: Any) -> Breaches:
    mounts = [(mount.container_path, mount.host_path) for mount in response.mounts]
    nodes = [(node.container_path, node.host_path) for node in response.devices]
    for what, path in [(what, path) for what, pairs in (("mount", mounts), ("device file", nodes)) for path in pairs]:
        for one in path:
            if not PurePosixPath(one).is_absolute() or ".." in PurePosixPath(one).parts:
                yield Breach(Rule.PATHS, f"the path '{one}' of a {what} is not absolute")
    for what, places in (("mount", mounts), ("device file", nodes)):
        for place, count in Counter(container for container, _ in places).items():
            if count > 1:
                yield Breach(Rule.DISTINCT_PATHS, f"{count} times a {what} at '{place}' in one container")


def _files(response: Any) -> Breaches:
    for node in response.devices:
        if not _PERMISSIONS.fullmatch(node.permissions):
            yield Breach(
                Rule.PERMISSIONS, f"the permissions '{node.permissions}' of '{node.host_path}' are not some of r, w, m"
            )


def _preferred(asked: Any, answer: Any) -> Breaches:
    wanted, given = len(asked.container_requests), len(answer.container_responses)
    if wanted != given:
        yield Breach(
            Rule.PREFERRED_SIZE,
            f"GetPreferredAllocation for {_containers(wanted)} was answered for {_containers(given)}",
        )
    for request, response in zip(asked.container_requests, answer.container_responses, strict=False):
        yield from _preference(request, list(response.deviceIDs))


def _preference(request: Any, chosen: Sequence[str]) -> Breaches:
    if foreign := _missing(chosen, request.available_deviceIDs):
        yield Breach(Rule.PREFERRED_AVAILABLE, f"prefers {', '.join(foreign)}, which is not available")
    if left := _missing(request.must_include_deviceIDs, chosen):
        yield Breach(Rule.PREFERRED_REQUIRED, f"leaves out {', '.join(left)}, which must be included")
    size = request.allocation_size
    if len(set(chosen)) != size or len(chosen) != size:
        yield Breach(Rule.PREFERRED_SIZE, f"prefers {len(set(chosen))} different devices of {len(chosen)}, not {size}")


def _missing(some: Iterable[str], others: Iterable[str]) -> list[str]:
    return sorted(set(some) - set(others))


def _containers(count: int) -> str:
    return number_of(count, "container")
