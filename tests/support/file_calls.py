"""Sequences of calls about files, made by one process in a view, and what each answered."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

PROGRAM: Final = r"""
import errno, json, os, socket, stat, sys

opened = {}

def at(where):
    return opened.get(where) if where else None

def kind(found):
    mode = found.st_mode
    return [stat.S_IFMT(mode), stat.S_IMODE(mode), found.st_size if stat.S_ISREG(mode) else 0]

def use(path, flags, where):
    file = os.open(path, flags | os.O_NONBLOCK, 0o644, dir_fd=at(where))
    try:
        if flags & 3:
            os.write(file, b"x")
        elif stat.S_ISREG(os.fstat(file).st_mode) and not path.startswith("/proc"):
            return os.read(file, 64).decode("latin-1")
    finally:
        os.close(file)

def folder(path, where):
    if where in opened:
        os.close(opened.pop(where))
    opened[where] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    return sorted(os.listdir(opened[where])) if not path.startswith("/proc") else None

def listen(path):
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        client.connect(path)
        return [server.getsockname(), client.getpeername()]

def connect(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)

calls = {
    "use": use,
    "folder": folder,
    "name": lambda w: os.readlink(f"/proc/self/fd/{opened[w]}"),
    "listen": listen,
    "connect": connect,
    "stat": lambda p, f, w: kind(os.stat(p, follow_symlinks=f, dir_fd=at(w))),
    "mkdir": lambda p, w: os.mkdir(p, 0o755, dir_fd=at(w)),
    "rmdir": lambda p, w: os.rmdir(p, dir_fd=at(w)),
    "unlink": lambda p, w: os.unlink(p, dir_fd=at(w)),
    "rename": lambda a, b, w: os.rename(a, b, src_dir_fd=at(w), dst_dir_fd=at(w)),
    "link": lambda a, b, w: os.link(a, b, src_dir_fd=at(w), dst_dir_fd=at(w), follow_symlinks=False),
    "symlink": lambda a, b, w: os.symlink(a, b, dir_fd=at(w)),
    "readlink": lambda p, w: os.readlink(p, dir_fd=at(w)),
    "chmod": lambda p, m, w: os.chmod(p, m, dir_fd=at(w)),
    "fchmod": lambda w: os.fchmod(opened[w], 0o755),
    "utime": lambda p, f, w: os.utime(p, (1, 1), follow_symlinks=f, dir_fd=at(w)),
    "access": lambda p, m, w: os.access(p, m, dir_fd=at(w)),
    "truncate": lambda p: os.truncate(p, 1),
    "fifo": lambda p, w: os.mkfifo(p, 0o644, dir_fd=at(w)),
    "chdir": os.chdir,
    "getcwd": os.getcwd,
    "fchdir": lambda w: os.fchdir(opened[w]),
    "realpath": os.path.realpath,
    "listdir": lambda p: sorted(os.listdir(p)),
    "setxattr": lambda p: os.setxattr(p, "user.x", b"1"),
}
for name, *words in json.loads(sys.argv[1]):
    try:
        answer = calls[name](*words)
    except OSError as error:
        answer = errno.errorcode[error.errno]
    except (KeyError, TypeError):
        answer = "no open folder"
    print(json.dumps([name, *words, answer]))
"""

_BEGIN: Final = (
    *("/etc", "/etc/skt", "/etc/skt/sub", "/etc/skt/f", "/etc/sk-link", "/etc/sk-absolute", "/etc/sk-dangling"),
    *("/etc/sk-loop", "/etc/hosts", "/etc/passwd", "/etc/group", "/etc/ssl", "/srv", "/srv/own", "/srv/own/o"),
    *("/var/lib/skt/deep", "/var/lib/skt", "/var/lib", "/var/run/skt", "/run/skt", "/var/run", "/tmp", "/usr", "/"),
    *("/opt/only", "/opt", "/proc/self/cwd", "/proc/driver/skt", "/proc/version", "/proc/sys/kernel/hostname"),
    *(
        "/dev",
        "/dev/gpu0",
        "/dev/null",
        "/run/deep",
        "NODE",
        "NODE/other",
        "NODE/machine/dev/gpu0",
        ".",
        "..",
        "a",
        "b",
    ),
    *("HOST", "HOST/f", "HOST/d", "HOST/absolute", "HOST/relative", "HOST/up"),
)
_END: Final = ("", "", "", "/a", "/b", "/a/b", "/f", "/o", "/..", "/.", "/../skt", "/nowhere/x", "/a/..", "/skt")
_FLAGS: Final = (0, 0o1, 0o2, 0o101, 0o102, 0o1101, 0o301, 0o401000, 0o400000, 0o1000)
"""O_RDONLY and the like, O_CREAT, O_EXCL, O_TRUNC, O_NOFOLLOW."""

_paths = st.tuples(st.sampled_from(_BEGIN), st.sampled_from(_END)).map("".join)
_looked_up = st.one_of(_paths, _paths.map(lambda path: f"{path}/"))
# Of two wrong paths the kernel reports the first.
_one_of_two = _paths.filter(lambda path: "sk-loop" not in path and path != "/proc/self/cwd")
# In a user namespace the owner of a process's folder has other rights there, which let nobody remove a link.
_removed = _paths.filter(lambda path: path.rstrip("/") != "/proc/self/cwd")
# Their entries are other numbers in each process.
_told = _paths.filter(lambda path: "/proc" not in path and not path.startswith("NODE/.."))
_where = st.sampled_from([None, None, "x", "y"])
_open = st.sampled_from(["x", "y"])
_words: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "use": (_looked_up, st.sampled_from(_FLAGS), _where),
    "folder": (_looked_up, _open),
    "name": (_open,),
    "listen": (_paths,),
    "connect": (_looked_up,),
    "stat": (_looked_up, st.booleans(), _where),
    "mkdir": (_looked_up, _where),
    "rmdir": (_removed, _where),
    "unlink": (_removed, _where),
    "rename": (_one_of_two, _one_of_two, _where),
    "link": (_one_of_two, _one_of_two, _where),
    "symlink": (_paths, _paths, _where),
    "readlink": (_looked_up, _where),
    "chmod": (_looked_up, st.sampled_from([0o755, 0o700]), _where),
    "fchmod": (_open,),
    "utime": (_looked_up, st.booleans(), _where),
    "access": (_looked_up, st.sampled_from([0, 1, 2, 4, 6]), _where),
    "truncate": (_looked_up,),
    "fifo": (_paths, _where),
    "chdir": (_looked_up,),
    "getcwd": (),
    "fchdir": (_open,),
    "realpath": (_told,),
    "listdir": (_told,),
    "setxattr": (_looked_up,),
}
call = st.sampled_from(sorted(_words)).flatmap(lambda name: st.tuples(st.just(name), *_words[name]))
calls = st.lists(call, min_size=20, max_size=60)
