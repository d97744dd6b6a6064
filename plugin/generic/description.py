"""What the YAML file of a generic plugin says; reading it is checking it.

::

    resource: example.com/serial-line   # as pods name it
    devices: [/dev/ttyUSB*]             # each file that a glob finds is a device
    replicas: 1                         # how often each is offered
    env: {SERIAL_LINES: "{paths}"}
    mounts: [{hostPath: /opt/serial}]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from .yaml_file import Value, read_yaml

__all__ = ["Description", "DeviceGlob", "Mount"]

_RESOURCE: Final = re.compile(
    r"(?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+/"
    r"(?=.{1,63}$)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_PERMISSIONS: Final = re.compile("[rwm]+")
_PLACEHOLDER: Final = re.compile(r"\{(\w*)\}")
_PLACEHOLDERS: Final = ("devices", "paths")
_MAX_DEVICES: Final = 100_000

_KEYS: Final = {
    "resource": "the resource, as pods name it",
    "devices": "globs of device files",
    "count": "how many devices there are, without files",
    "replicas": "how often each device is offered",
    "env": "variables of a container that gets devices",
    "mounts": "what such a container finds mounted",
}
_DEVICE_KEYS: Final = {
    "glob": "the files",
    "permissions": "what a container may do with them",
    "mount": "whether they are mounted as files, being no device nodes",
}
_MOUNT_KEYS: Final = {
    "hostPath": "on the node",
    "mountPath": "in the container",
    "readOnly": "whether nothing can be changed there",
}


@dataclass(frozen=True, slots=True)
class DeviceGlob:
    """Files that are devices: `glob` is absolute; `permissions` are letters of a cgroup: r, w and m.

    With `is_mount` a file is mounted into the container, else made there as a device node.
    """

    glob: str
    permissions: str = "rw"
    is_mount: bool = False


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the node in the container."""

    host_path: str
    mount_path: str
    is_read_only: bool = True


@dataclass(frozen=True, slots=True)
class Description:
    """The resource of a generic plugin.

    Attributes:
        globs: The files that are devices; where there are none, `count` says how many devices there are.
        replicas: How often each device is offered; more than one pod can hold it then.
        env: Variable → text in which ``{devices}`` stands for the ids and ``{paths}`` for the files of the devices,
            joined by commas.
    """

    resource: str
    globs: tuple[DeviceGlob, ...] = ()
    count: int = 0
    replicas: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()

    @property
    def socket_name(self) -> str:
        """The name of the plugin's socket: the resource with a dash for what no file name has."""
        return self.resource.replace("/", "-") + ".sock"

    @classmethod
    def read(cls, file: Path) -> Description:
        """Read a file.

        Raises:
            UsageError: it cannot be read, or something in it is wrong; the message begins with ``FILE:LINE:``.
        """
        top = read_yaml(file)
        keys = top.fields(_KEYS, "a mapping with 'resource' and 'devices'")
        if "resource" not in keys:
            top.fail("no 'resource'; name it, as in 'resource: example.com/serial-line'")
        if ("devices" in keys) == ("count" in keys):
            found = "both 'devices' and 'count'" if "count" in keys else "neither 'devices' nor 'count'"
            keys.get("count", top).fail(f"{found}; name files with 'devices', or with 'count' how many without files")
        return cls(
            resource=_resource(keys["resource"]),
            globs=_globs(keys["devices"]) if "devices" in keys else (),
            count=_number(keys["count"]) if "count" in keys else 0,
            replicas=_number(keys["replicas"]) if "replicas" in keys else 1,
            env=_env(keys["env"]) if "env" in keys else {},
            mounts=_mounts(keys["mounts"]) if "mounts" in keys else (),
        )


def _resource(value: Value) -> str:
    name = value.plain(str, "a name such as example.com/serial-line")
    domain = name.partition("/")[0]
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        value.fail(f"{name!r} is in a domain of Kubernetes itself; take a domain of your own")
    if not _RESOURCE.fullmatch(name):
        value.fail(f"{name!r} is no extended resource; write DOMAIN/NAME, as in example.com/serial-line")
    return name


def _globs(value: Value) -> tuple[DeviceGlob, ...]:
    globs = tuple(_device_glob(entry) for entry in value.items("a list of globs, as in [/dev/ttyUSB*]"))
    if not globs:
        value.fail("no globs; name files, as in [/dev/ttyUSB*]")
    return globs


def _device_glob(value: Value) -> DeviceGlob:
    if value.is_text:
        return DeviceGlob(_path(value, "a glob such as /dev/ttyUSB*"))
    keys = value.fields(_DEVICE_KEYS, "a glob such as /dev/ttyUSB*, or a mapping with 'glob'")
    if "glob" not in keys:
        value.fail("no 'glob'; name the files, as in {glob: /dev/ttyUSB*, permissions: rw}")
    permissions = _permissions(keys["permissions"]) if "permissions" in keys else "rw"
    is_mount = keys["mount"].plain(bool, "true or false") if "mount" in keys else False
    return DeviceGlob(_path(keys["glob"], "a glob such as /dev/ttyUSB*"), permissions, is_mount)


def _permissions(value: Value) -> str:
    """The letters as they are written: a container runtime takes them in any order, and one twice.

    Source: ``Permissions.toSet``, devices/config/device.go (opencontainers/cgroups v0.0.4).
    """
    letters = value.plain(str, "a text such as rw")
    if not _PERMISSIONS.fullmatch(letters):
        value.fail(f"{letters!r} are no permissions; write one or more of the letters r, w and m")
    return letters


def _path(value: Value, description: str) -> str:
    path = value.plain(str, description)
    parts = PurePosixPath(path).parts
    if not path.startswith("/") or len(parts) < 2 or ".." in parts:
        value.fail(f"{path!r} is not the path of something on the node; begin it with /, without ..")
    if "**" in parts:
        value.fail(f"{path!r} has ** in it, which would search the whole node; name the folders")
    return str(PurePosixPath(path))


def _number(value: Value) -> int:
    number = value.plain(int, "a whole number from 1")
    if not 1 <= number <= _MAX_DEVICES:
        value.fail(f"{number} is out of range; write a number from 1 to {_MAX_DEVICES}")
    return number


def _env(value: Value) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in value.fields(None, "variables, as in {SERIAL_LINES: '{paths}'}").items():
        found[name] = text.plain(str, "a text, in quotes where it is a number")
        for placeholder in _PLACEHOLDER.findall(found[name]):
            if placeholder not in _PLACEHOLDERS:
                text.fail(f"unknown placeholder {{{placeholder}}}; there are {{devices}} and {{paths}}")
    return found


def _mounts(value: Value) -> tuple[Mount, ...]:
    return tuple(_mount(entry) for entry in value.items("a list of mounts, as in [{hostPath: /opt/serial}]"))


def _mount(value: Value) -> Mount:
    keys = value.fields(_MOUNT_KEYS, "a mapping with 'hostPath'")
    if "hostPath" not in keys:
        value.fail("no 'hostPath'; name what is mounted, as in {hostPath: /opt/serial}")
    host_path = _path(keys["hostPath"], "a path such as /opt/serial")
    mount_path = _path(keys["mountPath"], "a path such as /opt/serial") if "mountPath" in keys else host_path
    return Mount(host_path, mount_path, keys["readOnly"].plain(bool, "true or false") if "readOnly" in keys else True)
