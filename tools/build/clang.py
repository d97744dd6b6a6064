"""Find clang with libFuzzer for the session ``fuzz``; as root on Debian, install what is missing."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tools.build import apt

_NAMES: Final = ("clang", *(f"clang-{version}" for version in range(22, 13, -1)))
_TARGET: Final = "int LLVMFuzzerTestOneInput(const unsigned char *data, long size) { return data && size ? 0 : 0; }"


def find() -> str:
    """Return a clang that links programs with libFuzzer and AddressSanitizer.

    Raises:
        apt.AptError: There is none, and it cannot be installed here.
    """
    compiler = next(filter(None, map(shutil.which, _NAMES)), None)
    if compiler is None:
        apt.install("clang", "clang")
        compiler = shutil.which("clang") or "clang"
    if not _links_fuzzers(compiler):
        # Its run-time library is a package of the compiler's version.
        version = subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True, check=True).stdout
        apt.install("libFuzzer", f"libclang-rt-{version.partition('.')[0]}-dev")
    if not _links_fuzzers(compiler):
        raise apt.AptError(f"{compiler} links no program with -fsanitize=fuzzer,address")
    return compiler


def _links_fuzzers(compiler: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "target.c")
        source.write_text(_TARGET, encoding="utf-8")
        command = [compiler, "-fsanitize=fuzzer,address", "-o", str(source.with_suffix("")), str(source)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
