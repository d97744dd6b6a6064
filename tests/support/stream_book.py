"""Which ListAndWatch streams should be open: the one thing that a test of two kubelets has to know by itself.

After a step that makes streams come or go, both kubelets are waited for until they have as many as they should; only
then is there something to compare. Up to 1.36 the end of any stream of a resource disconnects the resource's newest
client; from 1.37 on, the client on its own socket.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["StreamBook"]


@dataclass(eq=False)
class _Stream:
    plugin: str
    resource: str
    socket: str


@dataclass
class StreamBook:
    """The streams of one kubelet."""

    keys_by_socket: bool = False
    _open: list[_Stream] = field(default_factory=list)
    _newest: dict[tuple[str, str], _Stream] = field(default_factory=dict)

    def register(self, plugin: str, resource: str, socket: str) -> None:
        """A plugin registered: one more stream, and the newest of its resource."""
        stream = _Stream(plugin, resource, socket)
        self._open.append(stream)
        self._newest[self._key(stream)] = stream

    def refuse(self, resource: str, socket: str) -> None:
        """A registration failed after it had taken the newest client's place."""
        self._newest.pop(self._key(_Stream("", resource, socket)), None)

    def end(self, plugin: str) -> None:
        """All streams of a plugin ended, and with each the newest of its resource."""
        ending = [stream for stream in self._open if stream.plugin == plugin]
        while ending:
            stream = ending.pop()
            if stream in self._open:
                self._open.remove(stream)
            self.disconnect(stream.resource, stream.socket)

    def disconnect(self, resource: str, socket: str) -> None:
        """The newest client of a resource is disconnected, and with it its stream."""
        newest = self._newest.pop(self._key(_Stream("", resource, socket)), None)
        if newest is not None and newest in self._open:
            self._open.remove(newest)

    def end_all(self) -> None:
        """The kubelet ended."""
        self._open.clear()
        self._newest.clear()

    def count(self, plugin: str) -> int:
        return sum(stream.plugin == plugin for stream in self._open)

    def resources(self, plugin: str) -> set[str]:
        """What a plugin's open streams are about."""
        return {stream.resource for stream in self._open if stream.plugin == plugin}

    def connected(self) -> set[str]:
        """Resources that have a newest client."""
        return {resource for resource, _ in self._newest}

    def clients(self) -> list[str]:
        """The resource of each newest client, in order."""
        return sorted(resource for resource, _ in self._newest)

    def _key(self, stream: _Stream) -> tuple[str, str]:
        return stream.resource, stream.socket if self.keys_by_socket else ""
