"""The folder of a machine: where it is, made complete or not at all, and removed; and what the host refuses there."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import HostError, InputError
from ..state.library import load_writer
from ..state.segment import SEGMENT, write_segment
from .inside import opened_folder, read_inside, remove_at

if TYPE_CHECKING:
    from ..state import layout

MARK: Final = ".fakegpu"
"""File in a folder that is ours to remove: below a line of ours what was made there for other vendors, a name a line.

A machine has its segment in place of it, but for the time in which the folder is made or removed.
"""

_MARK_LINE: Final = "# Made by fakegpu, which removes this folder with what is named here."
_MARKED_WITHIN_S: Final = 60.0
_WRONG_PLACE: Final = frozenset(
    {
        *(errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOENT),
        *(errno.ENOTDIR, errno.EPERM, errno.EROFS, errno.ETXTBSY, errno.EXDEV),
    }
)


def default_directory() -> Path:
    """Where a machine is by default: ``$XDG_RUNTIME_DIR/fakegpu``, else ``/tmp/fakegpu-<uid>``.

    Raises:
        InputError: another user has made something there.

    Source: XDG Base Directory Specification 0.8: a relative path is ignored.
    """
    if (runtime := Path(os.environ.get("XDG_RUNTIME_DIR", ""))).is_absolute():
        return runtime / "fakegpu"
    place = Path(os.environ.get("TMPDIR") or "/tmp", f"fakegpu-{os.getuid()}")  # noqa: S108 - checked below
    with host_errors(place), suppress(FileNotFoundError, NotADirectoryError):
        if place.lstat().st_uid != os.getuid():
            raise InputError(f"{place}: belongs to another user; choose another folder with --dir")
    return place


@contextmanager
def host_errors(path: Path, instead: str = "choose another folder with --dir") -> Iterator[None]:
    """Turn what the host refuses into one line: an InputError where another place would do, else a HostError."""
    try:
        yield
    except OSError as error:
        if error.errno in _WRONG_PLACE:
            raise InputError(f"{path}: {error.strerror}; {instead}") from error
        raise HostError(f"{path}: {error.strerror or error}") from error


def absolute(directory: str | os.PathLike[str] | None) -> Path:
    """The folder that is meant: the default one if None.

    Raises:
        InputError: it has no place in a working directory that was removed.
    """
    try:
        return default_directory() if directory is None else Path(os.path.abspath(directory))  # noqa: PTH100
    except FileNotFoundError:
        raise InputError(f"{directory}: the working directory is gone; change to another one") from None


def make_folder(target: Path, segment: bytes, states: Sequence[layout.GpuState], profile_text: str) -> None:
    """Make the folder of a machine, complete or not at all.

    Args:
        target: must be missing or empty.
        segment: content of the segment file.
        states: of its GPUs.
        profile_text: YAML of what it is made from.

    Raises:
        InputError: the folder is taken, or cannot be there.
        HostError: the library is not built, or the host does not let us write.
    """
    with host_errors(target):
        _refuse_taken(target)
        load_writer()
        missing = [parent for parent in target.parents if not parent.exists()]
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _fill_folder(target, segment, states, profile_text)
        except BaseException:
            with suppress(OSError):
                for parent in missing:
                    parent.rmdir()
            raise


def _fill_folder(target: Path, segment: bytes, states: Sequence[layout.GpuState], profile_text: str) -> None:
    import tempfile

    from .tree import write_tree

    _remove_left_behind(target)
    with _undivided():
        building = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        with _gone_after_failure(building), _in_use(building):
            try:
                _write_mark(building)
                building.chmod(0o755)
                write_tree(building, states, profile_text)
                write_segment(building / SEGMENT, segment)
                (building / MARK).unlink()
                try:
                    building.rename(target)
                except OSError:
                    _refuse_taken(target)
                    raise
            except BaseException:
                with suppress(OSError):
                    _remove(building)
                raise


@contextmanager
def _gone_after_failure(made: Path) -> Iterator[None]:
    """Remove a folder that was made if what is to be done with it cannot be, where it is empty."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            made.rmdir()
        raise


@contextmanager
def _undivided() -> Iterator[None]:
    """Have the signals that end a command wait until a folder is made, or is removed."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _in_use(folder: Path) -> Iterator[None]:
    """Mark a folder, whatever its name becomes, as that of a process that runs.

    Raises:
        BlockingIOError: It is marked already.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _remove_left_behind(target: Path) -> None:
    """Remove what killed processes of ours have left of machines that they made for this place, or removed from it.

    A process that makes such a folder locks it soon afterwards, so a new one is left alone.
    """
    import time

    name = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}")
    for folder in target.parent.iterdir() if os.access(target.parent, os.R_OK) else ():
        if not name.fullmatch(folder.name):
            continue
        with suppress(OSError):
            status = folder.lstat()
            if status.st_uid != os.getuid():
                continue
            is_ours = (folder / SEGMENT).exists() or _claimed(folder) is not None or not any(folder.iterdir())
            if is_ours and time.time() - status.st_ctime > _MARKED_WITHIN_S:
                with _in_use(folder):
                    _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder of ours; what shows that it is goes last, as this process may be killed meanwhile.

    By its descriptor: a program of the machine may put something else in its place.
    """
    with opened_folder(folder, "") as here:
        names = os.listdir(here)  # noqa: PTH208  # by its descriptor
        for name in sorted(names, key=lambda name: (name == MARK, name == SEGMENT)):
            remove_at(name, here)
    folder.rmdir()


def _refuse_taken(target: Path) -> None:
    if (target / SEGMENT).exists():
        raise InputError(f"{target} already is a fake machine: `fakegpu down --dir {target}` removes it")
    if target.is_dir() and any(target.iterdir()):
        raise InputError(f"{target} is not empty and not a fake machine: choose another directory")
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file: choose another directory")


@contextmanager
def claimed(target: Path, names: Iterable[str] = (), replaced: Iterable[Path] = ()) -> Iterator[None]:
    """Note what is made in a folder meanwhile as ours to remove, unless the folder held anything else before.

    Args:
        target: The folder; the caller makes it.
        names: What is made in it, besides parts of a machine.
        replaced: What is there and goes.

    Raises:
        InputError: Something that is not ours would be replaced, or a link leads elsewhere.
        OSError: The host does not let us write.
    """
    from .tree import PARTS

    known = _claimed(target)
    is_ours = known is not None or (target / SEGMENT).exists() or not (target.is_dir() and any(target.iterdir()))
    for name in sorted(PARTS | {MARK}):
        if (target / name).is_symlink():
            raise InputError(f"{target / name} is a link: choose another directory")
    if not is_ours and (foreign := next(iter(replaced), None)) is not None:
        raise InputError(f"{foreign} is there and not of fakegpu: choose another directory")
    yield
    if is_ours:
        _write_mark(target, {*(known or ()), *names})


def _write_mark(target: Path, names: Iterable[str] = ()) -> None:
    lines = (_MARK_LINE, *sorted(names))
    (target / MARK).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def is_claimed(target: Path) -> bool:
    """Whether a folder holds devices of other vendors only, and is ours to remove."""
    return _claimed(target) is not None and not (target / SEGMENT).exists()


def _claimed(target: Path) -> frozenset[str] | None:
    """What the mark of a folder names; None where it has none of ours."""
    if not target.is_dir():
        return None
    first, *names = (read_inside(target.resolve(), MARK, "utf-8") or "").splitlines() or [""]
    return frozenset(names) if first == _MARK_LINE else None


def refuse_foreign(target: Path) -> None:
    """Make sure that a folder holds nothing but the parts of a machine and what commands have made beside them.

    Raises:
        InputError: the folder also holds files of others.
    """
    from .tree import PARTS

    with host_errors(target):
        ours = PARTS | (names | {MARK} if (names := _claimed(target)) is not None else set())
        if foreign := sorted(path.name for path in target.iterdir() if path.name not in ours):
            raise InputError(f"{target} also holds {', '.join(foreign)}: move that away first")


def remove_folder(target: Path) -> None:
    """Remove the folder of a machine: first out of sight in one step, so that no process opens half a machine.

    Raises:
        InputError: it cannot be removed by us.
        HostError: the host does not let us.
    """
    import tempfile

    with host_errors(target):
        if target.is_symlink():
            raise InputError(f"{target} is a link: name the folder itself")
        with ExitStack() as stack:
            # Who may read the folder can hold the lock, and must not hold this up. Nobody removes it meanwhile then.
            with suppress(BlockingIOError):
                stack.enter_context(_in_use(target))
            stack.enter_context(_undivided())
            doomed = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
            with _gone_after_failure(doomed):
                target.rename(doomed)
            _remove(doomed)
