"""A fake machine: one folder of files that makes any process see GPUs that are not there.

::

    <directory>/segment                     state of all GPUs, shared by every process
    <directory>/lib/libnvidia-ml.so.1       the library that answers NVML from it
    <directory>/dev/nvidia0 …               device nodes (plain files)
    <directory>/sys/bus/pci/devices/…       PCI folders with numa_node, vendor, device, class
    <directory>/profile.yaml                what it was made from

There is no daemon: a machine is up while its folder exists. Any number of machines live side by side. The methods are
synchronous, and safe from several threads and processes at once.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from . import _layout
from .errors import HostError, InputError
from .event_type import EventType
from .gpu import Gpu
from .library import NAME, find_library
from .segment import Segment, segment_bytes
from .settings import apply, parse_value
from .tree import PARTS, SEGMENT, write_numa_node, write_tree

if TYPE_CHECKING:
    from .profile import Profile

DEFAULT_PROFILE: Final = "h100-80gb"
_XID_MAX: Final = (1 << 32) - 1


def default_directory() -> Path:
    """Where a machine lives when nobody says: ``$XDG_RUNTIME_DIR/fakegpu``, else ``/tmp/fakegpu-<uid>``."""
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "fakegpu"
    return Path(tempfile.gettempdir()) / f"fakegpu-{os.getuid()}"


_WRONG_PLACE: Final = frozenset(
    {errno.EACCES, errno.EEXIST, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EROFS}
)


class Machine:
    """A machine that exists; made by ``create`` or ``open``.

    Attributes:
        directory: its folder, absolute.
    """

    def __init__(self, directory: Path, segment: Segment) -> None:
        self.directory = directory
        self._segment = segment

    @classmethod
    def create(
        cls,
        directory: str | os.PathLike[str] | None = None,
        profile: str | Profile = DEFAULT_PROFILE,
        count: int = 8,
        *,
        seed: str | None = None,
    ) -> Self:
        """Makes a machine of ``count`` GPUs of one profile. The folder appears complete or not at all.

        Args:
            directory: its folder, which must be missing or empty; the default directory if None.
            profile: name of a profile of the package, or a profile.
            count: number of GPUs, 1 to 1024.
            seed: the same seed gives the same UUIDs and serial numbers; None gives new ones.

        Raises:
            InputError: unknown profile, wrong count, or a folder that is taken.
            HostError: the library is not built, or the host does not let us write there.
        """
        from .hardware import header_of, states_of
        from .profile import load_profile

        if not 1 <= count <= _layout.GPUS_MAX:
            raise InputError(f"cannot make {count} GPUs: a machine has 1 to {_layout.GPUS_MAX}")
        model = load_profile(profile) if isinstance(profile, str) else profile
        states = list(states_of(model, count, uuid.uuid4().hex if seed is None else seed))
        target = _absolute(directory)
        with _host_errors(target):
            _make_folder(target, segment_bytes(header_of(model), states), states, _yaml_of(model))
        return cls.open(target)

    @classmethod
    def open(cls, directory: str | os.PathLike[str] | None = None) -> Self:
        """The machine in ``directory``, or in the default directory.

        Raises:
            InputError: there is none.
            HostError: it belongs to somebody else.
        """
        target = _absolute(directory)
        return cls(target, Segment.open(target / SEGMENT))

    @property
    def library(self) -> Path:
        """The machine's ``libnvidia-ml.so.1``."""
        return self.directory / "lib" / NAME

    @property
    def dev(self) -> Path:
        """What a process should see as ``/dev`` (the GPU files only)."""
        return self.directory / "dev"

    @property
    def sys(self) -> Path:
        """What a process should see as ``/sys`` (the PCI folders only)."""
        return self.directory / "sys"

    def environment(self) -> dict[str, str]:
        """Variables to add to those of a process that shall see these GPUs."""
        paths = [str(self.library.parent)]
        if inherited := os.environ.get("LD_LIBRARY_PATH"):
            paths.append(inherited)
        return {"LD_LIBRARY_PATH": os.pathsep.join(paths), "FAKEGPU_SEGMENT": str(self._segment.path)}

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs as they are now, by index."""
        return tuple(Gpu.from_state(index, self._segment.read(index)) for index in range(self._segment.gpu_count))

    def gpu(self, selector: int | str) -> Gpu:
        """One GPU as it is now, by index (number or digits) or UUID.

        Raises:
            InputError: no such GPU.
        """
        index = self._index(selector)
        return Gpu.from_state(index, self._segment.read(index))

    def fail(self, selector: int | str, *, xid: int | None = None, lost: bool = False) -> None:
        """Reports an XID error, takes the GPU off the bus, or both.

        An XID reaches everybody who registered for XID events of this GPU; what it means is theirs to judge. From a
        lost GPU on, NVML answers ``GPU_IS_LOST`` for everything but what a driver remembers (UUID, index, minor number,
        PCI address), and every wait that watches it ends once with ``GPU_IS_LOST``. With both, the XID is what ends the
        waits, as when a driver reports the loss by XID 79.

        Raises:
            InputError: no such GPU, neither failure asked for, or an XID that is no number of 32 bits.
        """
        index = self._index(selector)
        if xid is None and not lost:
            raise InputError("nothing to fail: give an XID, or let the GPU be lost")
        if xid is not None and not 0 < xid <= _XID_MAX:
            raise InputError(f"no XID {xid}: an XID is a number from 1 to {_XID_MAX}")
        with self._segment.change(index) as state:
            if lost:
                state.fault.is_lost = True
            if xid is not None:
                state.fault.last_xid = xid
                state.fault.xid_count += 1
        if xid is not None:
            self._segment.post(index, EventType.XID.nvml_bit, xid)
        else:
            self._segment.post(index, _layout.EVENT_GPU_LOST)

    def heal(self, selector: int | str) -> None:
        """Puts a GPU back on the bus and forgets its XIDs; no event tells of it.

        Raises:
            InputError: no such GPU.
        """
        with self._segment.change(self._index(selector)) as state:
            state.fault.is_lost = False
            state.fault.last_xid = 0
            state.fault.xid_count = 0

    def set(self, selector: int | str, key: str, value: int | str) -> None:
        """Changes one figure of a GPU, at once for every process; see ``settings.SETTINGS`` for the keys.

        Raises:
            InputError: no such GPU or key, or a value of the wrong type or out of range.
        """
        self.set_many(selector, {key: value})

    def set_many(self, selector: int | str, values: dict[str, int | str]) -> None:
        """Changes several figures of a GPU in one step: all of them, or none when one is refused.

        Raises:
            InputError: as ``set``.
        """
        index = self._index(selector)
        numbers = {key: parse_value(key, value) for key, value in values.items()}
        with self._segment.change(index) as state:
            events = [event for key, number in numbers.items() if (event := apply(state, key, number))]
        for event in events:
            self._segment.post(index, event.nvml_bit)
        if "numa_node" in numbers:
            with _host_errors(self.directory):
                write_numa_node(self.directory, self.gpu(index))

    def close(self) -> None:
        """Lets go of the segment file; the machine stays up. May be called twice."""
        self._segment.close()

    def destroy(self) -> None:
        """Removes the machine's folder. Processes that use it keep their GPUs until they end.

        Raises:
            InputError: somebody put other files into the folder.
            HostError: the host does not let us remove it.
        """
        with _host_errors(self.directory):
            if foreign := sorted(path.name for path in self.directory.iterdir() if path.name not in PARTS):
                raise InputError(f"{self.directory} also holds {', '.join(foreign)}: move that away first")
        self.close()
        with _host_errors(self.directory):
            # First out of sight in one step, so that nobody opens half a machine.
            doomed = Path(tempfile.mkdtemp(prefix=f".{self.directory.name}.", dir=self.directory.parent))
            self.directory.rename(doomed)
            shutil.rmtree(doomed)

    def _index(self, selector: int | str) -> int:
        count = self._segment.gpu_count
        if isinstance(selector, str) and not selector.isdecimal():
            for index in range(count):
                if self._segment.read(index).identity.uuid.decode() == selector:
                    return index
            raise InputError(f"no GPU '{selector}' in {self.directory}: give an index, 0 to {count - 1}, or a UUID")
        index = int(selector)
        if not 0 <= index < count:
            raise InputError(f"no GPU {index} in {self.directory}: it has {count}, 0 to {count - 1}")
        return index


@contextmanager
def _host_errors(path: Path) -> Iterator[None]:
    """Turns what the host refuses into one line: an InputError where another folder would do, else a HostError."""
    try:
        yield
    except OSError as error:
        if error.errno in _WRONG_PLACE:
            raise InputError(f"{path}: {error.strerror}; choose another folder with --dir") from error
        raise HostError(f"{error.filename or path}: {error.strerror or error}") from error


def _absolute(directory: str | os.PathLike[str] | None) -> Path:
    return default_directory() if directory is None else Path(os.path.abspath(directory))  # noqa: PTH100


def _yaml_of(profile: Profile) -> str:
    import yaml

    content = profile.model_dump(mode="json", by_alias=True, exclude_none=True)
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def _make_folder(target: Path, segment: bytes, states: list[_layout.GpuState], profile_text: str) -> None:
    _refuse_taken(target)
    find_library()
    missing = [parent for parent in target.parents if not parent.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _fill_folder(target, segment, states, profile_text)
    except BaseException:
        with suppress(OSError):
            for parent in missing:
                parent.rmdir()
        raise


def _fill_folder(target: Path, segment: bytes, states: list[_layout.GpuState], profile_text: str) -> None:
    building = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        building.chmod(0o755)
        write_tree(building, states, profile_text)
        (building / SEGMENT).write_bytes(segment)
        try:
            building.rename(target)
        except OSError:
            _refuse_taken(target)
            raise
    except BaseException:
        with suppress(OSError):
            shutil.rmtree(building)
        raise


def _refuse_taken(target: Path) -> None:
    if (target / SEGMENT).exists():
        raise InputError(f"{target} already is a fake machine: `fakegpu down --dir {target}` removes it")
    if target.is_dir() and any(target.iterdir()):
        raise InputError(f"{target} is not empty and not a fake machine: choose another directory")
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file: choose another directory")
