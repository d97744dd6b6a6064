"""What may explain that an expectation is not met: the usual mistakes of plugins, as the trace shows them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from simkubelet.model.events import (
    EventRecorded,
    KubeletCrashed,
    KubeletStarted,
    KubeletStopped,
    PluginDisconnected,
    PluginRegistered,
    RegistrationRefused,
)

from ..trace.events import PluginExited
from ..trace.snapshot import PluginState, PluginView
from ..trace.trace import Entry


def diagnoses(entries: Sequence[Entry], plugins: Iterable[PluginView], subject: str = "") -> tuple[str, ...]:
    """Return what may explain a failure, a sentence each, the likeliest cause first.

    Args:
        entries: The record so far.
        plugins: What their supervisors say now.
        subject: What the failed expectation is about.
    """
    plugins = tuple(plugins)
    return (
        *_kubelets(entries),
        *_ended(entries, plugins),
        *_refused(entries),
        *_lost_streams(entries, plugins),
        *_silent(plugins),
        *_not_registered_again(entries, plugins),
        *_warned(entries, subject),
    )


def _kubelets(entries: Sequence[Entry]) -> Iterator[str]:
    """Kubelets that are not there."""
    latest: dict[str, Entry] = {}
    for entry in entries:
        if isinstance(entry.event, KubeletStarted | KubeletStopped | KubeletCrashed):
            latest[entry.event.node] = entry
    for node, entry in latest.items():
        if isinstance(entry.event, KubeletCrashed):
            yield f"the kubelet of '{node}' crashed at {entry.time_s:.3f} s: {entry.event.reason}"
        elif isinstance(entry.event, KubeletStopped):
            yield f"the kubelet of '{node}' stopped at {entry.time_s:.3f} s and has not started again"


def _ended(entries: Sequence[Entry], plugins: Iterable[PluginView]) -> Iterator[str]:
    """Plugins whose process has ended by itself and is not there now."""
    latest = {
        (entry.event.node, entry.event.plugin): (entry.time_s, entry.event)
        for entry in entries
        if isinstance(entry.event, PluginExited)
    }
    for plugin in plugins:
        if plugin.state in (PluginState.WAITING, PluginState.EXITED) and (plugin.node, plugin.name) in latest:
            time_s, event = latest[plugin.node, plugin.name]
            how = f"was killed by signal {-event.status}" if event.status < 0 else f"exited with status {event.status}"
            said = f"; its log says: {event.said}" if event.said else ""
            yield f"plugin '{plugin.name}' {how} at {time_s:.3f} s and does not run now{said}"


def _refused(entries: Sequence[Entry]) -> Iterator[str]:
    """Resources whose latest registration was refused."""
    latest: dict[tuple[str, str], PluginRegistered | RegistrationRefused] = {}
    for entry in entries:
        if isinstance(entry.event, PluginRegistered | RegistrationRefused):
            latest[entry.event.node, entry.event.resource] = entry.event
    for (node, resource), event in latest.items():
        if isinstance(event, RegistrationRefused):
            yield f"the kubelet of '{node}' refused the registration of '{resource}': {event.message}"


def _lost_streams(entries: Sequence[Entry], plugins: Iterable[PluginView]) -> Iterator[str]:
    """Resources whose stream of lists has ended, though plugins run there and the kubelet does."""
    running = {plugin.node for plugin in plugins if plugin.state is PluginState.RUNNING}
    lost: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        match entry.event:
            case PluginDisconnected(node=node, resource=resource, said=said) if said:
                lost[node, resource] = entry
            case PluginRegistered(node=node, resource=resource):
                lost.pop((node, resource), None)
            case KubeletStopped(node=node) | KubeletCrashed(node=node):
                lost = {place: one for place, one in lost.items() if place[0] != node}
    for (node, resource), entry in lost.items():
        if node in running and isinstance(entry.event, PluginDisconnected):
            yield (
                f"the plugin's ListAndWatch of '{resource}' ended at {entry.time_s:.3f} s, and it has not registered "
                f"again: {entry.event.said}"
            )


def _silent(plugins: Iterable[PluginView]) -> Iterator[str]:
    """Plugins that run and never registered, which explains most failures of a new plugin."""
    for plugin in plugins:
        if plugin.state is PluginState.RUNNING and plugin.registrations == 0:
            yield f"plugin '{plugin.name}' runs but has not registered with the kubelet"


def _not_registered_again(entries: Sequence[Entry], plugins: Iterable[PluginView]) -> Iterator[str]:
    """Resources that a kubelet knew before its latest start and does not know since, though plugins run there."""
    running = {plugin.node: plugin.name for plugin in plugins if plugin.state is PluginState.RUNNING}
    started: dict[str, float] = {}
    missing: dict[str, dict[str, None]] = {}
    known: dict[str, dict[str, None]] = {}
    for entry in entries:
        match entry.event:
            case KubeletStarted(node=node):
                started[node] = entry.time_s
                missing.setdefault(node, {}).update(known.pop(node, {}))
            case PluginRegistered(node=node, resource=resource):
                known.setdefault(node, {})[resource] = None
                missing.get(node, {}).pop(resource, None)
    for node, resources in missing.items():
        for resource in resources if node in running else ():
            yield (
                f"kubelet.sock of '{node}' was recreated at {started[node]:.3f} s, and no plugin has registered "
                f"'{resource}' again: a plugin has to watch the socket's folder"
            )


def _warned(entries: Sequence[Entry], subject: str) -> Iterator[str]:
    """The latest warning about the pod that the expectation is about."""
    for entry in reversed(entries):
        if isinstance(entry.event, EventRecorded) and entry.event.pod == subject and entry.event.type == "Warning":
            yield f"the latest warning about pod '{subject}' is {entry.event.reason}: {entry.event.message}"
            return
