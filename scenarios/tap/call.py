"""A call that goes through the tap; those of the device plugin API are reported, and answered as a story says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Protocol

from simkubelet.apis.grpcwire.end import End
from simkubelet.apis.grpcwire.frames import CANCEL, Headers
from simkubelet.apis.grpcwire.messages import (
    ANSWER_BEGINS,
    EMPTY_MESSAGE,
    Code,
    MessageEnds,
    error_in,
    framed,
    message_in,
    taken,
    trailers,
)

from ..trace.snapshot import Rpc
from .answer import Answer, device_list, filled, in_parts


class Route(Protocol):
    """The two connections of a call."""

    caller: End
    server: End

    def opened(self, call: Call) -> int:
        """A new stream of the server's connection for a call."""

    def changed(self) -> None:
        """The caller gets other data than the server has sent."""

    def ended(self, call: Call) -> None:
        """Neither side says more on the call's streams."""


class Call:
    """A call that is passed on as it comes, whatever it is.

    Attributes:
        source: Its stream on the caller's connection.
        target: Its stream on the server's connection, 0 while there is none.
    """

    def __init__(self, route: Route, source: int) -> None:
        self.source = source
        self.target = 0
        self._route = route
        self._caller = route.caller
        self._server = route.server
        self._is_asked = False
        self._is_answered = False

    # From the caller

    def asks(self, headers: Headers, is_last: bool) -> None:
        """Headers of the caller, those that begin the call first."""
        if not self.target:
            self.target = self._route.opened(self)
        self._server.send_headers(self.target, headers, is_last)
        self._asked(is_last)

    def says(self, data: bytes, size: int, is_last: bool) -> None:
        """Data of the caller."""
        self._server.send_data(self.target, data, is_last, lambda: self._caller.credit(self.source, size))
        self._asked(is_last)

    def gives_up(self, code: int) -> None:
        """The caller has broken the call off."""
        self._server.send_reset(self.target, code)
        self._route.ended(self)

    # From the server

    def answers(self, headers: Headers, is_last: bool) -> None:
        """Headers of the server."""
        self._caller.send_headers(self.source, headers, is_last)
        self._answered(is_last)

    def brings(self, data: bytes, size: int, is_last: bool) -> None:
        """Data of the server."""
        target = self.target
        self._caller.send_data(self.source, data, is_last, lambda: self._server.credit(target, size))
        self._answered(is_last)

    def breaks(self, code: int) -> None:
        """The server has broken the call off."""
        self._caller.send_reset(self.source, code)
        self._route.ended(self)

    def _asked(self, is_last: bool) -> None:
        self._is_asked |= is_last
        self._end_if_over()

    def _answered(self, is_last: bool) -> None:
        self._is_answered |= is_last
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self._is_asked and self._is_answered:
            self._route.ended(self)

    def close(self) -> None:
        """Its connections have ended."""

    @property
    def held_bytes(self) -> int:
        """What is kept of its messages, as long as it is under way."""
        return 0

    def refuse(self) -> None:
        """End it with an error, as too much is kept."""


class Supervisor(Protocol):
    """Gets each call and decides how it is answered."""

    def asked(self, rpc: StrEnum, request: bytes) -> Answer:
        """A call is complete, and waits for what is to be done with it."""

    def replied(self, rpc: StrEnum, request: bytes, message: bytes, before: bytes | None) -> None:
        """The server has sent a message of its answer, whatever the caller gets; `before` is the last one of it."""

    def refused(self, rpc: StrEnum, error: str) -> None:
        """The server has ended a call with an error, whatever the caller gets."""

    def answered(self, rpc: StrEnum, request: bytes, error: str) -> None:
        """A call has ended; `error` is empty where it ended well."""


class KnownCall(Call):
    """A call that is held until it is complete.

    Args:
        route: Its connections.
        source: Its stream on the caller's connection.
        rpc: Which call it is.
        supervisor: Is notified of it.
    """

    def __init__(self, route: Route, source: int, rpc: StrEnum, supervisor: Supervisor) -> None:
        super().__init__(route, source)
        self._rpc = rpc
        self._supervisor = supervisor
        self._headers: Headers = []
        self._request = bytearray()
        self._received = bytearray()
        self._before: bytes | None = None
        self._ends = MessageEnds()
        self._lists: list[bytes] = []
        self._answer = Answer()
        self._answers_to_drop = 0
        self._has_begun = False
        self._timer: asyncio.TimerHandle | None = None

    def asks(self, headers: Headers, is_last: bool) -> None:
        self._headers = self._headers or headers
        self._asked(is_last)

    def says(self, data: bytes, size: int, is_last: bool) -> None:
        self._caller.credit(self.source, size)
        self._request += data
        self._asked(is_last)

    def gives_up(self, code: int) -> None:
        self.close()
        super().gives_up(code)

    def answers(self, headers: Headers, is_last: bool) -> None:
        if is_last and (error := error_in(headers)):
            self._supervisor.refused(self._rpc, error)
        if self._answers_to_drop:
            self._ask_again_at_end(is_last)
        elif not self._answer.lost:
            self._answer_with(headers, is_last)

    def brings(self, data: bytes, size: int, is_last: bool) -> None:
        if self._answers_to_drop:
            self._server.credit(self.target, size)
            self._ask_again_at_end(is_last)
        elif self._answer.lost:
            self._server.credit(self.target, size)
            self._judge(data)
        elif self._answer.changes_messages:
            self._server.credit(self.target, size)
            for message in self._messages_in(data):
                self._caller.send_data(self.source, self._changed(message), is_last=False)
            if is_last:
                self._caller.send_data(self.source, b"", is_last=True)
            self._answered(is_last)
        else:
            self._judge(data)
            end = self._ends.last_in(data)
            if self._lists and end is not None:
                self._caller.send_data(self.source, data[:end] + b"".join(self._lists), is_last=False)
                self._lists.clear()
                data = data[end:]
            super().brings(data, size, is_last)

    def _judge(self, data: bytes) -> None:
        """Show the supervisor what passes as it is."""
        deque(self._messages_in(data), maxlen=0)

    def _messages_in(self, data: bytes) -> Iterator[bytes]:
        """The messages that data of the server complete, each with its prefix; the supervisor gets them first."""
        self._received += data
        for message in taken(self._received):
            is_compressed = message[0] != 0
            if not is_compressed:
                plain = message_in(message)
                self._supervisor.replied(self._rpc, message_in(self._request), plain, self._before)
                self._before = plain
            yield message

    def send_list(self, devices: Sequence[dict[str, Any]]) -> None:
        """Put a list between those of the plugin, where this is a stream of lists that has begun."""
        if self._rpc is not Rpc.LIST_AND_WATCH or not self._has_begun:
            return
        self._route.changed()
        one = framed(device_list(devices))
        if self._ends.is_between:
            self._caller.send_data(self.source, one, is_last=False)
        else:
            self._lists.append(one)

    def end_stream(self) -> None:
        """End a stream of lists: well for the kubelet, broken off for the plugin."""
        if self._rpc is Rpc.LIST_AND_WATCH:
            self.close()
            self._server.send_reset(self.target, CANCEL)
            self._finish(Code.OK)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def held_bytes(self) -> int:
        return len(self._request) + len(self._received)

    def refuse(self) -> None:
        self.close()
        self._server.send_reset(self.target, CANCEL)
        self._finish(Code.RESOURCE_EXHAUSTED, "the calls under way hold too much")
        self._route.ended(self)

    def _asked(self, is_last: bool) -> None:
        self._is_asked |= is_last
        if is_last:
            self._answer = self._supervisor.asked(self._rpc, message_in(self._request))
            self._timer = asyncio.get_running_loop().call_later(self._answer.after_s, self._go_on)

    def _go_on(self) -> None:
        answer = self._answer
        if answer.never:
            return
        if answer.error is not None:
            self._finish(Code.UNKNOWN, answer.error)
        elif answer.empty:
            if self._rpc is not Rpc.LIST_AND_WATCH:
                self._answer_with(ANSWER_BEGINS, is_last=False)
                self._caller.send_data(self.source, EMPTY_MESSAGE, is_last=False)
            self._finish(Code.OK)
        else:
            self._answers_to_drop = int(answer.twice and self._rpc is not Rpc.LIST_AND_WATCH)
            self._ask()

    def _ask(self) -> None:
        self.target = self._route.opened(self)
        self._server.send_headers(self.target, self._headers, is_last=False)
        self._server.send_data(self.target, bytes(self._request), is_last=True)

    def _ask_again_at_end(self, is_last: bool) -> None:
        if is_last:
            self._answers_to_drop -= 1
            self._ask()

    def _finish(self, code: int, text: str = "") -> None:
        ends = trailers(code, text)
        self._answer_with(ends if self._has_begun else [*ANSWER_BEGINS, *ends], is_last=True)

    def _answer_with(self, headers: Headers, is_last: bool) -> None:
        self._has_begun = True
        if is_last and (error := error_in(headers)) is not None:
            self._supervisor.answered(self._rpc, message_in(self._request), error)
        self._caller.send_headers(self.source, headers, is_last)
        self._answered(is_last)

    def _changed(self, message: bytes) -> bytes:
        """What a message of the answer becomes, as it goes over a stream."""
        is_compressed = message[0] != 0
        if is_compressed:
            return message
        self._route.changed()
        answer, is_list = self._answer, self._rpc is Rpc.LIST_AND_WATCH
        parts = in_parts(message_in(message), answer.parts) if is_list else [message_in(message)]
        changed = b"".join(framed(filled(part, answer.bytes)) for part in parts)
        return changed * 2 if answer.twice and is_list else changed
