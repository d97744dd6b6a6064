"""The target ``nvml``: the fake libnvidia-ml.so.1 and its harness in one program of clang, with libFuzzer.

What the search finds is kept in ``build/fuzz/nvml``, where the next one begins: an input is a sequence of calls, so
there are thousands that differ from each other in little. The corpus has long ones that together reach most of the
library, and what once failed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.nvml_calls import read_header
from tests.support.nvml_harness import HARNESS, functions_source, fuzzed_machine
from tools.build import clang, sanitized

__all__ = ["search"]

_BUILD: Final = sanitized.ROOT / "build" / "nvml-fuzzer"
_PROGRAM: Final = _BUILD / "fuzzer"
_INPUTS: Final = (*HARNESS.iterdir(), Path(__file__), Path(read_header.__code__.co_filename))
_LONGEST_INPUT: Final = 1024
# clang says so of what gcc does unroll; nvml.h calls functions deprecated that are called all the same.
_FLAGS: Final = ("-Wno-pass-failed", "-Wno-deprecated-declarations")


def search(corpus: Path, findings: Path, limits: Sequence[str]) -> int:
    """Search from the inputs of ``corpus`` and of earlier searches; return libFuzzer's exit status.

    Raises:
        apt.AptError: There is no clang.
    """
    program = _built()
    found = findings / "nvml"
    found.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        machine = fuzzed_machine(Path(folder, "node"))
        status = subprocess.run(
            [program, *limits, f"-max_len={_LONGEST_INPUT}", f"-artifact_prefix={findings}/nvml-", found, corpus],
            env={**os.environ, **machine.environment()},
            check=False,
        ).returncode
        machine.destroy()
    return status


def _built() -> Path:
    _BUILD.mkdir(parents=True, exist_ok=True)
    if not sanitized.is_fresh(_PROGRAM, *_INPUTS):
        compiler = clang.find()
        Path(_BUILD, "functions.h").write_text(functions_source(read_header(_BUILD)), encoding="utf-8")
        objects = sanitized.compile_sources(compiler, _BUILD, *_FLAGS, "-fsanitize=fuzzer-no-link")
        linked = (*sanitized.FLAGS, *_FLAGS, *sanitized.include_options(), "-I", _BUILD, "-fsanitize=fuzzer")
        libraries = ("-lpthread", "-ldl", "-lm")
        sanitized.output_of(compiler, *linked, "-o", _PROGRAM, HARNESS / "harness.c", *objects, *libraries)
    return _PROGRAM
