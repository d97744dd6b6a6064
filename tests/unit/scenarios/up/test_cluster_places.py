"""Folders of running clusters: a name is taken once, what a killed cluster left is cleared, nothing stays behind."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from scenarios.up import running
from simkubelet.model.errors import InputError


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


def test_only_clusters_that_answer_run(home: Path) -> None:
    assert running.clusters() == {}
    with running.claimed("one") as one, running.claimed("two"), socket.socket(socket.AF_UNIX) as server:
        server.bind(str(running.control_socket(one)))
        server.listen()

        assert running.clusters() == {"one": home / "one" / "control.sock"}


def test_folder_too_deep_for_sockets_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("deep" * 30)))

    with (
        pytest.raises(InputError, match=r"a socket path holds 107 bytes and this one has \d+; choose"),
        running.claimed("one"),
    ):
        pass


def test_file_in_the_folders_place_is_reported(home: Path) -> None:
    home.write_text("")

    with (
        pytest.raises(InputError, match=r"cannot be made: .+; set XDG_RUNTIME_DIR to"),
        running.claimed("one"),
    ):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root owns what others made as well")
def test_folder_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_home", lambda: Path("/"))

    with pytest.raises(InputError, match="belongs to another user"), running.claimed("one"):
        pass


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
