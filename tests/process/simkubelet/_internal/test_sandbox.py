"""A program in the view of a node, as the user who runs the tests and as an ordinary one, by each way."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import pty
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from simkubelet._internal import enter_view, isolation, sandbox
from simkubelet._internal.sandbox import NodeView
from simkubelet.model.errors import HostError
from tests.support.attacks import Victim
from tests.support.decoy import Decoy
from tests.support.patience import LIMIT_S
from tests.support.views import USER, WAYS, Node, node_of


def test_node_files_are_visible_beside_those_of_the_host(node):
    node.put("/etc/skt/g1", "gopher\n")
    node.put("/dev/skt0")

    seen = node.sh("cat /etc/skt/g1; ls -d /dev/skt0 /etc/passwd /etc/ssl; test -c /dev/null && echo x >/dev/null")

    assert (seen.stderr, seen.stdout.split()) == ("", ["gopher", "/dev/skt0", "/etc/passwd", "/etc/ssl"])
    assert not Path("/etc/skt").exists()
    assert not Path("/dev/skt0").exists()


def test_only_the_program_obeys_the_variables_that_it_is_given(node, monkeypatch):
    monkeypatch.setenv("SKT_OLD", "of the host")
    node.given_env = {"LD_PRELOAD": "/skt/no.so", "SKT_OLD": "new", "SKT_EMPTY": ""}

    seen = node.run(
        "/bin/sh", "-c", 'echo "$LD_PRELOAD $SKT_OLD ${SKT_EMPTY-unset}"; tr "\\0" "\\n" </proc/self/environ'
    )

    first, *entries = seen.stdout.splitlines()
    assert first == "/skt/no.so new "
    assert sum(entry.startswith("SKT_OLD=") for entry in entries) == 1
    assert not any("GIVEN" in entry for entry in entries)
    # The loaders of the shell and of tr complain.
    assert seen.stderr.count("cannot be preloaded") == 2


def test_view_has_all_that_the_host_has(node):
    node.put("/etc/skt")

    seen = node.sh("ls -A /etc; ls -A /")

    host = {entry.name for folder in ("/etc", "/") for entry in Path(folder).iterdir()}
    assert set(seen.stdout.split()) == {"skt"} | host


def test_network_of_its_own_has_a_loopback_device_alone(node):
    if node.supervisor is not None:
        pytest.skip("a supervisor makes no namespace")
    node.has_own_network = True
    listen = "import socket; one = socket.create_server(('127.0.0.1', {})); socket.create_connection(one.getsockname())"

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        seen = node.sh(f'grep -c : /proc/net/dev; python3 -c "{listen.format(port)}"')

    assert (seen.stderr, seen.stdout.split()) == ("", ["1"])


def test_node_file_is_in_place_of_the_hosts(node):
    node.put("/etc/passwd", "nobody")

    assert node.sh("cat /etc/passwd").stdout == "nobody"


def test_folder_at_a_path_that_the_host_lacks(node):
    (node.folder / "sockets").mkdir()
    node.view = replace(node.view, places={"/var/lib/skt/deep/er": node.folder / "sockets"})

    node.sh("echo hello >/var/lib/skt/deep/er/said")

    assert (node.folder / "sockets" / "said").read_text() == "hello\n"
    assert not Path("/var/lib/skt").exists()


def test_root_folder_has_places_that_the_host_lacks(node):
    node.put("/skt-one/file", "one")
    (node.folder / "two").write_text("two")
    node.view = replace(node.view, places={"/skt-two/deep": node.folder / "two"})

    assert node.sh("cat /skt-one/file /skt-two/deep").stdout == "onetwo"


def test_host_is_read_only_and_writes_are_the_nodes(node):
    node.put("/etc/skt-own/there")
    node.view = replace(node.view, opened=("/etc", "/var/lib"))

    seen = node.sh(
        "echo a >/etc/skt-new; mkdir /var/lib/skt; echo b >/var/lib/skt/file; echo c >/etc/skt-own/new;"
        "for file in /usr/skt /etc/ssl/skt /usr/bin/env /etc/passwd /sys/skt /proc/sys/kernel/hostname;"
        "do (echo x >>$file) 2>/dev/null && echo wrote $file; done; true"
    )

    assert seen.stdout == ""
    assert (node.folder / "view/etc/skt-new").read_text() == "a\n"
    assert (node.folder / "view/var/lib/skt/file").read_text() == "b\n"
    assert (node.root / "etc/skt-own/new").read_text() == "c\n"
    assert not Path("/etc/skt-new").exists()


def test_second_program_sees_what_the_first_wrote(node):
    node.view = replace(node.view, opened=("/etc",))
    node.sh("echo first >/etc/skt")

    assert node.sh("cat /etc/skt /etc/passwd").stdout.startswith("first\nroot:")


def test_hidden_is_what_the_host_has_alone(node):
    node.put("/etc/ssl/own")
    node.view = replace(node.view, hidden=("/etc/ssl", "/etc/pass*"))

    assert node.sh("ls /etc/ssl; ls -d /etc/passwd /etc/group 2>/dev/null").stdout.split() == ["own", "/etc/group"]


def test_links_of_the_node_are_kept_and_parts_elsewhere_followed(node):
    node.put("/etc/skt/target", "here")
    (node.root / "etc" / "skt-link").symlink_to("skt/target")
    (node.folder / "elsewhere").mkdir()
    (node.folder / "elsewhere" / "file").write_text("there")
    (node.root / "srv").symlink_to(node.folder / "elsewhere")

    seen = node.sh("readlink /etc/skt-link; cat /etc/skt-link; cat /srv/file")

    assert seen.stdout == "skt/target\nherethere"


@pytest.fixture
def decoy() -> Iterator[Decoy]:
    with tempfile.TemporaryDirectory(prefix="skd-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Decoy(Path(folder) / "decoy")


@pytest.mark.parametrize("part", ["root", "view", "own", "own/deep"])
def test_part_of_the_node_that_became_a_link_shows_nobody_elses(node: Node, decoy: Decoy, part: str) -> None:
    place = node.folder / part
    (node.folder / "own" / "deep").mkdir(parents=True)
    node.view = replace(node.view, places={"/srv/skt": node.folder / "own" / "deep"}, opened=("/etc",))
    if place.exists():
        place.rename(node.folder / "was")
    place.symlink_to(decoy.place)

    seen = node.sh("echo x >/srv/skt/new; echo x >/etc/new; rm -r /f /d")

    assert seen.returncode == 125
    assert "cannot make the view of a node: " in seen.stderr
    decoy.check()


def test_absolute_link_out_of_the_node_is_a_link_and_no_way_to_write(node: Node, decoy: Decoy) -> None:
    (node.root / "skt").symlink_to(decoy.place)
    (node.root / "skt-itself").symlink_to(node.root / "skt-itself")

    seen = node.sh("readlink /skt; cat /skt/f; rm -r /skt/d 2>/dev/null; echo x >/skt/f")

    assert seen.stdout == f"{decoy.place}\nfile"
    assert seen.returncode != 0
    decoy.check()


def test_devices_are_character_devices_at_both_places(node):
    machine = node.folder / "machine"
    for name in ("nvidia0", "nvidia-caps/nvidia-cap1"):
        (machine / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
        (machine / "dev" / name).touch()
    (node.root / "dev").symlink_to(machine / "dev")
    node.view = replace(node.view, devices=machine / "dev")

    paths = f"/dev/nvidia0 /dev/nvidia-caps/nvidia-cap1 {machine}/dev/nvidia0"
    seen = node.sh(f"for file in {paths}; do test -c $file && echo yes; done; ls -d /dev/zero")

    assert (seen.stderr, seen.stdout.split()) == ("", ["yes", "yes", "yes", "/dev/zero"])


def test_temporary_folder_is_the_nodes_own(node):
    own = node.folder / "tmp"
    own.mkdir()
    node.view = replace(node.view, places={"/tmp": own})

    seen = node.run("sh", "-c", 'echo x >/tmp/skt-out; echo "$TMPDIR"; ls -A /tmp', TMPDIR="/nowhere")

    assert set(seen.stdout.split()) == {"skt-out", node.folder.name}
    assert (own / "skt-out").exists()
    assert not Path("/tmp/skt-out").exists()


def test_program_below_the_temporary_folder_is_found_and_read_only(node):
    own = node.folder / "tmp"
    own.mkdir()
    node.view = replace(node.view, places={"/tmp": own}, kept=())
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="skt-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        program, settings = folder / "bin" / "plugin", folder / "etc" / "settings"
        script = '#!/bin/sh\npwd; cat "${1#*=}"; touch x 2>/dev/null || echo kept\n'
        for file, text in {program: script, settings: "on\n"}.items():
            file.parent.mkdir()
            file.write_text(text)
            file.chmod(0o755)

        seen = node.run(str(program), f"--config={settings}", cwd=folder)

        assert (seen.stderr, seen.stdout.split()) == ("", [str(folder), "on", "kept"])
        assert {entry.name for entry in folder.iterdir()} == {"bin", "etc"}


def test_path_of_the_environment_stays_below_the_temporary_folder(node):
    own = node.folder / "tmp"
    own.mkdir()
    node.view = replace(node.view, places={"/tmp": own}, kept=())
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="skt-") as name:
        Path(name).chmod(0o755)
        Path(name, "skt-tool").write_text("#!/bin/sh\necho tool\n")
        Path(name, "skt-tool").chmod(0o755)

        seen = node.run("skt-tool", PATH=f"{name}:{os.environ['PATH']}")

    assert (seen.stderr, seen.stdout) == ("", "tool\n")


def test_node_on_a_mount_below_the_working_directory_is_found():
    unshare = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() != 0 or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("takes root that may mount")
    with node_of("own") as node, tempfile.TemporaryDirectory(dir="/tmp", prefix="skt-") as name:
        mounted = Path(name, "mounted")
        own = mounted / "node" / "tmp"
        mounted.mkdir()
        node.view = NodeView(own.with_name("root"), own.with_name("view"), {"/tmp": own}, kept=(own.parent,))
        script = f'mount -t tmpfs none {mounted} && mkdir -p {own} {node.view.root} && exec "$@"'
        command = node.argv(["sh", "-c", f"echo said >{own}/said; cat /tmp/said"])

        seen = subprocess.run([*unshare, "sh", "-c", script, "sh", *command], cwd=name, capture_output=True, text=True)

    assert (seen.stderr, seen.stdout) == ("", "said\n")


@pytest.mark.parametrize("parent", ["/tmp", "/var/tmp", "/root"])
def test_folders_of_the_owner_alone_are_found(node, parent):
    if not os.access(parent, os.W_OK) or (parent == "/root" and "setpriv" in node._prefix):
        pytest.skip("not the user's folder")
    with tempfile.TemporaryDirectory(dir=parent, prefix="skt-") as name:
        folder, settings = Path(name), Path(name, "settings")
        settings.write_text("on\n")
        settings.chmod(0o600)
        own = folder / "node" / "tmp"
        own.mkdir(parents=True)
        (folder / "node" / "root").mkdir()
        view = NodeView(folder / "node" / "root", folder / "node" / "view", {"/tmp": own}, kept=(folder / "node",))
        node.folder, node.view = folder, view

        seen = node.run("sh", "-c", f"cat $SETTINGS; echo said >{own}/said; cat {own}/said", SETTINGS=str(settings))

        assert (seen.stderr, seen.stdout) == ("", "on\nsaid\n")
        assert (own / "said").stat().st_uid == own.stat().st_uid


@pytest.fixture
def service() -> Iterator[Path]:
    """A socket of another program of the host, beside a file, in a folder of the temporary one."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="skt-") as name, socket.socket(socket.AF_UNIX) as listening:
        Path(name).chmod(0o755)
        Path(name, "file").touch()
        listening.bind(f"{name}/socket")
        yield Path(name, "socket")


def test_socket_of_the_host_is_there_where_the_command_line_names_it(node, service):
    own = node.folder / "tmp"
    own.mkdir()
    node.view = replace(node.view, places={"/tmp": own}, kept=())

    by_variable = node.run("sh", "-c", "test -S ${SERVICE#unix://} && echo there", SERVICE=f"unix://{service}")
    by_word = node.run("sh", "-c", "test -S $0 && echo there", str(service))

    assert (by_variable.stderr, by_variable.stdout) == ("", "")
    assert (by_word.stderr, by_word.stdout) == ("", "there\n")


def test_folder_that_takes_new_entries_has_no_sockets_of_the_host(node, service):
    node.view = replace(node.view, opened=(str(service.parent),))

    seen = node.sh(f"ls {service.parent}")

    assert (seen.stderr, seen.stdout) == ("", "file\n")


@pytest.mark.parametrize("place", ["/tmp", "/var/tmp"])
def test_folder_of_clusters_has_the_nodes_own_and_named_files_alone(node, place, monkeypatch):
    with tempfile.TemporaryDirectory(dir=place, prefix="skt-") as name:
        session = Path(name)
        session.chmod(0o755)
        cluster = session / "simkubelet/one"
        (cluster / "node-1/root").mkdir(parents=True)
        (cluster / "node-2").mkdir()
        for file in ("kubeconfig", ".kubeconfig", "node-1/own", "node-2/other"):
            (cluster / file).write_text("key\n")
        with socket.socket(socket.AF_UNIX) as control:
            control.bind(str(cluster / "control.sock"))
        (session / "link").symlink_to(session)
        if "setpriv" in node._prefix:
            for path in (session, *session.rglob("*")):
                os.chown(path, USER, USER, follow_symlinks=False)
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        node.folder = cluster / "node-1"
        (own := node.folder / "tmp").mkdir()
        node.view = NodeView(node.folder / "root", node.folder / "view", {"/tmp": own}, kept=(node.folder,))

        seen = node.run(
            "sh",
            "-c",
            "cd $0; ls -A . one; cat one/.kubeconfig; cat one/node-1/own; echo new > one/node-1/new;"
            "for one in $XDG_RUNTIME_DIR/link $ALIAS; do ls $one/simkubelet/one; done",
            str(session / "simkubelet"),
            KUBECONFIG=str(cluster / ".kubeconfig"),
            ALIAS=str(session / "link"),
        )

        one = [".kubeconfig", "node-1"]
        assert seen.stdout.split() == [".:", "one", "one:", *one, "key", "key", "node-1", "node-1"], seen
        assert (cluster / "node-1/new").read_text() == "new\n"


def test_folder_of_a_session_is_not_what_a_variable_names(tmp_path, monkeypatch):
    session = tmp_path / "1000"
    for path in ("cookie", "cluster/kubeconfig"):
        (session / path).parent.mkdir(parents=True, exist_ok=True)
        (session / path).touch()
    monkeypatch.setattr(enter_view, "SESSIONS", str(tmp_path))
    for name, path in {"XDG_RUNTIME_DIR": "", "XAUTHORITY": "cookie", "KUBECONFIG": "cluster/kubeconfig"}.items():
        monkeypatch.setenv(name, str(session / path))

    named = {place for place in enter_view.named_places(["/bin/true"], "/") if place.startswith(str(tmp_path))}

    assert named == {str(session / path) for path in ("cookie", "cluster", "cluster/kubeconfig")}
    assert str(session) in enter_view.named_places(["/bin/true", str(session)], "/")


def test_proc_has_files_of_the_node(node):
    node.put("/proc/cmdline", "of the node")
    node.put("/proc/driver/skt/file", "driver")

    seen = node.sh("cat /proc/cmdline; cat /proc/driver/skt/file; readlink /proc/self >/dev/null && echo alive")

    assert seen.stdout == "of the nodedriveralive\n" if Path("/proc/driver").exists() else "of the nodealive\n"


def test_exit_status_arguments_and_signals_pass_through(node):
    argv = node.argv(["sh", "-c", 'trap "exit 7" TERM; echo "$1"; while :; do sleep 0.01; done', "sh", "two words"])

    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        said = process.stdout.readline()
        process.terminate()

    assert (said, process.returncode) == ("two words\n", 7)


def test_output_is_opened_again(node):
    log = node.folder / "log"
    log.touch()
    with log.open("ab") as file:
        argv = node.argv(["sh", "-c", "echo one >>/dev/stdout; echo two >>/dev/stderr"])
        subprocess.run(argv, stdout=file, stderr=file, timeout=LIMIT_S, check=False, cwd="/")

    assert log.read_text() == "one\ntwo\n"


def test_missing_program_is_one_line_and_status_127(node):
    seen = node.run("skt-no-such-program", PATH="/usr/bin:/bin")

    assert (seen.returncode, seen.stderr) == (127, "cannot run skt-no-such-program: No such file or directory\n")


def test_file_that_is_no_program_is_run_by_no_shell(node):
    node.put("/opt/skt/text", "echo run").chmod(0o755)

    for program in ("/opt/skt/text", "text"):
        seen = node.run(program, PATH="/usr/bin:/bin:/opt/skt")

        assert (seen.returncode, seen.stderr) == (127, f"cannot run {program}: Exec format error\n")


def test_stand_ins_go_when_the_node_file_has_gone(node):
    gone = node.put("/etc/skt-gone")
    node.view = replace(node.view, opened=("/etc",))
    assert node.sh("ls /etc/skt-gone").returncode == 0

    gone.unlink()

    assert node.sh("ls /etc/skt-gone").returncode != 0


def unrefused(*lacks: str) -> list[str]:
    """The attacks that succeed, by who runs the plugin, how it is shown the node, and what the kernel lacks."""
    has_host_ipc = ["leaves memory in System V IPC"] if "traced" in lacks else []
    if "landlock" not in lacks:
        return has_host_ipc
    # An abstract socket is as open as the network, which a plugin shares.
    return [*has_host_ipc, "connects to an abstract socket"]


@pytest.mark.parametrize(
    "node",
    [
        *WAYS,
        "own traced landlock",
        "ordinary traced landlock",
        "own idmap",
        "own landlock",
        "ordinary landlock",
        "own landlock idmap",
    ],
    indirect=True,
)
def test_attacks_on_the_host_are_refused(node, request):
    prefix = node._prefix
    user = prefix[: prefix.index("--clear-groups") + 1] if "setpriv" in prefix else []
    with tempfile.TemporaryDirectory(prefix="skt-", dir="/var/tmp") as name, Victim(Path(name), user) as victim:
        Path(name).chmod(0o755)
        seen = node.run(*victim.argv(shutil.which("python3", path="/usr/bin:/usr/local/bin")))

    expected = unrefused(*request.node.callspec.params["node"].split())
    assert (seen.stderr, seen.stdout.splitlines()) == ("", expected)


PTY = """
import os, pty
shown = os.listdir("/dev/pts")
_, terminal = pty.openpty()
print(shown, os.ttyname(terminal), os.fstat(os.open("/dev/ptmx", os.O_RDWR)).st_size)
"""


@pytest.mark.parametrize("node", ["own", "ordinary", "own idmap", "ordinary landlock"], indirect=True)
def test_terminals_are_the_programs_own(node: Node) -> None:
    controller, terminal = pty.openpty()
    try:
        if "setpriv" in node._prefix:
            os.fchown(terminal, USER, USER)
        seen = node.run("python3", "-c", PTY, PATH="/usr/bin:/bin:/usr/local/bin")
    finally:
        os.close(controller)
        os.close(terminal)

    assert (seen.stderr, seen.stdout) == ("", "['ptmx'] /dev/pts/0 0\n")


WRITES = """
import os, sys
for path in sys.argv[1:]:
    child = os.fork() if path.startswith("/proc/self/") else 0
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:
        path = "not " + path
    if child:
        os.waitpid(child, 0)
        print(path, flush=True)
    elif "self" in path:
        print("in a child", path, flush=True)
        os._exit(0)
    else:
        print(path, flush=True)
"""


@pytest.mark.parametrize("node", ["own traced", "ordinary traced"], indirect=True)
def test_program_without_its_supervisor_writes_what_is_its_own(node: Node) -> None:
    if isolation.landlock_abi() < isolation.LANDLOCK_SCOPES_ABI:
        pytest.skip("takes Landlock")
    own = node.folder / "own"
    own.touch()
    node.supervisor = node.folder / "none"
    node.supervisor.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    node.supervisor.chmod(0o755)
    waiting = [shutil.which("sleep") or "sleep", "1000"]
    with tempfile.TemporaryDirectory(prefix="skt-", dir="/dev/shm") as name, subprocess.Popen(waiting) as victim:
        Path(name).chmod(0o755)
        Path(name, "file").touch()
        Path(name, "file").chmod(0o666)
        others = [f"{name}/file", "/proc/sys/kernel/core_pattern", f"/proc/{victim.pid}/oom_score_adj"]
        try:
            seen = node.run("python3", "-c", WRITES, str(own), "/dev/null", "/dev/full", *others, "/proc/self/comm")
        finally:
            victim.kill()

    expected = [str(own), "/dev/null", "/dev/full", *(f"not {path}" for path in others)]
    expected += ["in a child not /proc/self/comm", "/proc/self/comm"]
    assert (seen.stderr, seen.stdout.splitlines()) == ("", expected)


@pytest.mark.skipif(os.geteuid() != 0, reason="root makes another user")
def test_another_user_uses_up_nothing_that_root_may_have():
    try:
        stranger = isolation.Stranger()
    except PermissionError as error:
        pytest.skip(f"root makes no user here: {error}")
    owner = array.array("I", [0])
    fcntl.ioctl(stranger.namespace, 0xB704, owner)  # NS_GET_OWNER_UID, whose count of inotify instances and more it is
    os.close(stranger.namespace)

    assert owner[0] == stranger.host_id


@pytest.mark.parametrize("node", ["own"], indirect=True)
def test_user_of_plugins_is_reported_as_it_is(node):
    host_id = int(node.sh("cat /proc/self/uid_map").stdout.split()[1])

    assert sandbox.has_strangers(node.folder) == (host_id >= isolation._LOWEST_ID)
    assert not sandbox.has_strangers(node.folder / "nowhere")


@pytest.mark.parametrize("node", ["own"], indirect=True)
def test_place_that_is_a_device_of_the_host_leaves_the_program_another_user(node: Node) -> None:
    zero = Path("/dev/zero")
    node.view = replace(node.view, places={"/dev/skt": zero}, kept=(node.folder, zero))

    seen = node.sh("test -c /dev/skt && head -c 2 /dev/skt | wc -c; cat /proc/self/uid_map")

    count, _, host_id, _ = seen.stdout.split()
    assert (seen.stderr, count) == ("", "2")
    assert sandbox.has_strangers(node.folder) == (int(host_id) >= isolation._LOWEST_ID)


def test_devices_of_the_node_keep_the_permissions_of_the_host(node):
    machine = node.folder / "machine"
    (machine / "dev").mkdir(parents=True)
    (machine / "dev" / "nvidia0").touch()
    (node.root / "dev").symlink_to(machine / "dev")
    node.view = replace(node.view, devices=machine / "dev")

    seen = node.sh(
        f"for one in /dev/nvidia0 {machine}/dev/nvidia0; do chmod 666 $one && echo changed; done 2>/dev/null"
    )

    assert seen.stdout == ""


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the launcher be a script of the shell."""

    def be(script: str) -> None:
        program = tmp_path / "launcher"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sandbox, "_LAUNCHER", (str(program),))

    return be


def test_refusal_of_both_ways_is_reported(launcher):
    launcher(
        'test $# = 0 && echo "cannot make the view of a node: unshare: no" >&2\n'
        'test $# = 1 && echo "ptrace is refused: none" >&2\n'
        "exit 125"
    )

    with pytest.raises(
        HostError, match=r"a mount namespace is refused \(unshare: no\).* \(ptrace is refused: none\); "
    ) as found:
        sandbox.check_sandbox()

    assert found.value.exit_status == 3


def test_supervisor_is_taken_where_a_namespace_is_refused(launcher):
    launcher('test $# = 1 || { echo "unshare: no" >&2; exit 125; }')

    assert "by ptrace, as no mount namespace can be made (unshare: no)" in sandbox.check_sandbox()
    assert json.loads(sandbox.sandboxed(["true"], NodeView(Path("/root"), Path("/view")))[-3])["supervisor"]


@pytest.mark.parametrize(
    ("status", "trials"),
    [("true", 1), ("test $# = 1", 2), ("false", 4)],
    ids=["works", "works without a namespace", "is refused"],
)
def test_way_that_works_is_tried_once(tmp_path: Path, launcher, status: str, trials: int) -> None:
    log = tmp_path / "log"
    launcher(f"echo tried >>{log}\n{status}")

    for _ in range(2):
        with contextlib.suppress(HostError):
            sandbox.check_sandbox()

    assert log.read_text().splitlines() == ["tried"] * trials
