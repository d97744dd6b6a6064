"""What programs do in a view that a supervisor may get wrong: processes, threads, signals, sockets, scripts."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from simkubelet._internal.native import find_supervisor
from tests.support.decoy import Decoy
from tests.support.patience import LIMIT_S
from tests.support.views import USER, Node, node_of

THREADS = r"""
import os, subprocess, sys, threading
failures = []
def work(number):
    try:
        for turn in range(5):
            path = f"/etc/skt/{number}-{turn}"
            with open(path, "w") as file:
                file.write(path)
            os.rename(path, f"{path}-moved")
            said = subprocess.run(["cat", f"{path}-moved"], capture_output=True, text=True, check=True).stdout
            assert said == path, said
            child = os.fork()
            if not child:
                # To leave it open would warn, for which Python 3.14 waits if another thread warned at the fork.
                with open(f"{path}-moved") as file:
                    os._exit(file.read() != path)
            assert os.waitpid(child, 0)[1] == 0
    except BaseException as error:
        failures.append(repr(error))
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failures or len(os.listdir("/etc/skt")))
"""
SOCKETS = r"""
import os, socket, struct
path = "/run/skt/" + "s" * 60 + ".sock"
with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
    server.bind(path)
    server.listen()
    client.connect(path)
    accepted, _ = server.accept()
    peer = struct.unpack("iii", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    assert peer[0] == os.getpid(), peer
    print(server.getsockname() == client.getpeername() == path, os.listdir("/run/skt") == [os.path.basename(path)])
"""
MOUNTED_TWICE = """
mount --bind "$1" "$1" && mount --bind "$1" "$1" && mount -o remount,bind,nosuid "$1" &&
shift && exec unshare --user --map-user 1000 --map-group 1000 "$@"
"""
"""Mounts a file over itself, the upper mount with an option more, to which a user's view is locked then."""
C_PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *execute(void *unused)
{
    (void)unused;
    execl("/etc/skt/script", "script", "from a thread", NULL);
    return NULL;
}

int main(void)
{
    for (int turn = 0; turn < 200; turn++) {
        /* The one of vfork shares this memory: what it maps would stay here. */
        long child = turn % 2 ? vfork() : syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0)
            _exit(access("/etc/skt/script", R_OK) ? 1 : 0);
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            return 1;
    }
    FILE *maps = fopen("/proc/self/maps", "r");
    int lines = 0;
    while (maps && !feof(maps))
        lines += fgetc(maps) == '\n';
    printf("%s\n", lines < 60 ? "mapped little" : "mapped much");
    fflush(stdout);
    pthread_t thread;
    pthread_create(&thread, NULL, execute, NULL);
    pause();
}
"""
GO_PROGRAM = r"""
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
)

func main() {
	var all sync.WaitGroup
	failures := make(chan error, 1000)
	for number := 0; number < 32; number++ {
		all.Add(1)
		go func() {
			defer all.Done()
			path := fmt.Sprintf("/etc/skt/%d", number)
			if err := os.WriteFile(path, []byte(path), 0o644); err != nil {
				failures <- err
			}
			if said, err := exec.Command("cat", path).Output(); err != nil || string(said) != path {
				failures <- fmt.Errorf("%s %v", said, err)
			}
			socket := path + ".sock"
			listener, err := net.Listen("unix", socket)
			if err != nil {
				failures <- err
				return
			}
			go listener.Accept()
			client, err := net.Dial("unix", socket)
			if err != nil || client.RemoteAddr().String() != socket || listener.Addr().String() != socket {
				failures <- fmt.Errorf("%v", err)
			}
			listener.Close()
		}()
	}
	all.Wait()
	close(failures)
	for failure := range failures {
		fmt.Println(failure)
	}
	fmt.Println("done")
}
"""
LOOP = "while :; do sleep 0.02; done"


def start(node: Node, *command: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    argv = node.argv(list(command))
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd="/", start_new_session=True)


def is_there(pid: int) -> bool:
    with suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def until(condition) -> None:
    limit = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def tracer(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("TracerPid"))


def test_threads_make_files_and_processes(node):
    node.put("/etc/skt/.keep").unlink()

    # Since 3.12 Python advises against the mixture that is tried here.
    seen = node.run("python3", "-W", "ignore::DeprecationWarning", "-c", THREADS, PATH="/usr/bin:/bin:/usr/local/bin")

    assert (seen.stderr, seen.stdout) == ("", "40\n")


def test_sockets_have_the_names_that_they_were_given(node):
    node.folder.joinpath("deep" * 20, "deep").mkdir(parents=True)
    node.view = node.with_places({"/run/skt": node.folder / ("deep" * 20) / "deep"})

    seen = node.run("python3", "-c", SOCKETS, PATH="/usr/bin:/bin:/usr/local/bin")

    assert (seen.stderr, seen.stdout) == ("", "True True\n")


def test_program_of_c_shares_memory_and_executes_from_a_thread(node):
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    script = node.put("/etc/skt/script", '#!/bin/sh -e\necho "$0 $1"\n')
    script.chmod(0o755)
    source = node.put("/opt/skt/program.c", C_PROGRAM)
    subprocess.run([compiler, "-pthread", "-o", source.with_suffix(""), source], check=True)

    seen = node.run("/opt/skt/program")

    assert (seen.stderr, seen.stdout) == ("", "mapped little\n/etc/skt/script from a thread\n")


def test_static_program_of_go(node, tmp_path):
    go = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
    if go is None:
        pytest.skip("no Go")
    node.put("/etc/skt/.keep").unlink()
    (tmp_path / "main.go").write_text(GO_PROGRAM)
    program = node.put("/opt/skt/program")
    env = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off"}
    subprocess.run([go, "build", "-o", program, tmp_path / "main.go"], check=True, env=env)

    seen = node.run("/opt/skt/program")

    assert (seen.stderr, seen.stdout) == ("", "done\n")


def test_scripts_of_the_node_have_their_own_names(node):
    node.put("/opt/skt/interpreter", '#!/bin/sh\necho "interpreted $@"\n').chmod(0o755)
    node.put("/opt/skt/script", "#!/opt/skt/tool  -x y \n").chmod(0o755)
    node.put("/opt/skt/of-env", '#!/usr/bin/env sh\necho "$0"; exec "$1" 3\n').chmod(0o755)
    shutil.copy("/bin/echo", node.root / "opt/skt/tool")

    seen = node.sh("cd /opt/skt; ./script 1 2; /opt/skt/of-env ./script; ./no-such; echo $?")

    assert seen.stdout.splitlines() == ["-x y ./script 1 2", "/opt/skt/of-env", "-x y ./script 3", "127"]


OWN_PROCESSES = r"""
import os, resource, signal, threading, time
def leave(): os.setsid(); signal.pause()
def start(what):
    child = os.fork()
    return child or what() or os._exit(0)
def error(call, *words):
    try: call(*words)
    except OSError as found: return type(found).__name__
child, ended = start(leave), start(lambda: None)
os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
while os.getsid(child) != child: time.sleep(0.001)
said = [error(os.kill, one, 0) for one in (0, os.getpid(), child, ended, -child)]
said += [error(os.kill, 2**22 + 1, 0), error(os.kill, -(2**22 + 1), 0)]
said += [error(resource.prlimit, child, resource.RLIMIT_CORE, (0, 0)), error(os.setpriority, 0, child, 19)]
said += [error(os.setpriority, os.PRIO_PGRP, child, 19)]
thread = threading.Thread(target=lambda: said.append(error(os.sched_setaffinity, threading.get_native_id(), {0})))
thread.start(); thread.join()
with open(f"/proc/{os.getpid()}/oom_score_adj", "w") as file: file.write("1000")
os.kill(child, signal.SIGKILL)
said.append(os.waitpid(child, 0)[1])
print(*said)
"""


def test_program_names_its_own_processes_and_threads(node):
    seen = node.run("python3", "-c", OWN_PROCESSES, PATH="/usr/bin:/bin:/usr/local/bin")

    missing = "ProcessLookupError"
    assert (seen.stderr, seen.stdout.split()) == ("", ["None"] * 5 + [missing, missing] + ["None"] * 4 + ["9"])


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root for another user and for what a kernel lacks")
@pytest.mark.parametrize("node", ["ordinary", "own idmap"], indirect=True)
def test_guard_is_no_part_of_the_program_and_ends_with_the_last_of_it(node: Node) -> None:
    with start(node, "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!; read line") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        child = int(process.stdout.readline())
        guards = of_session(process.pid) - {child, process.pid}
        environments = [Path(f"/proc/{guard}/environ").read_bytes().strip(b"\0") for guard in guards]
        process.stdin.close()
        end = process.stdout.read()

    assert (len(guards), environments, end) == (1, [b""], "")
    assert all(map(is_there, guards))
    os.kill(child, signal.SIGKILL)
    until(lambda: not any(map(is_there, guards)))


@pytest.mark.parametrize("node", ["own traced landlock", "ordinary traced landlock", "own idmap"], indirect=True)
def test_process_whose_first_thread_has_ended_is_another_ones(node: Node) -> None:
    user = node._prefix[: node._prefix.index("--clear-groups") + 1] if "setpriv" in node._prefix else []
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
    ending = "import signal, threading, time, ctypes; threading.Thread(target=time.sleep, args=(1000,)).start()"
    ending += "; libc = ctypes.CDLL(None); libc.pthread_exit(None)"
    with subprocess.Popen([*user, str(python), "-c", ending]) as victim:
        try:
            until(lambda: not is_there(victim.pid))
            tried = "import resource, sys; resource.prlimit(int(sys.argv[1]), resource.RLIMIT_CORE, (0, 0))"
            seen = node.run(str(python), "-c", tried, str(victim.pid))
        finally:
            victim.kill()

    assert "Operation not permitted" in seen.stderr or "PermissionError" in seen.stderr, seen.stderr


def of_session(leader: int) -> set[int]:
    found = set[int]()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and os.getsid(int(entry.name)) == leader:
                found.add(int(entry.name))
    return found


WAYS_OUT = r"""
import ctypes, errno, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
CLONE, SECCOMP = {"x86_64": (56, 317), "aarch64": (220, 277)}[os.uname().machine]
def error(number, *words):
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == 0 and number == CLONE: os._exit(0)
    return "none" if result >= 0 else errno.errorcode[ctypes.get_errno()]
def word(number): return ctypes.c_long(number)
allow = ctypes.create_string_buffer((6).to_bytes(4, "little") + (0x7FFF0000).to_bytes(4, "little"), 8)
filter = ctypes.create_string_buffer((1).to_bytes(8, "little") + ctypes.addressof(allow).to_bytes(8, "little"), 16)
how = ctypes.create_string_buffer(bytes(16) + (0x10).to_bytes(8, "little"), 24)
print(error(SECCOMP, word(1), word(8), filter))  # a listener
print(error(CLONE, word(0x800000 | 17), word(0), word(0), word(0), word(0)))  # CLONE_UNTRACED
print(error(CLONE, word(0x8000 | 17), word(0), word(0), word(0), word(0)))  # CLONE_PARENT
print(error(435, how, word(24)), error(425, word(8), how))  # clone3, io_uring_setup
print(error(437, word(-100), b"/etc", how, word(24)))  # openat2 with RESOLVE_IN_ROOT
print(error(424, word(os.open("/proc/self", 0)), word(0), None, word(0)), flush=True)  # pidfd_send_signal
with open("/proc/self/status") as file:
    tracer = next(int(line.split()[1]) for line in file if line.startswith("TracerPid"))
print(error({"x86_64": 62, "aarch64": 129}[os.uname().machine], word(tracer), word(0)))  # kill
print(error({"x86_64": 101, "aarch64": 117}[os.uname().machine], word(0x4206), word(tracer)), flush=True)  # ptrace
if os.uname().machine == "x86_64":
    print(error(0x40000000 | 39), flush=True)
    child = os.fork()
    if not child:
        code = mmap.mmap(-1, 4096, prot=7)
        code.write(bytes.fromhex("b814000000cd80c3"))  # getpid of i386
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
        os._exit(0)
    print(os.waitpid(child, 0)[1] & 127)
"""
WAYS_ROUND = r"""
import ctypes, errno, fcntl, mmap, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
decoy, own, covered = map(os.fsencode, sys.argv[1:])
hidden, here, EMPTY = b"/etc/passwd", -100, 0x1000
numbers = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
LINKAT, FCHOWNAT, UTIMENSAT = (265, 37)[numbers], (260, 54)[numbers], (280, 88)[numbers]
SETPRIORITY, CONNECT, KEYCTL = (141, 140)[numbers], (42, 203)[numbers], (250, 219)[numbers]
OPENAT, CHROOT, UNSHARE = (257, 56)[numbers], (161, 51)[numbers], (272, 97)[numbers]
OPEN_TREE, MEMFD_SECRET, OPEN_TREE_ATTR = 428, 447, 467

def call(number, *words):
    result = libc.syscall(*(ctypes.c_long(one) if isinstance(one, int) else one for one in (number, *words)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def read(file):
    if not os.read(os.open(b"/proc/self/fd/%d" % file, os.O_RDONLY), 1):
        raise OSError

def in_secret_memory():
    memory = call(MEMFD_SECRET, 0)
    os.ftruncate(memory, 4096)
    room = mmap.mmap(memory, 4096)
    room.write(hidden + bytes(1))
    read(call(OPENAT, here, ctypes.addressof(ctypes.c_char.from_buffer(room)), 0))

def from_deep_folder():
    os.chdir(own)
    for _ in range(15):
        os.makedirs("d" * 250, exist_ok=True)
        os.chdir("d" * 250)
    deep = os.open(".", os.O_RDONLY)
    below = own + b"/a/" + b"d" * 250 + b"/" + b"d" * 250
    os.makedirs(below)
    os.chdir(below)
    os.rename(own + b"/a", b"a", dst_dir_fd=deep)
    read(os.open(b"../" * 60 + hidden[1:], os.O_RDONLY))

def from_covered_folder():
    os.chdir(covered)
    read(os.open(b"../" * 60 + hidden[1:], os.O_RDONLY))

def from_deep_link():
    # The folder of the way before is still this one.
    read(os.open(b"/proc/self/cwd/" + b"../" * 60 + hidden[1:], os.O_RDONLY))

def from_covered_link():
    os.chdir(covered)
    read(os.open(b"/proc/self/cwd/" + b"../" * 60 + hidden[1:], os.O_RDONLY))

def change_folder():
    os.chdir(decoy + b"/d")
    call(UTIMENSAT, here, b"", 0, EMPTY)

def connect():
    address = struct.pack("=H", socket.AF_UNIX) + decoy + b"/socket"
    with socket.socket(socket.AF_UNIX) as client:
        call(CONNECT, client.fileno(), address, 1 << 32 | len(address))

opened = os.open(decoy + b"/f", os.O_RDONLY)
link = b"/proc/self/fd/%d" % opened
mine = os.open(own + b"/mine", os.O_CREAT | os.O_RDWR)
ways = {
    "secret memory": in_secret_memory,
    "open_tree": lambda: read(call(OPEN_TREE, here, hidden, 0)),
    "open_tree_attr": lambda: read(call(OPEN_TREE_ATTR, here, hidden, 0, None, 0)),
    "deep folder": from_deep_folder,
    "deep link": from_deep_link,
    "covered folder": from_covered_folder,
    "covered link": from_covered_link,
    "chmod": lambda: os.chmod(link, 0o600),
    "utime": lambda: os.utime(link, (1, 1)),
    "chown": lambda: os.chown(link, os.stat(link).st_uid, -1),
    "setxattr": lambda: os.setxattr(link, "user.skt", b"1"),
    "utimensat": lambda: call(UTIMENSAT, opened, b"", 0, EMPTY),
    "fchownat": lambda: call(FCHOWNAT, opened, b"", 0xFFFFFFFF, 0xFFFFFFFF, EMPTY),
    "own folder": change_folder,
    "linkat": lambda: call(LINKAT, mine, b"", here, decoy + b"/new", EMPTY),
    "connect": connect,
    "setpriority": lambda: call(SETPRIORITY, 1 << 32 | 2, 0, 19),
    "chroot": lambda: call(CHROOT, b"/"),
    "chmod of /proc": lambda: os.chmod("/proc", os.stat("/proc").st_mode & 0o7777),
    "fchmod of /proc": lambda: os.fchmod(os.open("/proc", os.O_RDONLY), os.stat("/proc").st_mode & 0o7777),
    "chmod in /proc": lambda: os.chmod("/proc/meminfo", os.stat("/proc/meminfo").st_mode & 0o7777),
    "keys of the user": lambda: call(KEYCTL, 0, -4, 1),
    "unshare": lambda: call(UNSHARE, 0x10000000 | 0x20000),
}
for number in (0x40086602, 0x40046604, 0x40087602, 0x401C5820, 0x40806685, 0x800C6613, 0x5000940E):
    ways[f"ioctl {number:x}"] = lambda number=number: fcntl.ioctl(opened, number, bytes(1024))
for name, way in ways.items():
    try:
        way()
        print(name, "worked")
    except OSError as error:
        if name.startswith("ioctl") and error.errno != errno.EPERM:
            print(name, error)
os.chdir("/")
# What is the program's own can be changed as before.
os.chmod(b"/proc/self/fd/%d" % mine, 0o600)
os.fchmod(os.memfd_create("skt"), 0o600)
temporary = os.open(own, os.O_TMPFILE | os.O_RDWR)
os.link(f"/proc/self/fd/{temporary}", own + b"/linked", src_dir_fd=os.open("/", 0), follow_symlinks=True)
print(*sorted(map(os.fsdecode, os.listdir(own)))[-2:])
"""
CROWD = """
import threading
barrier, said = threading.Barrier(60), set()
def look():
    barrier.wait()
    try:
        with open("/etc/passwd") as file: said.add(file.read())
    except OSError as error: said.add(error.strerror)
    barrier.wait()
threads = [threading.Thread(target=look) for _ in range(60)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*sorted(said), sep=",")
"""


@pytest.mark.parametrize("node", ["own traced", "ordinary traced"], indirect=True)
def test_no_call_leads_around_the_supervisor(node):
    seen = node.run("python3", "-c", WAYS_OUT, PATH="/usr/bin:/bin:/usr/local/bin")

    expected = ["EBUSY", "EPERM", "EPERM", "ENOSYS", "ENOSYS", "ENOSYS", "ENOSYS", "EPERM", "EPERM"]
    if os.uname().machine == "x86_64":
        expected += ["ENOSYS", str(int(signal.SIGSYS))]
    assert (seen.stderr, seen.stdout.split()) == ("", expected)


@pytest.mark.parametrize("node", ["own traced landlock", "ordinary traced landlock"], indirect=True)
def test_no_call_reads_what_is_hidden_or_changes_the_host(node):
    node.put("/etc/skt/f")
    (node.folder / "own").mkdir()
    node.view = replace(node.with_places({"/srv/own": node.folder / "own"}), opened=("/etc",), hidden=("/etc/passwd",))
    with tempfile.TemporaryDirectory(prefix="skd-", dir="/var/tmp") as name, socket.socket(socket.AF_UNIX) as listening:
        Path(name).chmod(0o755)
        decoy = Decoy(Path(name) / "decoy")
        listening.bind(f"{decoy.place}/socket")
        listening.listen()
        for path in [decoy.place, *decoy.place.rglob("*")]:
            os.chown(path, *([USER, USER] if "setpriv" in node._prefix else [-1, -1]), follow_symlinks=False)
        before = decoy.state()
        # A folder that a view opens has no sockets of the host.
        node.view = replace(node.view, opened=("/etc", str(decoy.place)))

        words = [str(decoy.place), "/srv/own", f"{node.folder}/view/etc/skt"]
        seen = node.run("python3", "-c", WAYS_ROUND, *words, PATH="/usr/bin:/bin:/usr/local/bin")

        assert (seen.stderr, seen.stdout) == ("", "linked mine\n")
        assert decoy.state() == before


@pytest.mark.parametrize("node", ["own traced", "ordinary traced"], indirect=True)
def test_file_is_never_the_hosts_where_the_supervisor_can_open_no_more(node):
    node.put("/etc/passwd", "of the node")

    argv = node.argv(["python3", "-c", CROWD])
    limited = ["sh", "-c", 'ulimit -n 40; exec "$@"', "sh", *argv]
    env = {"PATH": "/usr/bin:/bin:/usr/local/bin"}
    seen = subprocess.run(limited, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd="/", env=env)

    assert (seen.stderr, seen.stdout) == ("", "Too many open files,of the node\n")


EXECUTE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
words = [os.fsencode(sys.argv[1])] + [b"x"] * int(sys.argv[2])
libc.execv(words[0], (ctypes.c_char_p * (len(words) + 1))(*words))
print(os.strerror(ctypes.get_errno()))
"""


@pytest.mark.parametrize(
    ("scripts", "words", "said"),
    [
        (2, 1, "-1 /opt/skt/1 -2 /opt/skt/2 x"),
        (5, 0, " ".join(f"-{number} /opt/skt/{number}" for number in range(1, 6))),
        (6, 0, "Too many levels of symbolic links"),
        (1, 1 << 20, "Argument list too long"),
    ],
)
def test_interpreter_that_is_a_script_and_what_is_too_much(node, scripts, words, said):
    shutil.copy("/bin/echo", node.put("/opt/skt/0"))
    for number in range(1, scripts + 1):
        node.put(f"/opt/skt/{number}", f"#!/opt/skt/{number - 1} -{number}\n").chmod(0o755)

    argv = ["python3", "-c", EXECUTE, f"/opt/skt/{scripts}", str(words)]
    seen = node.run(*argv, PATH="/usr/bin:/bin:/usr/local/bin")

    assert (seen.stdout, seen.stderr) == (f"{said}\n", "")


def test_relative_names_lead_to_the_hosts_files_in_a_folder_of_both(node):
    node.put("/etc/skt/f")

    seen = node.sh(
        "cd /etc && cat hosts; cd / && cat etc/hosts; cd /etc/skt && cat ../hosts; exec </etc; cat /dev/stdin/hosts"
    )

    assert (seen.stderr, seen.stdout) == ("", Path("/etc/hosts").read_text() * 4)


def test_program_that_nobody_may_trace_finds_its_files(node):
    node.put("/etc/skt/f", "of the node")
    script = "import ctypes, os; print(ctypes.CDLL(None).prctl(4, 0, 0, 0, 0), open('/etc/skt/f').read()); os.getcwd()"

    seen = node.run("python3", "-c", script, PATH="/usr/bin:/bin:/usr/local/bin")

    assert (seen.stderr, seen.stdout) == ("", "0 of the node\n")


def test_program_is_told_that_it_is_root(node):
    assert node.sh("id -ru; id -u; id -rg; id -g").stdout == "0\n" * 4


def test_environment_input_and_exit_status_are_the_programs(node):
    seen = subprocess.run(
        node.argv(["sh", "-c", 'read line; echo "$line $SKT"; exit 7']),
        input="word\n",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd="/",
        env={**os.environ, "SKT": "set"},
    )

    assert (seen.returncode, seen.stdout, seen.stderr) == (7, "word set\n", "")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_signal_ends_the_program_as_without_a_view(node, number):
    with start(node, "sh", "-c", f"echo $$; {LOOP}") as process:
        assert int(process.stdout.readline()) == process.pid
        process.send_signal(number)

    assert process.returncode == -number


def test_handlers_of_signals_and_stops(node):
    with start(node, "sh", "-c", f"trap 'echo HUP' HUP; trap 'echo CONT' CONT; echo ready; {LOOP}") as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "HUP\n"
        process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "CONT\n"
        process.kill()


def test_program_ends_with_its_parent(node):
    argv = node.argv(["sh", "-c", f"echo $$; {LOOP}"])
    script = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
    with subprocess.Popen([sys.executable, "-c", script, *argv], stdout=subprocess.PIPE, text=True, cwd="/") as parent:
        pid = int(parent.stdout.readline())
        supervisor = tracer(pid)
        parent.kill()

    until(lambda: not is_there(pid))
    assert bool(supervisor) == bool(node.supervisor)
    until(lambda: not supervisor or not is_there(supervisor))


@pytest.mark.parametrize("node", ["own traced", "ordinary traced"], indirect=True)
def test_killed_supervisor_leaves_nothing_behind(node):
    with start(node, "sh", "-c", f"sh -c 'echo $$; {LOOP}' & echo $$; {LOOP}") as process:
        pids = [int(process.stdout.readline()) for _ in range(2)]
        supervisor = tracer(pids[0])
        known_by = [Path(f"/proc/{supervisor}/{name}").read_bytes() for name in ("environ", "cmdline")]
        os.kill(supervisor, signal.SIGKILL)

    assert process.returncode == -signal.SIGKILL
    assert not b"".join(known_by).strip(b"\0")
    until(lambda: not any(map(is_there, pids)))


@pytest.mark.parametrize("node", ["own traced", "ordinary traced"], indirect=True)
def test_supervisor_holds_no_output_and_ends_with_the_program(node):
    with start(node, "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!; read line") as process:
        child = int(process.stdout.readline())
        supervisor = tracer(child)
        process.stdin.write("\n")
        process.stdin.close()
        end = process.stdout.read()

    assert (process.returncode, end) == (0, "")
    until(lambda: not is_there(supervisor) and not is_there(child))


def test_supervisor_alone_says_how_it_is_used():
    seen = subprocess.run([find_supervisor()], capture_output=True, text=True, check=False)

    assert (seen.returncode, seen.stderr) == (2, "usage: simkubelet-view TABLE FOLDER PROGRAM ARGUMENT...\n")


def test_view_is_made_where_mounts_lie_over_one_another(tmp_path: Path) -> None:
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*namespace, "true"], check=False).returncode:
        pytest.skip("takes unshare (util-linux) and user namespaces")
    file = tmp_path / "certificates"
    file.write_text("trusted")

    with node_of("own") as node:
        mounted = [*namespace, "sh", "-c", MOUNTED_TWICE, "sh", str(file), *node.argv(["cat", str(file)])]
        done = subprocess.run(mounted, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "trusted", "")
