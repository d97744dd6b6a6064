"""The table of functions and the machine of ``tests/fuzz/nvml``, which plays any bytes as calls of the fake library.

The table follows from nvml.h, as what ``tests/support/nvml_calls.py`` passes does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fakegpu import Machine
from tests.support.nvml_calls import (
    COUNT,
    COUNTS_ONLY_OUT,
    HANDLES,
    MOST_INSTANCES,
    POSITIONS,
    ROOM_OF_TEXT,
    Header,
    Signature,
)

__all__ = ["HARNESS", "functions_source", "fuzzed_machine"]

HARNESS: Final = Path(__file__).resolve().parents[1] / "fuzz" / "nvml"
_LAST_CODE: Final = 30
_TYPES: Final = f"""\
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <stdbool.h>
#include <stdint.h>
#include <nvml.h>

enum {{ PARAMETERS_MAX = {POSITIONS}, LAST_CODE = {_LAST_CODE} }};
enum pool {{ {", ".join(f"POOL_{handle}" for handle in sorted(HANDLES))}, POOLS }};
enum kind {{
    NUMBER, ROOM, MILLISECONDS, HANDLE, ROOM_AT, TEXT, TEXT_ROOM, STRUCTS, WAIT,
    FIRST_POINTER = ROOM_AT, FIRST_BUFFER = TEXT
}};

struct parameter {{
    enum kind kind;
    enum pool pool;     /* of a handle */
    bool is_new_handle; /* the function stores one */
    bool has_pointers;  /* so that it may not have any content */
    uint32_t size;      /* bytes of one struct */
    uint32_t least;     /* structs, or bytes of a text, whatever room the caller says there is */
    uint32_t version_count;
    const uint32_t *versions; /* what the first member may be */
}};

struct function {{
    const char *name;
    int (*call)(const uint64_t *arguments);
    unsigned int count;
    const struct parameter *parameters;
}};
"""


def functions_source(header: Header) -> str:
    """The C header ``functions.h`` of the harness."""
    lines = [_TYPES]
    for index, signature in enumerate(header.signatures):
        lines.extend(_one_function(index, signature, header))
    lines.append("static const struct function functions[] = {")
    for index, signature in enumerate(header.signatures):
        lines.append(f'    {{"{signature.name}", call_{index}, {len(signature.parameters)}, parameters_{index}}},')
    return "\n".join([*lines, "};", f"enum {{ FUNCTIONS = {len(header.signatures)} }};", ""])


def _one_function(index: int, signature: Signature, header: Header) -> Iterator[str]:
    passed = ", ".join(f"({p.type})(uintptr_t)a[{place}]" for place, p in enumerate(signature.parameters))
    call = f"{signature.name}({passed})"
    answer = f"{call} == NULL ? -1 : 0" if signature.name == "nvmlErrorString" else f"(int){call}"
    yield f"static int call_{index}(const uint64_t *a) {{ (void)a; return {answer}; }}"
    for place, parameter in enumerate(signature.parameters):
        if (versions := header.versions.get(parameter.base)) and parameter.is_pointer:
            yield f"static const uint32_t versions_{index}_{place}[] = {{{', '.join(map(str, versions))}}};"
    yield f"static const struct parameter parameters_{index}[] = {{"
    for place, parameter in enumerate(signature.parameters):
        versions = header.versions.get(parameter.base, []) if parameter.is_pointer else []
        named = f"versions_{index}_{place}" if versions else "0"
        yield f"    {{{_described(signature, parameter, header)}, {len(versions)}, {named}}},"
    yield from () if signature.parameters else ("    {0},",)
    yield "};"


def _described(signature: Signature, parameter: Any, header: Header) -> str:
    base = parameter.base
    kind = _kind(parameter)
    is_counted = any(COUNT.search(other.name) for other in signature.parameters)
    least = 1
    if kind == "TEXT_ROOM":
        least = 0 if is_counted else ROOM_OF_TEXT
    elif COUNTS_ONLY_OUT.search(signature.name):
        least = MOST_INSTANCES
    members = {
        "kind": kind,
        "pool": f"POOL_{base}" if base in HANDLES else "POOLS",
        "is_new_handle": _flag(kind == "STRUCTS" and base in HANDLES and not parameter.type.startswith("const")),
        "has_pointers": _flag(base in header.holds_pointers),
        "size": str(header.sizes[base] if parameter.is_pointer else 0),
        "least": str(least),
    }
    return ", ".join(members.values())


def _kind(parameter: Any) -> str:
    is_count = COUNT.search(parameter.name) is not None
    if not parameter.is_pointer:
        if parameter.base in HANDLES:
            return "HANDLE"
        if is_count:
            return "ROOM"
        return "MILLISECONDS" if "timeout" in parameter.name.lower() else "NUMBER"
    if parameter.base == "char":
        return "TEXT" if parameter.type.startswith("const") else "TEXT_ROOM"
    if parameter.base == "unsigned int" and is_count:
        return "ROOM_AT"
    return "WAIT" if parameter.base == "nvmlEventSetWait_v3_t" else "STRUCTS"


def _flag(is_so: bool) -> str:
    return "true" if is_so else "false"


def fuzzed_machine(folder: Path) -> Machine:
    """A machine with a GPU that can be partitioned, one that is, and one of a model that cannot."""
    machine = Machine.create(folder, gpus=[("h100-80gb", 2), ("t4", 1)])
    parts = machine.mig(1)
    parts.set_mode(True)
    parts.create("3g.40gb")
    return machine
