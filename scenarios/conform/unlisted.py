"""Why a program that was started shows no device to check: what it did, and what it may be or need instead. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Final

from simkubelet.model.events import DriverConnected, PluginDisconnected

from ..trace.snapshot import PluginView
from ..trace.trace import Trace
from .profile import Profile

_OPTIONS: Final = "GetDevicePluginOptions"
_DIALS: Final = (
    "does it dial /var/lib/kubelet/device-plugins/kubelet.sock, which is a socket of the simulated kubelet for it?"
)
_NEEDS: Final = "which devices does it need? see --profile (gpus, files)"
_DRIVER_NAME: Final = re.compile(r"(?:^|[-_.])dra(?:net)?(?:$|[-_.])|kubelet-?(?:gpu-)?plugin")
"""As in dra-example-kubeletplugin, gpu-kubelet-plugin, kubelet-gpu-plugin, k8s-gpu-dra-driver and dranet."""
_DRIVER_LOG: Final = re.compile(r"resource\.k8s\.io|resourceslice|\bDRA\b|dynamic resource", re.IGNORECASE)
_HARDWARE: Final[Mapping[str, re.Pattern[str]]] = {
    "gpus: {profile: t4, count: 2}": re.compile(r"nvml|nvidia|cuda", re.IGNORECASE),
    "amd: {profile: mi300x, count: 2}": re.compile(r"amdgpu|\bkfd\b|rocm", re.IGNORECASE),
    "iluvatar: {count: 2}": re.compile(r"ixml|iluvatar", re.IGNORECASE),
}
"""Hardware of a profile -> what a plugin that misses it writes, or is called."""


def why_unlisted(
    command: Sequence[str], profile: Profile, plugin: PluginView, trace: Trace, log: str, within_s: float
) -> str:
    """Return why a plugin that runs has listed no device.

    Args:
        command: Its argv.
        profile: What the user says of it.
        plugin: What its supervisor says.
        trace: What has happened.
        log: What is quoted from its log.
        within_s: How long it was waited for.
    """
    hint = hint_for(command, profile, trace, log)
    said = f'; its log says: "{log}"' if log else ""
    ended = next((event.said for event in trace.of(PluginDisconnected) if event.said), "")
    if _drivers(trace):
        return hint
    if plugin.refusal:
        return f"the kubelet refuses the plugin's registration: {plugin.refusal}"
    if plugin.registrations == 0 and _OPTIONS in plugin.calls:
        return (
            f"the plugin has not answered {_OPTIONS} within {within_s:g} s; the kubelet calls it before it answers "
            "Register: serve the plugin's socket before registering"
        )
    if plugin.registrations == 0:
        return f"the plugin has not registered within {within_s:g} s{said}; {hint or _DIALS}"
    if ended:
        return f"the plugin registers, but its ListAndWatch ends before it lists a device: {ended}"
    return f"the plugin registers, but lists no device within {within_s:g} s{said}; {hint or _NEEDS}"


def hint_for(command: Sequence[str], profile: Profile, trace: Trace, log: str) -> str:
    """Return what a program that shows no device may be, or may need; empty where nothing says so."""
    names = [PurePath(word).name for word in command if not word.startswith("-")]
    drivers = _drivers(trace)
    if drivers or any(map(_DRIVER_NAME.search, names)) or _DRIVER_LOG.search(log):
        what = f"the program is the DRA driver {drivers[0]}" if drivers else "is it a DRA driver?"
        return f"{what}; conform checks device plugins: test a driver with a story, as docs/dra.md shows"
    for hardware, words in _HARDWARE.items():
        is_given = getattr(profile, hardware.partition(":")[0]) is not None
        if not is_given and any(map(words.search, (*names, log))):
            return f"no GPUs? --profile FILE gives the node some; in the file: {hardware}"
    return ""


def _drivers(trace: Trace) -> list[str]:
    return [event.driver for event in trace.of(DriverConnected)]
