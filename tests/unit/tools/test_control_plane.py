from __future__ import annotations

import random
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from simkubelet.remote import read_kubeconfig
from tools.build import control_plane as build
from tools.control_plane import ControlPlane, free_ports


@pytest.mark.parametrize("minor", build.PINS.minors())
def test_reported_version_is_the_pinned_one(minor: str) -> None:
    pinned = re.search(r"k8s\.io/kubernetes (v[\d.]+)$", build.PINS.modfile(minor).read_text(), re.M)

    assert pinned is not None
    assert pinned[1].startswith(f"v{minor}.")
    assert f" -X k8s.io/component-base/version.gitVersion={pinned[1]} " in build.version_flags(minor)


def test_administrators_kubeconfig_can_be_read(tmp_path: Path) -> None:
    running = ControlPlane(tmp_path / "programs", tmp_path)

    access = read_kubeconfig(running.kubeconfig)

    assert (access.url, access.tls is not None) == (running.url, True)


def test_no_outgoing_connection_takes_a_port(tmp_path: Path) -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())

    port = urlsplit(ControlPlane(tmp_path / "programs", tmp_path).url).port

    assert port is not None
    assert not first <= port <= last


def test_no_two_control_planes_have_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "sample", lambda ports, count: ports)

    first, second = free_ports(3), free_ports(3)

    assert not set(first) & set(second)


def test_private_keys_are_for_nobody_else(tmp_path: Path) -> None:
    ControlPlane(tmp_path / "programs", tmp_path)

    assert {path.stat().st_mode & 0o777 for path in [*tmp_path.glob("*.key"), *tmp_path.glob("*.kubeconfig")]} == {
        0o600
    }
