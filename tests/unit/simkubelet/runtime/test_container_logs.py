"""The files of containers: whose are kept."""

from __future__ import annotations

from pathlib import Path

from simkubelet.model.pod import pod_from_manifest
from simkubelet.runtime.process_container import ContainerFiles


def test_files_of_the_last_two_runs_are_kept(tmp_path: Path) -> None:
    pod = pod_from_manifest({"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "main"}]}})

    for attempt in range(12):
        files = ContainerFiles.create(tmp_path, pod, pod.containers[0], attempt)
        files.log.with_name(f"{attempt}.log.20261129-123000.gz").touch()

    suffixes = (".log", ".log.20261129-123000.gz", ".termination-log")
    kept = sorted(file.name for file in files.log.parent.iterdir())
    assert kept == [f"{attempt}{suffix}" for attempt in (10, 11) for suffix in suffixes]
