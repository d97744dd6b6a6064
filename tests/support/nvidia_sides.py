"""NVIDIA's plugin and ours beside each other: both on one fake machine, each with a kubelet of its own that records.

::

    with NvidiaNode(machine) as node:
        # First ours, then NVIDIA's, each in a folder of its own.
        ours, theirs = node.both(nvidia_plugin, "--mig-strategy=mixed", config=TEXT, DP_DISABLE_HEALTHCHECKS="all")

A `SidePlugin` is a process that runs until its node ends. It is asked as a kubelet asks: `registered`,
`list_and_watch`, `allocate`, `preferred`. Answers are dictionaries of plain values, so they can be compared and
printed; a refusal is a `Refusal` with the gRPC code and the text.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from fakegpu import Machine
from simkubelet._internal.sandbox import NodeView, sandboxed, tied_to_parent
from simkubelet.apis import deviceplugin as api
from tests.support.grpc_peers import DEVICE_PLUGIN, real_stub
from tests.support.patience import LIMIT_S, eventually
from tests.support.plugin_kubelet import KubeletThread
from tests.support.short_paths import short_place

__all__ = ["Answer", "ListStream", "NvidiaNode", "Refusal", "SidePlugin", "assert_same_end"]

_CHANNEL_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost"))
_SETTINGS: Final = (
    "CDI_",
    "CONFIG_FILE",
    "CONTAINER_DRIVER_ROOT",
    "DEVICE_",
    "DP_",
    "DRIVER_ROOT",
    "FAIL_ON_INIT_ERROR",
    "GDRCOPY_",
    "GDS_",
    "IMEX_",
    "KUBELET_SOCKET",
    "MIG_",
    "MOFED_",
    "MPS_",
    "NVIDIA_",
    "PASS_DEVICE_SPECS",
)
"""Prefixes of the variables that a plugin reads: none of them comes from the user's environment."""

Answer = dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    """What a call was answered with in place of a message."""

    code: str
    text: str


class NvidiaNode:
    """A fake machine and the plugins started on it; at the end their processes and folders are gone.

    Args:
        machine: The GPUs; None for a node without a driver. It stays the caller's.
        places: More of the node: path there -> file or folder of the host to show there. With any, our plugin has
            a mount namespace too, and the node's own root.
    """

    def __init__(self, machine: Machine | None, places: Mapping[str, Path] | None = None) -> None:
        self.machine = machine
        self.places = dict(places or {})
        self._folder = Path(tempfile.mkdtemp(prefix="nv-", dir=short_place()))
        self._stack = contextlib.ExitStack()
        self._stack.callback(shutil.rmtree, self._folder)
        self._started = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def both(self, binary: str, *args: str, config: str | None = None, **variables: str) -> Iterator[SidePlugin]:
        """Start our plugin and hand it out, then NVIDIA's, with the same arguments, variables and config file.

        Ours has the original's quirks.
        """
        yield self.ours("--quirks=original", *args, config=config, **variables)
        yield self.theirs(binary, *args, config=config, **variables)

    def ours(self, *args: str, config: str | None = None, **variables: str) -> SidePlugin:
        """Start our plugin as it behaves by default."""
        return self._start(None, args, config, variables)

    def theirs(self, binary: str, *args: str, config: str | None = None, **variables: str) -> SidePlugin:
        """Start NVIDIA's plugin, whose program is `binary`."""
        return self._start(binary, args, config, variables)

    def _start(
        self, binary: str | None, args: tuple[str, ...], config: str | None, variables: Mapping[str, str]
    ) -> SidePlugin:
        folder = self._folder / f"{self._started}-{'ours' if binary is None else 'theirs'}"
        self._started += 1
        plugin = SidePlugin(folder, self.machine, self.places, binary, args, config, variables)
        return self._stack.enter_context(plugin)


class SidePlugin:
    """One plugin's process, its kubelet, and its view of the node below `root`.

    `root` has ``dev``, ``sys`` and ``proc`` of the machine and ``var/run/cdi``; ours gets it as the host's root,
    NVIDIA's has all of that at the node's own paths in a mount namespace. `config_file` may be written again.
    """

    def __init__(
        self,
        folder: Path,
        machine: Machine | None,
        places: Mapping[str, Path],
        binary: str | None,
        args: tuple[str, ...],
        config: str | None,
        variables: Mapping[str, str],
    ) -> None:
        self.is_ours = binary is None
        self.sockets = folder / "device-plugins"
        self.root = folder / "root"
        self.cdi = self.root / "var" / "run" / "cdi"
        self.config_file = folder / "config.yaml"
        self._log = folder / "log"
        self._machine = machine
        self._more_places = places
        self._command = (binary, args)
        self._variables = dict(variables)
        self.sockets.mkdir(parents=True)
        self.cdi.mkdir(parents=True)
        if machine is not None:
            for name in ("dev", "sys", "proc"):
                if (machine.directory / name).exists():
                    (self.root / name).symlink_to(machine.directory / name)
        if config is not None:
            self.config_file.write_text(config)
            self._variables.setdefault("CONFIG_FILE", str(self.config_file))
        self._kubelet = KubeletThread(self.sockets)
        self._channels: dict[tuple[str, int], grpc.Channel] = {}
        """A kubelet dials again for each registration: the server of the last one may still be ending."""
        self._streams: list[ListStream] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._kubelet.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._close_channels()
        if self._process is not None:
            # Of a sandbox too this is the plugin itself, which has no children that outlive it.
            self._process.kill()
            self._process.wait()
        self._kubelet.stop()

    def start(self) -> None:
        """Start the process; it was not started before, or it has ended."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
        environment |= self._machine.environment() if self._machine is not None else {}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv(),
                env={**environment, **self._variables},
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _argv(self) -> list[str]:
        binary, args = self._command
        if binary is None:
            program = [sys.executable, "-P", "-m", "plugin", "nvidia"]
            if self._more_places:
                return sandboxed([*program, *args], self._view())
            return tied_to_parent([*program, "--kubelet-dir", str(self.sockets), "--host-root", str(self.root), *args])
        return sandboxed([binary, *args], self._view())

    def _view(self) -> NodeView:
        places = {api.DEVICE_PLUGIN_PATH: self.sockets, **self._more_places}
        kept = [self.root.parent, *([] if self._machine is None else [self._machine.directory])]
        return NodeView(self.root, self.root.with_name("view"), places, kept=(*kept, *self._more_places.values()))

    @property
    def log(self) -> str:
        """All that the process wrote so far."""
        return self._log.read_text(errors="replace")

    def logged(self, text: str) -> str:
        """The log, once it has `text`.

        Raises:
            AssertionError: time is up, and the text is not there.
        """
        eventually(lambda: text in self.log, lambda: f"no {text!r} in\n{self.log}")
        return self.log

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def exit_status(self) -> int:
        """The status with which the process ended; waits for its end."""
        assert self._process is not None
        try:
            return self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running; it logged\n{self.log}") from None

    @property
    def last_words(self) -> str:
        """The last line of the log of a process that ended, without the date and place that klog puts before it."""
        lines = [line for line in self.log.splitlines() if line.strip()]
        return lines[-1].partition("] ")[2] or lines[-1] if lines else ""

    def registered(self, count: int = 1) -> list[Answer]:
        """The first registrations with the present kubelet, once there are so many, by resource.

        Raises:
            AssertionError: the process ended before, or time is up.
        """

        def has_come_or_never_will() -> bool:
            return self.has_ended or len(self._kubelet.seen) >= count

        def complaint() -> str:
            return f"{len(self._kubelet.seen)} of {count} registrations; log:\n{self.log}"

        eventually(has_come_or_never_will, complaint)
        requests = [_plain(request) for request in self._kubelet.seen[:count]]
        assert len(requests) == count, complaint()
        return sorted(requests, key=lambda request: str(request["resource_name"]))

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process is not None and self._process.poll() is not None

    def restart_kubelet(self) -> None:
        """End the kubelet and start another, which removes all sockets first and knows no registration."""
        self._close_channels()
        self._kubelet.stop()
        self._kubelet = KubeletThread(self.sockets)
        self._kubelet.start()

    def list_and_watch(self, resource: str = "nvidia.com/gpu") -> ListStream:
        """A new ListAndWatch stream."""
        stream = ListStream(self._stub(resource).ListAndWatch(api.Empty()))
        self._streams.append(stream)
        return stream

    def options(self, resource: str = "nvidia.com/gpu") -> Answer | Refusal:
        """GetDevicePluginOptions."""
        return _answer(lambda: self._stub(resource).GetDevicePluginOptions(api.Empty(), timeout=LIMIT_S))

    def allocate(self, *containers: list[str], resource: str = "nvidia.com/gpu") -> Answer | Refusal:
        """Allocate for one or more containers, each with its device ids."""
        request = api.AllocateRequest(
            container_requests=[api.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        )
        return _answer(lambda: self._stub(resource).Allocate(request, timeout=LIMIT_S))

    def allocate_bytes(self, *containers: list[str], resource: str = "nvidia.com/gpu") -> bytes:
        """The answer to Allocate as it may be compared byte for byte: with its map entries in order."""
        request = api.AllocateRequest(
            container_requests=[api.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        )
        answer: Message = self._stub(resource).Allocate(request, timeout=LIMIT_S)
        return answer.SerializeToString(deterministic=True)

    def preferred(
        self, available: list[str], required: list[str], size: int, resource: str = "nvidia.com/gpu"
    ) -> Answer | Refusal:
        """GetPreferredAllocation for one container."""
        asked = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=required, allocation_size=size
        )
        request = api.PreferredAllocationRequest(container_requests=[asked])
        return _answer(lambda: self._stub(resource).GetPreferredAllocation(request, timeout=LIMIT_S))

    def cdi_specs(self) -> dict[str, Any]:
        """File name -> CDI specification, of all that the plugin wrote."""
        return {path.name: json.loads(path.read_text()) for path in sorted(self.cdi.iterdir())}

    def _stub(self, resource: str) -> Any:
        socket = self.sockets / f"nvidia-{resource.partition('/')[2]}.sock"
        registration = resource, sum(one.resource_name == resource for one in self._kubelet.seen)
        if registration not in self._channels:
            channel = grpc.insecure_channel(f"unix:{socket}", options=_CHANNEL_OPTIONS)
            grpc.channel_ready_future(channel).result(LIMIT_S)
            self._channels[registration] = channel
        return real_stub(self._channels[registration], DEVICE_PLUGIN)

    def _close_channels(self) -> None:
        for stream in self._streams:
            stream.cancel()
        self._streams.clear()
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()


class ListStream:
    """One ListAndWatch stream; lists are read as they come, so that none waits for the test."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._lists: queue.Queue[Answer | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def next(self) -> list[Answer]:
        """The devices of the next list, by id.

        Raises:
            AssertionError: the stream ended or time is up.
        """
        answer = self._lists.get(timeout=LIMIT_S)
        assert answer is not None, "the stream has ended"
        return sorted(answer.get("devices", []), key=lambda device: str(device["ID"]))

    def until_unhealthy(self, count: int, again: Callable[[], object] | None = None) -> set[str]:
        """The ids of the unhealthy devices of the first list with so many of them.

        Args:
            count: how many.
            again: done each second until a list comes, as the log of the original does not say when it has subscribed.
        """
        while again is not None and self._lists.empty():
            again()
            self._thread.join(1.0)
        while True:
            unhealthy = {device["ID"] for device in self.next() if device["health"] != api.HEALTHY}
            if len(unhealthy) == count:
                return unhealthy

    def lists_so_far(self) -> list[list[Answer]]:
        """The lists that have come and were not asked for yet."""
        found = []
        with contextlib.suppress(queue.Empty):
            while (answer := self._lists.get_nowait()) is not None:
                found.append(sorted(answer.get("devices", []), key=lambda device: str(device["ID"])))
        return found

    def cancel(self) -> None:
        self._call.cancel()
        self._thread.join()

    def _read(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            for message in self._call:
                self._lists.put(_plain(message))
        self._lists.put(None)


def _plain(message: Message) -> Answer:
    return MessageToDict(message, preserving_proto_field_name=True)


def _answer(call: Callable[[], Message]) -> Answer | Refusal:
    try:
        return _plain(call())
    except grpc.RpcError as error:
        return Refusal(error.code().name, str(error.details()))


def assert_same_end(node: NvidiaNode, binary: str, *args: str, config: str | None = None, **variables: str) -> None:
    """Assert that both plugins exit at once, with status 1 and the same error."""
    ends = [
        (plugin.exit_status(), plugin.last_words) for plugin in node.both(binary, *args, config=config, **variables)
    ]

    assert ends[0] == ends[1]
    assert ends[0][0] == 1
