"""Calls of any function of nvml.h with any arguments, each buffer ending where memory that nobody may touch begins.

What to pass follows from the prototypes in nvml.h and from the sizes and versions of its structs, for which a C
compiler is asked. A caller that claims more room than it has, or hands over a struct with wild pointers in it, breaks
the real library as well; so sizes are true here, and structs that hold pointers are zeros.
"""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import files
from pathlib import Path
from types import ModuleType
from typing import Any

import fakegpu

NATIVE = Path(fakegpu.__file__).parent / "native"
PAGE = mmap.PAGESIZE
CANARY = 0x5A
POSITIONS = 8
"""More parameters than any function has."""
PROT_NONE = 0
MILLISECONDS_TO_WAIT = 2

COUNT = re.compile(r"(?i)(?:count|size|length)$")
HANDLES = {
    "nvmlDevice_t",
    "nvmlEventSet_t",
    "nvmlGpuInstance_t",
    "nvmlComputeInstance_t",
    "nvmlGpmSample_t",
    "nvmlUnit_t",
}
COUNTS_ONLY_OUT = re.compile(r"PossiblePlacements|GetGpuInstances$|GetComputeInstances$")
MOST_INSTANCES = 64
"""Elements for functions that fill an array without asking how long it is: callers ask for the number before."""
ROOM_OF_TEXT = 256
"""Bytes for text of a function that does not ask how many there are."""


def generator() -> ModuleType:
    """``generate_exports.py``, which is a program of the build and no module of the package."""
    spec = importlib.util.spec_from_file_location("generate_exports", NATIVE / "generate_exports.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(module.__name__, module)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def header_path() -> Path:
    """The nvml.h that the library was built from."""
    found = [file for file in files("nvidia-nvml-dev") or [] if file.name == "nvml.h"]
    return Path(str(found[0].locate()))


@dataclass(frozen=True)
class Signature:
    """A function of nvml.h.

    Attributes:
        name: its name.
        parameters: as the generator reads them.
    """

    name: str
    parameters: Sequence[Any]


@dataclass(frozen=True)
class Header:
    """What the tests need to know of nvml.h.

    Attributes:
        signatures: all functions.
        sizes: bytes of each type that a parameter points to.
        versions: type -> the numbers that its first member may have.
        holds_pointers: types that may not have any content.
    """

    signatures: tuple[Signature, ...]
    sizes: dict[str, int]
    versions: dict[str, list[int]]
    holds_pointers: frozenset[str]


def read_header(folder: Path) -> Header:
    """Reads nvml.h with the help of a C compiler, which works in ``folder``."""
    generate = generator()
    text = header_path().read_text()
    known = generate.prototypes(text)
    types = sorted({p.base for parameters in known.values() for p in parameters if p.is_pointer} - {"char", "void"})
    macros = generate.struct_versions(text)
    lines = [f'printf("size {name} %zu\\n", sizeof({name}));' for name in types]
    lines += [f'printf("version {name} %u\\n", {macro});' for name in macros for macro in macros[name]]
    source = folder / "sizes.c"
    source.write_text(
        "#define NVML_NO_UNVERSIONED_FUNC_DEFS\n#include <stdio.h>\n#include <nvml.h>\n"
        f"int main(void) {{ {' '.join(lines)} return 0; }}\n"
    )
    program = folder / "sizes"
    subprocess.run(["cc", "-w", "-I", header_path().parent, "-o", program, source], check=True)  # noqa: S607
    sizes: dict[str, int] = {"char": 1, "void": 1}
    versions: dict[str, list[int]] = {}
    for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines():
        kind, *words, number = line.split()
        name = " ".join(words)
        if kind == "size":
            sizes[name] = int(number)
        else:
            versions.setdefault(name, []).append(int(number))
    signatures = tuple(Signature(name, tuple(parameters)) for name, parameters in sorted(known.items()))
    return Header(signatures, sizes, versions, _with_pointers(re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)))


def _with_pointers(text: str) -> frozenset[str]:
    structs = re.findall(r"^typedef struct\s*\w*\s*\{(.*?)^\}\s*(nvml\w+);", text, re.MULTILINE | re.DOTALL)
    found = {name for body, name in structs if "*" in body}
    while more := {name for body, name in structs if any(re.search(rf"\b{one}\b", body) for one in found)} - found:
        found |= more
    aliases = re.findall(r"^typedef\s+(?:struct\s+)?(nvml\w+)\s+(nvml\w+);", text, re.MULTILINE)
    return frozenset(found | {alias for name, alias in aliases if name in found})


class GuardedBuffer:
    """Memory whose end is the end of what may be touched."""

    def __init__(self, capacity: int) -> None:
        self._room = -(-capacity // PAGE) * PAGE + PAGE
        self._memory = mmap.mmap(-1, self._room + PAGE)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(self._start + self._room), PAGE, PROT_NONE) == 0
        self._before = b""
        self._size = 0

    def fill(self, content: bytes) -> int:
        """Puts ``content`` at the end, canaries before it, and returns its address."""
        self._size = len(content)
        self._before = bytes([CANARY]) * min(PAGE, self._room - self._size)
        begin = self._room - self._size
        self._memory[begin - len(self._before) : self._room] = self._before + content
        return self._start + begin

    def is_intact(self) -> bool:
        """Whether nothing was written before the content."""
        begin = self._room - self._size
        return self._memory[begin - len(self._before) : begin] == self._before


@dataclass(frozen=True)
class Style:
    """How one round of calls fills in arguments; the lists go by the position of the parameter.

    Attributes:
        handles: what to pass as a handle: a key of ``Caller.handles``.
        is_null: whether to pass no pointer.
        numbers: for plain numbers.
        room: elements of every array.
        room_of_text: bytes of every text.
        fill: byte that buffers are full of.
        has_version: whether structs begin with a version that they may have.
    """

    handles: Sequence[str]
    is_null: Sequence[bool]
    numbers: Sequence[int]
    room: int
    room_of_text: int
    fill: int
    has_version: bool


def fitting(**changes: Any) -> Style:
    """Valid handles, no missing pointers, room for one element; ``changes`` replace attributes."""
    return replace(
        Style(
            handles=("valid",) * POSITIONS,
            is_null=(False,) * POSITIONS,
            numbers=(0,) * POSITIONS,
            room=1,
            room_of_text=1,
            fill=0,
            has_version=True,
        ),
        **changes,
    )


class Caller:
    """Calls functions of one library.

    Attributes:
        handles: kind -> type of handle -> value; a type that a kind does not have gets zero.
    """

    def __init__(self, library: ctypes.CDLL, header: Header, most_room: int) -> None:
        self._library = library
        self._header = header
        largest = max(header.sizes.values()) * max(most_room, 1)
        self._buffers = [GuardedBuffer(max(largest, ROOM_OF_TEXT)) for _ in range(POSITIONS)]
        self.handles: dict[str, dict[str, int]] = {}

    def call(self, signature: Signature, style: Style) -> int:
        """Returns the code; raises AssertionError when the function wrote before a buffer."""
        used: list[GuardedBuffer] = []
        arguments: list[Any] = []
        for position, parameter in enumerate(signature.parameters):
            if parameter.is_pointer and style.is_null[position]:
                arguments.append(ctypes.c_void_p())
            elif parameter.is_pointer:
                used.append(self._buffers[position])
                content = self._content(signature, parameter, style, position)
                arguments.append(ctypes.c_void_p(self._buffers[position].fill(content)))
            elif parameter.base in HANDLES:
                kind = self.handles[style.handles[position]]
                arguments.append(ctypes.c_void_p(kind.get(parameter.base, kind.get("", 0))))
            else:
                arguments.append(ctypes.c_ulonglong(self._number(signature, parameter, style, position)))
        code = int(getattr(self._library, signature.name)(*arguments))
        for buffer in used:
            assert buffer.is_intact(), f"{signature.name} wrote before a buffer"
        return code

    def _number(self, signature: Signature, parameter: Any, style: Style, position: int) -> int:
        if COUNT.search(parameter.name):
            is_of_text = any(other.base == "char" for other in signature.parameters)
            return style.room_of_text if is_of_text else style.room
        if "timeout" in parameter.name.lower():
            return MILLISECONDS_TO_WAIT
        return style.numbers[position]

    def _content(self, signature: Signature, parameter: Any, style: Style, position: int) -> bytes:
        base = parameter.base
        if base == "char" and parameter.type.startswith("const"):
            return bytes([style.fill or 1]) * style.room_of_text + b"\0"
        if base == "char":
            is_counted = any(COUNT.search(other.name) for other in signature.parameters)
            return bytes([style.fill]) * (style.room_of_text if is_counted else ROOM_OF_TEXT)
        if base == "unsigned int" and COUNT.search(parameter.name):
            return style.room.to_bytes(4, "little")
        size = self._header.sizes[base]
        element = bytes(size) if base in self._header.holds_pointers else bytes([style.fill]) * size
        versions = self._header.versions.get(base)
        if versions and style.has_version:
            number = versions[style.numbers[position] % len(versions)]
            element = (number.to_bytes(4, "little") + element[4:])[:size]
        if base == "nvmlEventSetWait_v3_t":
            element = bytes(size)  # its timeout may not be any number
        if COUNTS_ONLY_OUT.search(signature.name) and not COUNT.search(parameter.name):
            return element * MOST_INSTANCES
        return element * max(style.room, 1)
