"""The files of containers: whose are kept."""

from __future__ import annotations

import fcntl
import signal
from pathlib import Path

import pytest

from simkubelet.apis.documents import read_file
from simkubelet.model.pod import PodUID, pod_from_manifest
from simkubelet.runtime.container_runtime import ContainerStartError
from simkubelet.runtime.process_container import ContainerFiles, remove_logs
from tests.support.decoy import Decoy, make_deep_folder


def test_files_of_the_last_two_runs_are_kept(tmp_path: Path) -> None:
    pod = pod_from_manifest({"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "main", "image": "x"}]}})

    for attempt in range(12):
        files = ContainerFiles.create(tmp_path, pod, pod.containers[0], attempt)
        files.log.with_name(f"{attempt}.log.20261129-123000.gz").touch()

    suffixes = (".log", ".log.20261129-123000.gz", ".termination-log")
    kept = sorted(file.name for file in files.log.parent.iterdir())
    assert kept == [f"{attempt}{suffix}" for attempt in (10, 11) for suffix in suffixes]


def test_logs_of_pods_that_are_gone_are_removed_whatever_a_program_has_left_there(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    decoy = Decoy(tmp_path / "decoy")
    for pod in ("ns_a_kept", "ns_b_gone", "ns_c_also"):
        (logs / pod / "main").mkdir(parents=True)
    make_deep_folder(logs / "ns_b_gone/deep")
    (logs / "ns_d_link").symlink_to(decoy.place)
    (logs / "ns_c_also/main/link").symlink_to(decoy.place)

    remove_logs(logs, [PodUID("kept")])

    assert sorted(entry.name for entry in logs.iterdir()) == ["ns_a_kept", "ns_d_link"]
    decoy.check()


def test_log_that_is_kept_by_a_lease_fails_its_container(tmp_path: Path) -> None:
    pod = pod_from_manifest({"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "main", "image": "x"}]}})
    files = ContainerFiles.create(tmp_path, pod, pod.containers[0], 0)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        with files.log.open("rb+") as log:
            fcntl.fcntl(log, fcntl.F_SETLEASE, fcntl.F_WRLCK)

            with pytest.raises(ContainerStartError, match="main failed: is kept by a lease of another process"):
                files.open_log()
            assert files.end_of_log().endswith(": is kept by a lease of another process")
            with pytest.raises(BlockingIOError, match="is kept by a lease of another process"):
                read_file(files.log)
    finally:
        signal.signal(signal.SIGIO, before)
