"""The first program of a container: becomes the container's own, or says why that cannot be.

It runs inside the sandbox, where alone it shows what the container's ``PATH`` and mounts lead to, and its environment
becomes the container's to the letter. What it says goes into a pipe that the kernel closes when the program is there:
``ready`` and nothing more is success. Run as text (``python -c``), so it imports nothing of the package but
`isolation`, whose text it is given.

Where root runs the simulator the sandbox is root's, too, so that nothing in it can be changed by the container, which
is another user for the host. The node's files and what the sandbox has made are that user's then. Where the file system
of the node's folder cannot do it, the container stays root without a capability, and devices are read-only.

What is mounted is staged by the sandbox and moved to its place here, where no link leads out of the container. What is
the node's is compared with what the simulator saw, as a plugin may have replaced it meanwhile.

Where there are no namespaces a supervisor shows the container its files (`translated_files`), and nothing is mounted:
Landlock alone, where the kernel has it, keeps the container from writing more than it was given.

Arguments: descriptor of the pipe, working directory, number of variables, the variables, number of words about mounts,
these words, the program's argv. Words: ``=`` and the path of a file system that the sandbox has made, where the sandbox
is root's; ``+`` and the place of what is the node's, then its device, inode and where it is staged, with colons; ``-``
and the place of what is the host's, then where it is staged; ``>`` and the place of a link, then what it says; a higher
place comes before a deeper one. Without namespaces ``~`` and the place of what can be written, or ``?`` and that of
what can be read, then its descriptor.

Source of the texts: opencontainers/runc, libcontainer/standard_init_linux.go and Go's os/exec, ``LookPath``.
"""

from __future__ import annotations

import itertools
import os
import signal
import stat
import sys

if __package__:
    from .._internal import isolation
else:
    # In a container there is the text of that module alone.
    import isolation  # type: ignore[import-not-found, no-redef]

_MS_BIND, _MS_MOVE = 4096, 8192
_MNT_DETACH = 2
_READ_ONLY = 1 | 32 | _MS_BIND
"""MS_RDONLY | MS_REMOUNT | MS_BIND."""
_PROC_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")
"""Source: containerd v2.1.4, pkg/oci/spec.go, ``populateDefaultUnixSpec``."""
_REPLACED = "error mounting: the source was replaced meanwhile"


def find(program: str, path: str) -> str:
    """The file that a name stands for; an `OSError` with runc's words where there is none."""
    if "/" in program:
        try:
            refusal = _refusal(os.stat(program).st_mode)  # noqa: PTH116 - imports stay few, this runs in each container
        except OSError as error:
            raise OSError(f'exec: "{program}": stat {program}: {_words(error)}') from None
        if refusal:
            raise OSError(f'exec: "{program}": {refusal}')
        return program
    for folder in path.split(":"):
        candidate = (folder or ".") + "/" + program
        try:
            if not _refusal(os.stat(candidate).st_mode):  # noqa: PTH116
                return candidate
        except OSError:
            continue
    raise OSError(f'exec: "{program}": executable file not found in $PATH')


def _refusal(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "is a directory"
    return "" if mode & 0o111 else "permission denied"


def _words(error: OSError) -> str:
    return (error.strerror or "").lower()


def _enter(folder: str) -> None:
    try:  # noqa: SIM105 - contextlib takes as long to import as all the rest
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    except OSError:
        pass
    try:
        os.chdir(folder)
    except OSError as error:
        raise OSError(f'chdir to cwd ("{folder}") set in config.json failed: {_words(error)}') from None


def _set_up(words: list[str]) -> None:
    """Show what was asked for at its places, and give up what root may do."""
    given = iter(words)
    made, shown = [], []
    for word in given:
        if word[0] == "=":
            made.append(word[1:])
        elif word[0] in "~?":
            _compare(word[1:] or "/", int(next(given)))
        else:
            shown.append((word[0], word[1:], next(given)))
    # The check comes first, as another user may read and write what was replaced.
    shown = [(kind, place, _checked(what) if kind == "+" else what) for kind, place, what in shown]
    stranger = _stranger(made, [what for kind, _, what in shown if kind == "+"]) if made else None
    for kind, place, what in shown:
        try:
            if kind == ">":
                os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)  # noqa: PTH103, PTH120
                os.symlink(what, place)  # noqa: PTH211
            else:
                _move(what, place, stranger if kind == "+" else None)
        except OSError as error:
            raise OSError(f'error mounting to rootfs at "{place}": {_words(error)}') from None
    if stranger:
        stranger.become()
    elif made:
        for path in _devices():
            isolation.call("mount", None, os.fsencode(path), None, _READ_ONLY, None)


def _checked(what: str) -> str:
    """Where something of the node is mounted, if it is that: a plugin may have put another thing in its place."""
    device, inode, staged = what.split(":", 2)
    found = os.lstat(staged)
    if (found.st_dev, found.st_ino) != (int(device), int(inode)):
        raise OSError(_REPLACED)
    return staged


def _compare(place: str, opened: int) -> None:
    """The same check of what a supervisor shows at a place."""
    if not os.path.samestat(os.lstat(place), os.fstat(opened)):
        raise OSError(_REPLACED)


def _writable(words: list[str]) -> list[str]:
    """What a supervisor lets the container write; nothing where there is none."""
    return [f"/proc/self/fd/{opened}" for word, opened in itertools.pairwise(words) if word[0] == "~"]


def _stranger(made: list[str], mounts: list[str]) -> isolation.Stranger | None:
    """Another user, who owns what the sandbox has made and what is made from now on; None where that cannot be."""
    for path in (f"/proc/{name}" for name in _PROC_READ_ONLY):
        if os.path.exists(path):  # noqa: PTH110
            isolation.call("mount", path.encode(), path.encode(), None, _MS_BIND, None)
            isolation.call("mount", None, path.encode(), None, _READ_ONLY, None)
    try:
        stranger = isolation.Stranger()
        for mount in mounts:
            os.close(stranger.owning(mount))
    except OSError:
        return None
    for folder in (folder for top in made for folder in _own_folders(top)):
        os.chown(folder, stranger.host_id, stranger.host_id)
    stranger.make_files()
    return stranger


def _move(staged: str, place: str, owner: isolation.Stranger | None) -> None:
    """Let what is staged be at its place, as its owner's where there is one."""
    is_folder = os.path.isdir(staged)  # noqa: PTH112
    room = _room(place, is_folder=is_folder)
    if owner:
        isolation.attach(owner.owning(staged, is_recursive=True), room)
        isolation.call("umount2", os.fsencode(staged), _MNT_DETACH)
    else:
        isolation.call("mount", os.fsencode(staged), b"/proc/self/fd/%d" % room, None, _MS_MOVE, None)
    os.close(room)
    (os.rmdir if is_folder else os.unlink)(staged)


def _room(place: str, *, is_folder: bool) -> int:
    """The descriptor of a file or folder on which something can be mounted, made where it is missing."""
    if is_folder:
        os.makedirs(place, 0o755, exist_ok=True)  # noqa: PTH103
    else:
        os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)  # noqa: PTH103, PTH120
        if not os.path.lexists(place):
            os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    return os.open(place, os.O_PATH)


def _own_folders(top: str) -> list[str]:
    """The folders of the file system at `top`."""
    device = os.lstat(top).st_dev
    found = []
    for folder, names, _ in os.walk(top):
        names[:] = [name for name in names if os.lstat(f"{folder}/{name}").st_dev == device]
        found.append(folder)
    return found


def _devices() -> list[str]:
    """The device nodes of the host that are mounted."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        places = [line.split(" ")[4] for line in file]
    return [place for place in places if os.path.exists(place) and stat.S_ISCHR(os.stat(place).st_mode)]  # noqa: PTH110, PTH116


def main(arguments: list[str]) -> None:
    """Become the program that `arguments` describe; return only when that failed."""
    pipe = int(arguments[0])
    os.set_inheritable(pipe, False)
    variables, rest = _counted(arguments[2:])
    mounts, argv = _counted(rest)
    env = dict(variable.split("=", 1) for variable in variables)
    try:
        try:
            _set_up(mounts)
        except OSError as error:
            os.write(pipe, f"ready\n{error.strerror or error}".encode(errors="surrogateescape"))
            return
        isolation.drop_capabilities()
        # Forgotten with a change of the user.
        isolation.end_with_parent()
        writable = _writable(mounts)
        if writable:
            os.setsid()
        isolation.shut_in([*writable, f"/proc/{os.getpid()}"] if writable else ("/",))
        os.closerange(3, pipe)
        os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
        # Fails when nobody reads any more: the simulator ended before it could tie this sandbox to itself.
        os.write(pipe, b"ready\n")
        _enter(arguments[1])
        program = find(argv[0], env.get("PATH", ""))
    except BrokenPipeError:
        return
    except OSError as error:
        os.write(pipe, str(error).encode(errors="surrogateescape"))
        return
    _become(program, argv, env)


def _counted(words: list[str]) -> tuple[list[str], list[str]]:
    """A list that begins with the number of its items, and what follows it."""
    end = 1 + int(words[0])
    return words[1:end], words[end:]


def _become(program: str, argv: list[str], env: dict[str, str]) -> None:
    # Python ignores these two; a container begins with all signals as the system has them.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, argv, env)  # noqa: S606
    except OSError as error:
        # Too late for runc to refuse the start: the container runs, says so and ends.
        os.write(2, f"exec {program}: {_words(error)}\n".encode(errors="surrogateescape"))
        os._exit(255)


if __name__ == "__main__":
    main(sys.argv[1:])
