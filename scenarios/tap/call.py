"""One call that goes through the tap, from whoever makes it to whoever serves it."""

from __future__ import annotations

from typing import Protocol

from simkubelet.apis.grpcwire.end import End
from simkubelet.apis.grpcwire.frames import Headers


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
