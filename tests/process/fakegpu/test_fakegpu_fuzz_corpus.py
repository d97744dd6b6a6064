"""The inputs that the session `fuzz` keeps of the target `nvml`: sequences of calls, and of what the owner does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.fuzz_targets import CORPUS
from tests.support.nvml_calls import NATIVE, header_path, read_header
from tests.support.nvml_harness import HARNESS, functions_source, fuzzed_machine
from tests.support.patience import LIMIT_S


@pytest.mark.slow
def test_kept_sequences_of_calls_break_nothing(tmp_path: Path) -> None:
    inputs = sorted((CORPUS / "nvml").iterdir())
    assert inputs
    machine = fuzzed_machine(tmp_path / "node")
    replay = _replay(tmp_path, machine.library)

    done = subprocess.run(
        [replay, *inputs],
        env={**os.environ, **machine.environment()},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    machine.close()


def _replay(folder: Path, library: Path) -> Path:
    (folder / "functions.h").write_text(functions_source(read_header(folder)))
    program = folder / "replay"
    headers = ("-I", NATIVE, "-I", folder, "-isystem", header_path().parent)
    sources = (HARNESS / "harness.c", HARNESS / "replay.c")
    options = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations")
    subprocess.run(["cc", *options, *headers, "-o", program, *sources, library], check=True)  # noqa: S607
    return program
