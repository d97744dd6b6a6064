"""Folders of running clusters: a name is taken once, what a killed cluster left is cleared, nothing stays behind."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from scenarios.up import running
from scenarios.up.running import About, Cluster, Server
from simkubelet.model.errors import HostError, InputError


def test_two_clusters_stand_side_by_side_and_leave_nothing(home: Path) -> None:
    with running.claimed("one") as one, running.claimed("two") as two:
        (one / "node-1").mkdir()
        assert (one.parent, one.name, two.name) == (home, "one", "two")

    assert list(home.iterdir()) == []


def test_name_is_taken_once(home: Path) -> None:
    with (
        running.claimed("one"),
        pytest.raises(InputError, match="a cluster 'one' runs already; end it or choose another --name"),
        running.claimed("one"),
    ):
        pass


def test_only_clusters_that_take_commands_run(home: Path) -> None:
    about = About(Server("https://127.0.0.1:1"), ("node-1",))
    assert running.clusters() == {}
    with running.claimed("one") as one, running.claimed("two"):
        running.introduce(one, about)
        (home / "killed").mkdir()
        running.introduce(home / "killed", about)

        assert running.clusters() == {"one": Cluster("one", home / "one" / "control.sock", about)}


def test_folder_too_deep_for_sockets_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("deep" * 30)))

    with (
        pytest.raises(InputError, match=r"107 bytes and this one has \d+; set XDG_RUNTIME_DIR to .* a shorter path"),
        running.claimed("one"),
    ):
        pass


def test_relative_runtime_folder_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "simkubelet").touch()

    # The machine's user may have some.
    running.clusters()
    with running.claimed("of-a-test-of-places") as folder:
        assert folder.parent == Path(f"/tmp/simkubelet-{os.getuid()}")


@pytest.mark.parametrize(
    ("place", "why"),
    [pytest.param("f", "", id="file"), pytest.param("x" * 300, "File name too long", id="long")],
)
def test_place_that_can_hold_no_folder_has_no_clusters_or_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str, why: str
) -> None:
    (tmp_path / "f").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / place))

    if why:
        refused = f"{tmp_path / place}/simkubelet: cannot be looked at: {why}; set XDG_RUNTIME_DIR to a folder of yours"
        for use in (running.clusters, lambda: list(running.left_clusters())):
            with pytest.raises(InputError, match=f"^{refused}$"):
                use()
    else:
        assert (running.clusters(), list(running.left_clusters())) == ({}, [])


def test_file_in_the_folders_place_is_reported(home: Path) -> None:
    home.write_text("")

    with (
        pytest.raises(InputError, match=r"cannot be made: .+; set XDG_RUNTIME_DIR to"),
        running.claimed("one"),
    ):
        pass


def refusals() -> list[str]:
    """Why the folder of clusters is refused, by all that use it."""
    found = []
    for use in (running.claimed("one").__enter__, running.clusters, lambda: list(running.left_clusters())):
        with pytest.raises(InputError) as caught:
            use()
        found.append(str(caught.value))
    return found


def test_folder_of_another_user_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)

    assert refusals() == [f"{home}: belongs to another user; set XDG_RUNTIME_DIR to a folder of yours"] * 3


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_folder_in_which_others_may_write_is_refused(home: Path, mode: int) -> None:
    home.mkdir()
    home.chmod(mode)

    refused = (
        f"{home}: other users may write there; run 'chmod go-w {home}' or set XDG_RUNTIME_DIR to a folder of yours"
    )
    assert refusals() == [refused] * 3


def test_link_to_the_folder_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "letter").touch()
    home.symlink_to(tmp_path)

    refused = f"{home}: is a link or a file; move it away or set XDG_RUNTIME_DIR to a folder of yours"
    assert refusals() == [refused] * 3
    assert (tmp_path / "one" / "letter").exists()


def test_folder_with_files_of_the_user_is_refused_and_stays(home: Path) -> None:
    (home / "one").mkdir(parents=True)
    (home / "one" / "letter").touch()
    home.chmod(0o700)

    refused = f"{home / 'one'}: has files that are not of simkubelet; move it away or choose another --name"
    with pytest.raises(InputError, match=f"^{refused}$"), running.claimed("one"):
        pass

    assert [path.name for path in (home / "one").iterdir()] == ["letter"]


@pytest.mark.parametrize("command", [["up"], ["up", "--name", "one"]])
def test_command_in_the_place_of_a_users_folder_is_one_line_and_2(
    home: Path, command: list[str], run_cli: Callable[..., tuple[int, str, str]]
) -> None:
    folder = home / (command[-1] if "--name" in command else "simkubelet")
    folder.mkdir(parents=True)
    (folder / "letter").touch()
    home.chmod(0o700)

    status, out, err = run_cli(*command)

    refused = f"error: {folder}: has files that are not of simkubelet; move it away or choose another --name\n"
    assert (status, out, err) == (2, "", refused)
    assert [path.name for path in folder.iterdir()] == ["letter"]


def test_command_that_can_start_no_thread_is_one_line_and_3(
    monkeypatch: pytest.MonkeyPatch, home: Path, run_cli: Callable[..., tuple[int, str, str]]
) -> None:
    def refuse(main: Coroutine[object, object, None], **_: object) -> None:
        main.close()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("scenarios.up.nodes.run_interruptibly", refuse)

    status, out, err = run_cli("up")

    assert (status, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("error: no process or thread can be started; ")


def test_link_in_a_folders_place_is_refused_and_not_followed(home: Path, tmp_path: Path) -> None:
    (tmp_path / "letter").touch()
    home.mkdir(mode=0o700)
    (home / "one").symlink_to(tmp_path)

    refused = f"{home / 'one'}: is a link or a file; move it away or choose another --name-prefix"
    with pytest.raises(InputError, match=f"^{refused}$"), running.claimed("one", "--name-prefix"):
        pass

    assert (tmp_path / "letter").exists()


def test_place_where_no_folder_can_be_made_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc")
    refused = r"^/proc/simkubelet/one: cannot be made: No such file or directory; set XDG_RUNTIME_DIR to a folder"
    with pytest.raises(InputError, match=refused), running.claimed("one"):
        pass


def test_kubeconfig_is_the_users_only_and_goes_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "config"

    with running.written(path, "kind: Config\n"):
        assert path.read_text().endswith("\nkind: Config\n")
        assert path.stat().st_mode & 0o777 == 0o600

    assert not path.exists()


def test_kubeconfig_of_a_running_cluster_stays(tmp_path: Path) -> None:
    path = tmp_path / "config"
    with running.written(path, "kind: Config\n"):
        refused = r"^--kubeconfig: '.*/config' is that of a running cluster; choose another file$"
        with pytest.raises(InputError, match=refused), running.written(path, ""):
            pass

        assert "kind: Config" in path.read_text()


def test_kubeconfig_of_the_user_stays(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("kind: Config\n")

    with pytest.raises(InputError, match="is there already; remove it or choose"), running.written(path, ""):
        pass

    assert path.read_text() == "kind: Config\n"


def test_file_that_the_user_moved_in_the_kubeconfigs_place_stays(tmp_path: Path) -> None:
    path = tmp_path / "config"

    with running.written(path, "kind: Config\n"):
        (tmp_path / "mine").write_text("mine")
        (tmp_path / "mine").rename(path)

    assert path.read_text() == "mine"


def test_link_to_the_kubeconfig_of_a_killed_cluster_is_refused(tmp_path: Path) -> None:
    path, target = tmp_path / "config", tmp_path / "target"
    with running.written(target, "kind: Config\n"):
        text = target.read_text()
    target.write_text(text)
    path.symlink_to(target)

    with pytest.raises(InputError, match="is there already; remove it or choose"), running.written(path, ""):
        pass

    assert target.read_text() == text


def test_kubeconfig_on_a_full_disk_is_not_left_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: object, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(running, "_write_all", full)
    path = tmp_path / "config"

    refused = f"^--kubeconfig: '{path}' cannot be written: No space left on device$"
    with pytest.raises(HostError, match=refused), running.written(path, "kind: Config\n"):
        pass

    assert not path.exists()


def test_file_of_a_cluster_on_a_full_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / "about.json").symlink_to("/dev/full")

    refused = f"^{tmp_path / 'about.json'}: cannot be written: No space left on device$"
    with pytest.raises(HostError, match=refused):
        running.introduce(tmp_path, About(Server(""), ()))
