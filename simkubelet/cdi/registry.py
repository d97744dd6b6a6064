"""The CDI devices of a node: which spec file a name means, and what a list of names adds to a container.

Source: pkg/cdi/cache.go, pkg/cdi/spec-dirs.go (container-device-interface v1.0.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from .._internal.file_tree import FileTree
from ..apis.cdi import CdiSpec, ContainerEdits
from ..apis.documents import LARGEST_FILE, read_file
from ..golang.text import quoted
from .spec import CdiNameError, SpecError, parse_qualified_name, parse_spec

__all__ = ["CdiRegistry", "UnresolvableDevicesError", "devices_in_annotations"]

_SPEC_FOLDERS: Final = ("/etc/cdi", "/var/run/cdi")
_ANNOTATION_PREFIX: Final = "cdi.k8s.io/"
_SUFFIXES: Final = frozenset({".json", ".yaml"})


class UnresolvableDevicesError(LookupError):
    """Names that no spec file of the node defines."""

    def __init__(self, devices: Sequence[str]) -> None:
        super().__init__(f"unresolvable CDI devices {', '.join(devices)}")
        self.devices = tuple(devices)


@dataclass(frozen=True, slots=True)
class SpecFile:
    path: str
    priority: int
    spec: CdiSpec


class CdiRegistry:
    """The devices of some spec files: a name -> the file that defines it.

    A file of a later folder hides the devices of the same name of earlier folders. Two files of one folder with a
    device of the same name hide it from each other; neither that nor an unusable file keeps the rest from use.
    """

    def __init__(self, files: Iterable[SpecFile], problems: Iterable[str] = ()) -> None:
        self._devices: dict[str, tuple[SpecFile, ContainerEdits]] = {}
        found: list[str] = list(problems)
        conflicts = set()
        for file in files:
            for device in file.spec.devices:
                name = f"{file.spec.kind}={device.name}"
                other = self._devices.get(name)
                if other is not None and other[0].priority == file.priority:
                    found.append(f'conflicting device "{name}" (specs "{file.path}", "{other[0].path}")')
                    conflicts.add(name)
                else:
                    self._devices[name] = (file, device.container_edits)
        for name in conflicts:
            del self._devices[name]
        self.problems = tuple(found)

    @classmethod
    def load(cls, tree: FileTree, folders: Sequence[str] = _SPEC_FOLDERS) -> CdiRegistry:
        """Read the ``.json`` and ``.yaml`` files of folders of a node, as many as are not too large together.

        Args:
            tree: The node's files.
            folders: The last of them weighs most; one may be missing.
        """
        files = []
        problems = []
        left = LARGEST_FILE
        for priority, folder in enumerate(folders):
            names = []
            try:
                names = tree.names(folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                problems.append(f"{folder}: cannot be read: {error.strerror}")
            for path in (f"{folder}/{name}" for name in names):
                if PurePosixPath(path).suffix not in _SUFFIXES or tree.is_folder(path):
                    continue
                try:
                    with tree.open(path, "rb") as file:
                        content = read_file(file.fileno(), left)
                    left -= len(content)
                    files.append(SpecFile(path, priority, parse_spec(content.decode())))
                except (SpecError, UnicodeDecodeError) as error:
                    problems.append(f"{path}: {error}")
                except OSError as error:
                    problems.append(f"{path}: cannot be read: {error.strerror}")
        return cls(files, problems)

    @property
    def devices(self) -> Mapping[str, ContainerEdits]:
        """Qualified name -> the edits of the device itself."""
        return {name: edits for name, (_, edits) in self._devices.items()}

    def edits(self, devices: Sequence[str]) -> ContainerEdits:
        """What some devices add to a container, in their order; a spec's own edits stand once, before its first device.

        Raises:
            UnresolvableDevicesError: some are not defined.
        """
        if unresolved := [name for name in devices if name not in self._devices]:
            raise UnresolvableDevicesError(unresolved)
        merged = ContainerEdits()
        seen = set()
        for name in devices:
            file, own = self._devices[name]
            if file.path not in seen:
                seen.add(file.path)
                merged += file.spec.container_edits
            merged += own
        return merged


def devices_in_annotations(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The devices that annotations of a container ask for, in the order of the annotations' keys.

    Raises:
        CdiNameError: one is no qualified name.

    Source: pkg/cdi/annotations.go, ``ParseAnnotations`` (v1.0.1), whose order of keys is Go's, that is, any.
    """
    devices = []
    for key, value in sorted(annotations.items()):
        if key.startswith(_ANNOTATION_PREFIX):
            devices.extend(value.split(","))
    for device in devices:
        try:
            parse_qualified_name(device)
        except CdiNameError:
            raise CdiNameError(f"invalid CDI device name {quoted(device)}") from None
    return tuple(devices)
