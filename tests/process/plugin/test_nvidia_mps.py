"""Fed in: programs that stand for MPS's control; observed: whether the plugin waits, and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugin.framework import ResourceName
from plugin.nvidia.mps.mps import MpsDaemonError, MpsSharing

_WAITING = "error waiting for MPS daemon: error checking MPS daemon health: "


def _sharing(root: Path) -> MpsSharing:
    return MpsSharing(ResourceName("nvidia.com/gpu"), "/run/mps", lambda path: root / path.relative_to("/"))


def _program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder / "nvidia-cuda-mps-control"
    place.write_text(text)
    place.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


async def test_daemon_is_asked_with_its_folders_alone_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _program(tmp_path, f"#!/bin/sh\n/bin/cat >{tmp_path}/told; /usr/bin/env >{tmp_path}/env\n", monkeypatch)

    await _sharing(tmp_path).wait_for_daemon()

    assert (tmp_path / "told").read_text() == "get_default_active_thread_percentage"
    seen = dict(line.split("=") for line in (tmp_path / "env").read_text().split())
    assert {name: value for name, value in seen.items() if name.startswith(("CUDA", "PATH"))} == {
        "CUDA_MPS_PIPE_DIRECTORY": f"{tmp_path}/mps/nvidia.com/gpu/pipe",
        "CUDA_MPS_LOG_DIRECTORY": f"{tmp_path}/mps/nvidia.com/gpu/log",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("#!/bin/sh\nexit 3\n", "failed to send command to MPS daemon: exit status 3", id="fails"),
        pytest.param("#!/bin/sh\nkill -9 $$\n", "failed to send command to MPS daemon: signal: killed", id="killed"),
    ],
)
async def test_daemon_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    _program(tmp_path, text, monkeypatch)

    with pytest.raises(MpsDaemonError) as error:
        await _sharing(tmp_path).wait_for_daemon()

    assert str(error.value) == _WAITING + reason


async def test_control_program_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MpsDaemonError) as error:
        await _sharing(tmp_path).wait_for_daemon()

    assert str(error.value) == (
        f"{_WAITING}failed to start NVIDIA MPS command: "
        'exec: "nvidia-cuda-mps-control": executable file not found in $PATH'
    )
