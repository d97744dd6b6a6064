"""The first program of a container: becomes the container's own, or says why that cannot be.

It runs inside the sandbox, where alone it shows what the container's ``PATH`` and mounts lead to, and its environment
becomes the container's to the letter. What it says goes into a pipe that the kernel closes when the program is there:
``ready`` and nothing more is success. Run as text (``python -c``), so it imports nothing of the package but
`isolation`, whose text comes along.

Where root runs the simulator the sandbox is root's, too, so that nothing in it can be changed by the container, which
is another user for the host. The node's files and what the sandbox has made are that user's then. Where the file system
of the node's folder cannot do it, the container stays root without a capability, and devices are read-only.

Arguments: descriptor of the pipe, working directory, number of variables, the variables, number of mounts where the
sandbox is root's, the mounts (``+`` and the path of what is the node's, ``-`` of what is not, a higher one before a
deeper one; ``=`` and the path of a file system that the sandbox has made), the program's argv.

Source of the texts: opencontainers/runc, libcontainer/standard_init_linux.go and Go's os/exec, ``LookPath``.
"""

from __future__ import annotations

import os
import signal
import stat
import sys

if __package__:
    from .._internal import isolation
else:
    # In a container there is the text of that module alone.
    import isolation  # type: ignore[import-not-found, no-redef]

_MS_BIND = 4096
_READ_ONLY = 1 | 32 | _MS_BIND
"""MS_RDONLY | MS_REMOUNT | MS_BIND."""
_PROC_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")
"""Source: containerd v2.1.4, pkg/oci/spec.go, ``populateDefaultUnixSpec``."""


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


def _be_a_stranger(mounts: list[str]) -> None:
    """Give up what root may do, and keep what belongs to the container."""
    for path in (f"/proc/{name}" for name in _PROC_READ_ONLY):
        if os.path.exists(path):  # noqa: PTH110
            isolation.call("mount", path.encode(), path.encode(), None, _MS_BIND, None)
            isolation.call("mount", None, path.encode(), None, _READ_ONLY, None)
    try:
        stranger = isolation.Stranger()
        hows = {"+": stranger.owning, "-": isolation.cloned}
        trees = {mount[1:]: hows[mount[0]](mount[1:]) for mount in mounts if mount[0] in hows}
    except OSError:
        for path in _devices():
            isolation.call("mount", None, os.fsencode(path), None, _READ_ONLY, None)
        return
    for folder in (folder for mount in mounts if mount[0] == "=" for folder in _own_folders(mount[1:])):
        os.chown(folder, stranger.host_id, stranger.host_id)
    for path, tree in trees.items():
        isolation.attach(tree, path)
    stranger.become()


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
    os.closerange(3, pipe)
    os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
    variables, rest = _counted(arguments[2:])
    mounts, argv = _counted(rest)
    env = dict(variable.split("=", 1) for variable in variables)
    try:
        if mounts:
            _be_a_stranger(mounts)
            isolation.drop_capabilities()
            # Forgotten with a change of the user.
            isolation.end_with_parent()
        isolation.shut_in()
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
