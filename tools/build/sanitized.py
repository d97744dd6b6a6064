"""Build the fake libnvidia-ml.so.1 with AddressSanitizer and UndefinedBehaviorSanitizer, and print what tests need.

Two lines: the library, for ``FAKEGPU_LIBRARY``, and the sanitizer's runtime, for ``LD_PRELOAD``. The first finding ends
the process that made it. Built again only when a source is newer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "fakegpu" / "native"
BUILD = ROOT / "build" / "sanitized"
LIBRARY = BUILD / "libnvidia-ml.so.1"
FLAGS = (
    "-std=gnu11", "-g", "-O1", "-fPIC", "-fno-omit-frame-pointer", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
)  # fmt: skip


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def include_options() -> tuple[str, ...]:
    """Return where a compiler finds the library's headers, and nvml.h."""
    return ("-I", str(NATIVE), "-isystem", output_of(sys.executable, NATIVE / "find_header.py"))


def compile_sources(compiler: str, folder: Path, *flags: str) -> list[Path]:
    """Compile the library's sources into ``folder``, and return the objects."""
    include = include_options()
    sources = sorted(NATIVE.glob("*/*.c"))
    exports = folder / "exports.c"
    output_of(
        sys.executable, NATIVE / "generate_exports.py", "--header", f"{include[-1]}/nvml.h",
        "--state", NATIVE / "core/state.h", "--state", NATIVE / "core/layout.h", "--output", exports, *sources,
    )  # fmt: skip

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.stem}.o"
        output_of(compiler, *FLAGS, *flags, *include, "-c", "-o", target, source)
        return target

    with ThreadPoolExecutor() as pool:
        return list(pool.map(compile_one, [*sources, exports]))


def build() -> None:
    objects = compile_sources("cc", BUILD)
    linking = ("-shared", "-Wl,-Bsymbolic", "-Wl,-z,nodelete", f"-Wl,-soname,{LIBRARY.name}")
    output_of("cc", *FLAGS, *linking, "-o", LIBRARY, *objects, "-lpthread", "-ldl", "-lm")


def is_fresh(built: Path, *inputs: Path) -> bool:
    """Return whether a file was built after the last change of the library's sources, and of ``inputs``."""
    sources = (Path(__file__), *NATIVE.glob("**/*.*"), *inputs)
    return built.exists() and built.stat().st_mtime > max(path.stat().st_mtime for path in sources)


def main() -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        if not is_fresh(LIBRARY):
            begun = time.time()
            build()
            os.utime(LIBRARY, (begun, begun))  # a source that changed meanwhile is newer
        runtime = output_of("cc", "-print-file-name=libasan.so")
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        print(f"error: the library was not built: {error}", file=sys.stderr)
        return 1
    print(f"{LIBRARY}\n{Path(runtime).resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
