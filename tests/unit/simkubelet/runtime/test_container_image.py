from __future__ import annotations

import sys
from pathlib import Path

import pytest

from simkubelet.runtime import bubblewrap
from simkubelet.runtime.bubblewrap import Bind, HostImage, placed, sandbox_arguments, staged


@pytest.fixture
def image(tmp_path: Path) -> HostImage:
    """A host with ``usr/lib/libc``, ``usr/lib/alias`` -> ``libc``, ``usr/bin/sh`` and ``usr/share`` -> ``lib``."""
    usr = tmp_path / "usr"
    for name in ("lib/libc", "bin/sh"):
        (usr / name).parent.mkdir(parents=True)
        (usr / name).touch()
    (usr / "lib" / "alias").symlink_to("libc")
    (usr / "share").symlink_to("lib")
    return HostImage((str(usr),), ((f"{tmp_path}/lib", "usr/lib"),), "/bin", "/bin/python")


def test_place_follows_the_links_of_the_image(image, tmp_path):
    assert image.place(f"{tmp_path}/lib/new") == f"{tmp_path}/usr/lib/new"
    assert image.place(f"{tmp_path}/usr/share/deep/new") == f"{tmp_path}/usr/lib/deep/new"
    assert image.place(f"{tmp_path}/usr/lib/alias") == f"{tmp_path}/usr/lib/libc"
    assert image.place("/var/run/../run/x") == "/run/x"
    assert image.place("data//x/") == "/data/x"


def test_nothing_is_opened_for_what_is_there_or_lies_outside(image, tmp_path):
    assert image.room_arguments([f"{tmp_path}/usr/lib/libc", "/data/x"]) == []


def test_folder_of_a_new_entry_becomes_writable_and_links_to_its_original(image, tmp_path):
    usr = f"{tmp_path}/usr"

    assert image.room_arguments([f"{usr}/lib/new"]) == [
        *("--ro-bind", usr, f"/.image{usr}"),
        *("--tmpfs", f"{usr}/lib"),
        *("--symlink", "libc", f"{usr}/lib/alias"),
        *("--symlink", f"/.image{usr}/lib/libc", f"{usr}/lib/libc"),
    ]


def test_entry_that_gets_a_mount_of_its_own_is_left_out_and_an_opened_one_is_a_folder(image, tmp_path):
    usr = f"{tmp_path}/usr"

    arguments = image.room_arguments([f"{usr}/new/deep", f"{usr}/lib/new", f"{usr}/bin"])

    assert arguments[3:] == [
        *("--tmpfs", usr),
        *("--ro-bind", f"{usr}/lib", f"{usr}/lib"),
        *("--symlink", "lib", f"{usr}/share"),
        *("--tmpfs", f"{usr}/lib"),
        *("--symlink", "libc", f"{usr}/lib/alias"),
        *("--symlink", f"/.image{usr}/lib/libc", f"{usr}/lib/libc"),
    ]


def test_image_of_this_host_has_its_python_and_no_folder_twice():
    image = HostImage.of_this_host()

    assert any(image.python.startswith(f"{folder}/") for folder in image.folders)
    for folder in image.folders:
        assert not any(folder != other and folder.startswith(f"{other}/") for other in image.folders)


def test_image_has_the_links_that_lead_to_its_python(tmp_path, monkeypatch):
    python = sys.executable
    for name, to in {"python3.x": python, "python3": "python3.x"}.items():
        (tmp_path / name).symlink_to(to)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))

    links = dict(HostImage.of_this_host().links)

    assert (links[str(tmp_path / "python3")], links[str(tmp_path / "python3.x")]) == ("python3.x", python)
    assert python not in links


def test_higher_mounts_come_first_and_of_equal_ones_the_last_counts(image):
    binds = [
        Bind("/1", "/data/x/y"),
        Bind("/2", "/data", is_read_only=True),
        Bind("/3", "/dev/x"),
        Bind("/4", "/dev/x", is_device=True),
    ]

    shown = placed(image, binds)
    arguments = sandbox_arguments(image, "pod", shown)

    assert list(shown) == ["/data", "/dev/x", "/data/x/y"]
    first, second, third = map(staged, range(3))
    assert arguments[-9:] == ["--ro-bind", "/2", first, "--dev-bind", "/4", second, "--bind", "/1", third]


@pytest.mark.parametrize(("user", "has_namespace"), [(0, False), (1000, True)], ids=["root", "user"])
def test_sandbox_of_root_is_roots_own(image, monkeypatch, user, has_namespace):
    monkeypatch.setattr(bubblewrap.os, "geteuid", lambda: user)

    assert ("--unshare-user" in sandbox_arguments(image, "pod", {})) == (
        has_namespace or not bubblewrap.is_run_by_root()
    )


@pytest.mark.parametrize("option", ["--unshare-pid", "--die-with-parent", "--new-session", "--clearenv"])
def test_sandbox_is_closed(image, option):
    assert option in sandbox_arguments(image, "pod", {})
