"""The first program of a container: becomes the container's own, or says why that cannot be.

It runs inside the sandbox, where alone it shows what the container's ``PATH`` and mounts lead to, and its environment
becomes the container's to the letter. What it says goes into a pipe that the kernel closes when the program is there:
``ready`` and nothing more is success. Run as text (``python -c``), so it imports nothing of the package.

Arguments: descriptor of the pipe, working directory, number of variables, the variables, the program's argv.

Source of the texts: opencontainers/runc, libcontainer/standard_init_linux.go and Go's os/exec, ``LookPath``.
"""

from __future__ import annotations

import os
import signal
import stat
import sys


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


def main(arguments: list[str]) -> None:
    """Become the program that `arguments` describe; return only when that failed."""
    pipe = int(arguments[0])
    os.set_inheritable(pipe, False)
    os.closerange(3, pipe)
    os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
    count = int(arguments[2])
    env = dict(variable.split("=", 1) for variable in arguments[3 : 3 + count])
    argv = arguments[3 + count :]
    try:
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
