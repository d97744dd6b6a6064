"""The annotation by which kubelets of 1.28 to 1.31 also told a container runtime of CDI devices.

Source: devicemanager/pod_devices.go, ``getCDIAnnotations``; cm/util/cdi/cdi.go, ``GenerateAnnotations`` (kubernetes
v1.28.15, v1.31.14). Its rules for names are the kubelet's own copy and older than those of the runtimes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from ..model.errors import KubeletPanicError

__all__ = ["cdi_annotation"]

_PREFIX: Final = "cdi.k8s.io/"
_LONGEST_KEY: Final = 63
_VENDOR: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]")
_CLASS: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*[A-Za-z0-9]")
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_LETTER: Final = re.compile(r"[A-Za-z]")


def cdi_annotation(devices: Collection[str], pod: str, container: str) -> Mapping[str, str]:
    """The annotation for a container with these CDI devices.

    There is none where its key would be too long (a container's name of more than 12 letters in a pod with the usual
    uid), or where a device's name is not qualified.

    Raises:
        KubeletPanicError: a vendor or class of one letter.
    """
    key = f"devicemanager_{pod}-{container}"
    if not devices or len(key) > _LONGEST_KEY or not all(_is_qualified(device) for device in sorted(devices)):
        return {}
    return {_PREFIX + key: ",".join(sorted(devices))}


def _is_qualified(device: str) -> bool:
    kind, _, name = device.partition("=")
    vendor, _, class_name = kind.partition("/")
    if not vendor or not class_name or not name:
        return False
    for part, rule in ((vendor, _VENDOR), (class_name, _CLASS)):
        if _LETTER.fullmatch(part):
            raise KubeletPanicError("runtime error: slice bounds out of range [1:0]")
        if not rule.fullmatch(part):
            return False
    return _NAME.fullmatch(name) is not None
