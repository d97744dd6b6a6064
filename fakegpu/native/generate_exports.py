"""Write the part of the library that follows from its sources: stubs, the list of implemented functions, the layout.

Run by CMake at build time, with the standard library only::

    python generate_exports.py --header nvml.h --state state.h --state layout.h --output exports.c SOURCE.c ...

A source implements a function by one of the macros of ``nvml/api.h``. Every other function that ``nvml.h`` declares
becomes a stub with its prototype: it checks session, handles, pointers and the version of the struct as a driver does,
and then returns that the board does not support it, or that its subject does not exist.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

_PROTOTYPE = re.compile(r"\bDECLDIR\s+(?:char\s*\*\s*)?(nvml\w+)\s*\(([^)]*)\)")
_RENAMING = re.compile(r"^\s*#define\s+(nvml[A-Z]\w+)\s+(nvml[A-Z]\w+)\s*$", re.MULTILINE)
_VERSION = re.compile(r"^#define\s+(nvml\w+?)(_v\d+)\s+NVML_STRUCT_VERSION", re.MULTILINE)
_VERSIONED = re.compile(
    r"^typedef struct\s*\w*\s*\{\s*unsigned int\s+version;.*?^\}\s*(nvml\w+)_t;", re.MULTILINE | re.DOTALL
)
_TYPEDEF = re.compile(r"^typedef\s+(?:struct\s+)?(nvml\w+)_t\s+(nvml\w+_t);", re.MULTILINE)
_IMPLEMENTATION = re.compile(
    r"^(?:FG_API |FG_[A-Z_]*(?:GETTER|SETTER|ALIAS|LIST|ONLY)\(|__attribute__.* \*)(nvml\w+)\b", re.MULTILINE
)
_COUNT = re.compile(r"(?:[Cc]ount|[Ss]ize)$")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_STRUCT = re.compile(r"^struct (fg_\w+) \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
_MEMBER = re.compile(r"    (?:struct )?(\w+) (\w+)((?:\[\w*\])*); *(?:/\* (.*) \*/)?")

ABSENT = {
    "nvmlUnit_t": "NVML_ERROR_INVALID_ARGUMENT",
    "nvmlVgpuInstance_t": "NVML_ERROR_NOT_FOUND",
    "nvmlVgpuTypeId_t": "NVML_ERROR_INVALID_ARGUMENT",
}
"""Type of a handle to what no machine here has -> what a driver returns for it."""


@dataclass(frozen=True)
class Member:
    """One member of a struct of the layout: ``uint32_t cool_mhz[FG_CLOCK_DOMAINS]; /* comment */``."""

    type: str
    """Without ``struct``."""
    name: str
    lengths: tuple[str, ...]
    """Of an array, outermost first; empty text for the one without a length."""
    comment: str


@dataclass(frozen=True)
class Parameter:
    """One parameter of a prototype: ``nvmlPdi_t *pdi``."""

    type: str
    name: str

    @property
    def is_pointer(self) -> bool:
        return self.type.endswith("*")

    @property
    def base(self) -> str:
        """The type without pointers and qualifiers."""
        return self.type.replace("const ", "").rstrip("* ")


def prototypes(header: str) -> dict[str, list[Parameter]]:
    """Return the parameters of every function that the header declares."""
    found = _PROTOTYPE.findall(_COMMENT.sub("", header))
    return {name: [_parameter(part) for part in text.split(",") if part.strip() != "void"] for name, text in found}


def _parameter(text: str) -> Parameter:
    kind, name = re.fullmatch(r"\s*(.*?)\s*(\w+)\s*", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return Parameter(" ".join(kind.split()), name)


def declared_functions(header: str) -> set[str]:
    """Return the names of all functions of the header, and old names that it maps to one of them."""
    functions = set(prototypes(header))
    return functions | {old for old, new in _RENAMING.findall(_COMMENT.sub("", header)) if new in functions}


def implemented_functions(sources: list[str]) -> set[str]:
    """Return the names of the functions that the sources define."""
    return {name for source in sources for name in _IMPLEMENTATION.findall(source)}


def struct_versions(header: str) -> dict[str, list[str]]:
    """Return type of a struct that begins with its version -> the macros of the versions it may have.

    A type without number in its name takes those of all structs up to the one that it stands for.
    """
    text = _COMMENT.sub("", header)
    numbered = {name + number for name, number in _VERSION.findall(text)} & set(_VERSIONED.findall(text))
    versions = {f"{name}_t": [name] for name in numbered}
    for newest, alias in _TYPEDEF.findall(text):
        if newest in numbered:
            stem = newest.rpartition("_v")[0]
            versions[alias] = sorted(name for name in numbered if name.startswith(f"{stem}_v") and name <= newest)
    return versions


def answer_of_absence(parameters: list[Parameter]) -> str:
    """Return what a stub returns when all arguments are valid."""
    first = parameters[0].type if parameters else ""
    return ABSENT.get(first, "NVML_ERROR_NOT_SUPPORTED")


def stub_of(name: str, parameters: list[Parameter], versions: dict[str, list[str]]) -> str:
    """Return the C function of one stub."""
    device = next((parameter.name for parameter in parameters if parameter.type == "nvmlDevice_t"), None)
    pointers = [parameter for parameter in parameters if parameter.is_pointer]
    # A caller that passes a count and no array asks how long the array must be.
    counts = [parameter for parameter in pointers if parameter.base == "unsigned int" and _COUNT.search(parameter.name)]
    required = counts or pointers
    condition = " && ".join(f"{parameter.name} != NULL" for parameter in required) or "true"
    enter = f"FG_ENTER({device}, {condition})" if device else f"FG_ENTER_SYSTEM({condition})"
    lines = [f"    {enter};", "    FG_READ(gpu, fault, fault);" if device else "    (void)segment;"]
    vgpu = next((parameter.name for parameter in parameters[:1] if parameter.type == "nvmlVgpuInstance_t"), None)
    if vgpu:  # their numbers begin at 1
        lines.append(f"    FG_REQUIRE({vgpu} != 0, NVML_ERROR_INVALID_ARGUMENT);")
    for parameter in parameters:
        macros = versions.get(parameter.base, [])
        if macros and parameter in required:
            wrong = " && ".join(f"{parameter.name}->version != {macro}" for macro in macros)
            lines.insert(1, f"    FG_REQUIRE(!({wrong}), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);")
        elif parameter not in required and parameter.name not in {device, vgpu}:
            lines.append(f"    (void){parameter.name};")
    signature = ", ".join(f"{parameter.type} {parameter.name}" for parameter in parameters) or "void"
    body = "\n".join(lines)
    return f"FG_API {name}({signature})\n{{\n{body}\n    return {answer_of_absence(parameters)};\n}}"


def structs(state: str) -> dict[str, list[Member]]:
    """Read the members of every struct of ``state.h`` or ``layout.h``.

    Raises:
        ValueError: a line is not one member.
    """
    return {name: [_member(line) for line in body.splitlines()] for name, body in _STRUCT.findall(state)}


def _member(line: str) -> Member:
    found = _MEMBER.fullmatch(line)
    if found is None:
        raise ValueError(f"not one member of a struct, `type name[length]; /* comment */`: {line.strip()}")
    kind, name, lengths, comment = found.groups()
    return Member(kind, name, tuple(re.findall(r"\[(\w*)\]", lengths)), comment or "")


def layout_lines(state: str) -> list[str]:
    """Return one line of C for each struct and member of ``state.h`` or ``layout.h``."""
    lines = []
    for struct, members in structs(state).items():
        lines.append(f'    {{"{struct}", 0, sizeof(struct {struct})}},')
        for name in (member.name for member in members if "" not in member.lengths):
            size = f"sizeof(((struct {struct} *)0)->{name})"
            lines.append(f'    {{"{struct}.{name}", offsetof(struct {struct}, {name}), {size}}},')
    return lines


def render(header: str, state: str, sources: list[str]) -> str:
    """Return the whole generated C file.

    Raises:
        ValueError: a source implements a function that the header does not declare.
    """
    declared = declared_functions(header)
    implemented = implemented_functions(sources)
    if unknown := sorted(implemented - declared):
        raise ValueError(f"implemented, but not declared in nvml.h: {', '.join(unknown)}")
    known, versions = prototypes(header), struct_versions(header)
    if missing := sorted(declared - implemented - set(known)):
        raise ValueError(f"other names of functions, to be implemented by FG_ALIAS: {', '.join(missing)}")
    texts = "\n\n".join(stub_of(name, known[name], versions) for name in sorted(declared - implemented))
    names = "\n".join(f'    "{name}\\n"' for name in sorted(implemented))
    layout = "\n".join(layout_lines(state))
    return f"""/* Generated by generate_exports.py; do not edit. */
#include "control/writer.h"
#include "nvml/api.h"

{texts}

FG_EXPORT const char *fakegpu_implemented(void)
{{
    return
{names};
}}

FG_EXPORT const struct fg_layout_entry *fakegpu_layout(void)
{{
    static const struct fg_layout_entry entries[] = {{
{layout}
    {{NULL, 0, 0}},
    }};
    return entries;
}}
"""


def main(arguments: list[str] | None = None) -> int:
    """Read the files named on the command line and write the output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--header", type=Path, required=True, help="nvml.h")
    parser.add_argument("--state", type=Path, required=True, action="append", help="state.h, and again layout.h")
    parser.add_argument("--output", type=Path, required=True, help="C file to write")
    parser.add_argument("sources", type=Path, nargs="+", help="the library's own C files")
    options = parser.parse_args(arguments)
    sources = [path.read_text() for path in options.sources]
    try:
        text = render(options.header.read_text(), "".join(path.read_text() for path in options.state), sources)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    options.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
