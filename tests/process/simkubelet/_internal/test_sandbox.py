"""A program in the view of a node, as the user who runs the tests and, where that is root, as an ordinary one too."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from simkubelet._internal import enter_view, isolation, sandbox
from simkubelet._internal.sandbox import NodeView
from simkubelet.model.errors import HostError
from tests.support.attacks import Victim
from tests.support.decoy import Decoy
from tests.support.patience import LIMIT_S

USER = 54321


class Node:
    """A node's folder that its user owns, and programs in views of it."""

    def __init__(self, folder: Path, prefix: list[str]) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.view = NodeView(self.root, folder / "view", kept=(folder,))
        self._prefix = prefix
        self.root.mkdir()

    def put(self, path: str, content: str = "") -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
        return place

    def own(self) -> None:
        """Give all of it to the user."""
        if "setpriv" in self._prefix:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, USER, USER, follow_symlinks=False)

    def argv(self, command: list[str]) -> list[str]:
        self.own()
        argv = sandbox.sandboxed(command, self.view)
        return [*self._prefix, *argv[len(sandbox._LAUNCHER) :]] if self._prefix else argv

    def run(self, *command: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(list(command)),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            cwd=cwd or "/",
            env={**os.environ, **env},
        )

    def sh(self, script: str) -> subprocess.CompletedProcess[str]:
        return self.run("sh", "-c", script)


LACKING = {
    "landlock": "isolation._LANDLOCK_MIN_ABI = 99",
    "idmap": "isolation._MOUNT_ATTR_IDMAP = 1 << 40",
}
"""What a kernel may lack -> the statement that lets it."""


def lacking(launcher: Sequence[str], features: Sequence[str]) -> list[str]:
    """A launcher where the kernel lacks some features."""
    begin = "".join(f"from _internal import isolation; {LACKING[feature]}; " for feature in features)
    changed = sandbox._PROGRAM.replace("from _internal import enter_view", f"{begin}from _internal import enter_view")
    return [changed if word == sandbox._PROGRAM else word for word in launcher]


def ordinary_user(folder: Path) -> list[str]:
    """How a program starts as a user without rights, whose Python need not be ours."""
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
    if os.geteuid() != 0 or shutil.which("setpriv") is None or python is None:
        pytest.skip("takes root, setpriv and a Python that any user may run")
    package = folder / "_internal"
    package.mkdir()
    for name in ("__init__", "enter_view", "isolation"):
        shutil.copy(Path(enter_view.__file__).with_name(f"{name}.py"), package)
    user = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
    return [*user, python, "-I", "-S", "-c", sandbox._PROGRAM, str(folder)]


@pytest.fixture(params=["own", "ordinary"])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="sk-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        user, *features = request.param.split()
        prefix = ordinary_user(folder) if user == "ordinary" else []
        if features:
            prefix = lacking(prefix or sandbox._LAUNCHER, features)
        trial = subprocess.run(prefix or sandbox._LAUNCHER, capture_output=True, text=True, check=False)
        if trial.returncode:
            pytest.skip(trial.stderr)
        yield Node(folder, prefix)


def test_node_files_are_visible_beside_those_of_the_host(node):
    node.put("/etc/skt/g1", "gopher\n")
    node.put("/dev/skt0")

    seen = node.sh("cat /etc/skt/g1; ls -d /dev/skt0 /etc/passwd /etc/ssl; test -c /dev/null && echo x >/dev/null")

    assert (seen.stderr, seen.stdout.split()) == ("", ["gopher", "/dev/skt0", "/etc/passwd", "/etc/ssl"])
    assert not Path("/etc/skt").exists()
    assert not Path("/dev/skt0").exists()


def test_view_has_all_that_the_host_has(node):
    node.put("/etc/skt")

    seen = node.sh("ls -A /etc; ls -A /")

    host = {entry.name for folder in ("/etc", "/") for entry in Path(folder).iterdir()}
    assert set(seen.stdout.split()) == {"skt"} | host


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


def test_stand_ins_go_when_the_node_file_has_gone(node):
    gone = node.put("/etc/skt-gone")
    node.view = replace(node.view, opened=("/etc",))
    assert node.sh("ls /etc/skt-gone").returncode == 0

    gone.unlink()

    assert node.sh("ls /etc/skt-gone").returncode != 0


def unrefused(user: str, *lacks: str) -> list[str]:
    """The attacks that succeed, by who runs the plugin and what the kernel lacks."""
    if "landlock" not in lacks:
        return []
    is_another_user = user == "own" and os.geteuid() == 0 and "idmap" not in lacks
    # An abstract socket is as open as the network, which a plugin shares.
    return [*([] if is_another_user else ["signals"]), "connects to an abstract socket"]


@pytest.mark.parametrize(
    "node", ["own", "ordinary", "own idmap", "own landlock", "ordinary landlock", "own landlock idmap"], indirect=True
)
def test_attacks_on_the_host_are_refused(node, request):
    prefix = node._prefix
    user = prefix[: prefix.index("--clear-groups") + 1] if "setpriv" in prefix else []
    with tempfile.TemporaryDirectory(prefix="skt-", dir="/var/tmp") as name, Victim(Path(name), user) as victim:
        Path(name).chmod(0o755)
        seen = node.run(*victim.argv(shutil.which("python3", path="/usr/bin:/usr/local/bin")))

    expected = unrefused(*request.node.callspec.params["node"].split())
    assert (seen.stderr, seen.stdout.splitlines()) == ("", expected)


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


def test_refused_namespace_is_reported(monkeypatch, tmp_path):
    refusing = tmp_path / "python"
    refusing.write_text("#!/bin/sh\necho unshare: Operation not permitted >&2; exit 125\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(sandbox, "_LAUNCHER", (str(refusing),))

    with pytest.raises(HostError, match=r"not permitted\): that takes a mount namespace"):
        sandbox.check_sandbox()


@pytest.mark.parametrize(("status", "trials"), [(0, 1), (1, 2)], ids=["works", "is refused"])
def test_namespaces_that_work_are_tried_once(tmp_path: Path, monkeypatch, status: int, trials: int) -> None:
    launcher, log = tmp_path / "launcher", tmp_path / "log"
    launcher.write_text(f"#!/bin/sh\necho tried >>{log}\nexit {status}\n")
    launcher.chmod(0o755)
    monkeypatch.setattr(sandbox, "_LAUNCHER", (str(launcher),))

    for _ in range(2):
        with contextlib.suppress(HostError):
            sandbox.check_sandbox()

    assert log.read_text().splitlines() == ["tried"] * trials
