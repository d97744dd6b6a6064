"""What a plugin on a node reports: the log of its calls, and the pipe to the scriptable plugin and its commands."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from simkubelet.model.errors import PluginError

from ...trace.events import ContractBroken, PluginCalled, RegistrationAnswered
from ...trace.trace import Record

LINE_LIMIT_BYTES: Final = 16 * 1024 * 1024
_MOST_BREACHES: Final = 5
"""Ways to break one rule that are kept: a list of thousands of devices can have thousands."""
_ANSWER_LIMIT_S: Final = 20.0


class CallLog:
    """What a stub or a tap has reported of a plugin on a node; see `plugin.stub.control` and `tap.tap`.

    Args:
        plugin: Whose.
        node: Where.
        trace: Gets the calls and the answers to registrations.

    Attributes:
        calls: RPC -> how often it was made, and Register -> how often that was answered, over all processes.
        has_tried: Whether the plugin has called Register, answered or not.
        log: All that the kubelet called of the latest process, in order.
        refusal: The answer to the latest Register call, empty where it was accepted or there was none.
        connections: How many the kubelet has.
        options: Those that the plugin says it has on.
        breaches: Rule of its contract -> how it was broken, each way once and no more than some.
    """

    def __init__(self, plugin: str, node: str, trace: Record) -> None:
        self._plugin = plugin
        self._node = node
        self._trace = trace
        self.calls = Counter[str]()
        self.has_tried = False
        self.log: list[str] = []
        self.refusal = ""
        self.connections = 0
        self.options: tuple[str, ...] = ()
        self.breaches: dict[str, tuple[str, ...]] = {}

    @property
    def view_fields(self) -> Mapping[str, Any]:
        """The attributes of a `PluginView` that are known from it."""
        return {
            "refusal": self.refusal,
            "calls": dict(self.calls),
            "call_log": tuple(self.log),
            "connections": self.connections,
            "options": self.options,
            "breaches": dict(self.breaches),
        }

    def begin_process(self) -> None:
        """Another process is the plugin from now on."""
        self.log.clear()

    def take(self, report: Mapping[str, Any]) -> bool:
        """Take a report; return whether it is about a registration that was accepted."""
        match report:
            case {"called": rpc, "devices": devices}:
                self.calls[rpc] += 1
                self.log.append(rpc)
                self._trace.append(PluginCalled(self._plugin, self._node, rpc, tuple(devices)))
            case {"registered": resource, "endpoint": endpoint, "error": error}:
                self.calls["Register"] += 1
                self.refusal = error
                self._trace.append(RegistrationAnswered(self._plugin, self._node, resource, endpoint, error))
                return not error
            case {"registers": True}:
                self.has_tried = True
            case {"connections": number}:
                self.connections = number
            case {"options": options}:
                self.options = tuple(options)
            case {"breach": rule, "detail": detail}:
                self._break(rule, detail)
            case {"ready": True} | {"process": _}:
                self.begin_process()
        return False

    def _break(self, rule: str, detail: str) -> None:
        before = self.breaches.get(rule, ())
        if detail not in before and len(before) < _MOST_BREACHES:
            self.breaches[rule] = (*before, detail)
            self._trace.append(ContractBroken(self._plugin, self._node, rule, detail))


class Input(Protocol):
    """The standard input of a process."""

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None: ...


class Piped(Protocol):
    """A process with pipes for standard input and output."""

    @property
    def stdin(self) -> Input | None: ...

    @property
    def stdout(self) -> asyncio.StreamReader | None: ...


class StubEndedError(PluginError):
    """A stub has ended before it took a command; its next process can be given it."""


class StubControl:
    """The pipe to one process of the scriptable plugin; `listen` has to run beside it.

    Commands go in, answers and reports come out, one JSON object a line.

    Args:
        name: The plugin's, for messages.
        process: A stub with pipes for standard input and output.
        on_report: Called with each line that answers no command: see `plugin.stub.control`.
    """

    def __init__(self, name: str, process: Piped, on_report: Callable[[Mapping[str, Any]], None]) -> None:
        self._name = name
        self._process = process
        self._on_report = on_report
        self._answers: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        self._ready = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether the stub takes commands, or has ended."""
        return self._ready.is_set()

    async def listen(self) -> None:
        """Take what the stub writes until it ends."""
        assert self._process.stdout is not None  # noqa: S101  # a pipe was asked for
        while line := await self._process.stdout.readline():
            written = json.loads(line)
            if "ready" in written:
                self._ready.set()
            elif "called" in written or "registered" in written:
                self._on_report(written)
            else:
                self._answers.put_nowait(written)
        self._ready.set()
        self._answers.put_nowait(None)

    async def send_command(self, command: Mapping[str, Any]) -> None:
        """Give a command and wait until the stub has taken it.

        Raises:
            StubEndedError: it ends before it answers.
            PluginError: it refuses the command, or does not answer.
        """
        assert self._process.stdin is not None  # noqa: S101  # a pipe was asked for
        try:
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                await self._ready.wait()
                self._process.stdin.write(json.dumps(command).encode() + b"\n")
                await self._process.stdin.drain()
                answer = await self._answers.get()
        except ConnectionError:
            answer = None
        except TimeoutError:
            raise PluginError(f"plugin '{self._name}' does not take the command {command['command']}") from None
        if answer is None:
            raise StubEndedError(f"plugin '{self._name}' has ended before it took the command {command['command']}")
        if "error" in answer:
            raise PluginError(f"plugin '{self._name}': {answer['error']}")
