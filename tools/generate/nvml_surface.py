"""Write ``docs/nvml.md``: every function of nvml.h, what the fake library makes of it, and since when NVML has it.

Read from the C sources, so the page cannot promise what they do not hold: a function is modelled when what it answers
or sets is part of the machine's state, and the page names these members; it is constant when no state changes its
answer. Functions that no source implements check their arguments and answer that the board does not support them, or
that the thing asked about does not exist. With ``--check`` nothing is written and the exit status says whether the
committed page is fresh.

``--history WHEEL …`` writes ``nvml_functions.json`` again from the nvml.h of those wheels of nvidia-nvml-dev, oldest
first: the release that brought each function, and which ones are over things that no machine has.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "fakegpu" / "native"
PAGE = ROOT / "docs" / "nvml.md"
FUNCTIONS = Path(__file__).with_name("nvml_functions.json")

sys.path.insert(0, str(NATIVE))
import generate_exports  # type: ignore[import-not-found]  # noqa: E402

_MACRO = re.compile(r"^#define (\w+)\(([^)]*)\)((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_FUNCTION = re.compile(r"^[A-Za-z_][^\n;=#(]*[ *](\w+)\([^;{}]*?\)\n\{\n.*?\n\}", re.MULTILINE | re.DOTALL)
_INVOCATION = re.compile(r"^(FG_\w+)\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)", re.MULTILINE)
_READ = re.compile(r"FG_READ\w*\([^,]+(?:\([^()]*\))?,\s*([\w.]+)(?:\[[^\]]*\])?,\s*(\w+)\)")
_POINTER = re.compile(r"struct fg_(\w+) \*?(\w+)\b")
_NAME = re.compile(r"\b\w+\b")
_CHANGED = re.compile(r"\bstate(?:\.|->)(\w+)(?:\[[^\]]*\])*(?:(?:\.|->)(\w+))?(?:\[[^\n;=]*\])?( *[|&+-]?= )?")

BESIDE_THE_STATE = {
    "nvmlInit": "counts the sessions of the process; attaches the machine at the first",
    "nvmlInit_v2": "as nvmlInit",
    "nvmlInitWithFlags": "as nvmlInit; the flags change nothing",
    "nvmlShutdown": "ends a session; the last one frees the event sets",
    "nvmlErrorString": "the text of each code",
    "nvmlDeviceGetCount": "GPUs whose device nodes the process sees",
    "nvmlDeviceGetCount_v2": "GPUs whose device nodes the process sees",
    "nvmlDeviceGetIndex": "position among the GPUs that the process sees",
    "nvmlDeviceGetHandleByIndex": "the GPUs that the process sees, in order",
    "nvmlDeviceGetHandleByIndex_v2": "the GPUs that the process sees, in order",
    "nvmlSystemGetProcessName": "the command line in /proc",
    "nvmlDeviceClearCpuAffinity": "lets the thread run on every CPU of the host",
    "nvmlGpmSampleAlloc": "4,096 samples in a process",
    "nvmlGpmSampleFree": "gives a sample back",
    "nvmlEventSetCreate": "1,024 sets in a process, each with its own place in the ring of events",
    "nvmlEventSetFree": "frees a set and wakes who waits on it",
    "nvmlDeviceClearAccountingPids": "forgets the processes recorded",
}
"""What is modelled of functions whose answer is no member of the state."""


@dataclass
class Used:
    """Members of the state that a piece of C uses."""

    read: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)

    def add(self, other: Used) -> None:
        self.read |= other.read
        self.changed |= other.changed


class Sources:
    """The native sources, as far as the page needs them."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {name: generate_exports._COMMENT.sub("", text) for name, text in texts.items()}
        self.titles = {name: _title(text) for name, text in texts.items()}
        self._macros = {
            name: ([part.strip() for part in parameters.split(",")], body.replace("\\\n", "\n"))
            for text in self._texts.values()
            for name, parameters, body in _MACRO.findall(text)
        }
        own = {name: text for name, text in self._texts.items() if name not in _PLUMBING}
        self._topical = {name for text in own.values() for name, *_ in _MACRO.findall(text)}
        # Functions of one file may have the names of another's, those that begin with fg_ are everybody's.
        self._functions = {
            ("" if match[1].startswith(("fg_", "nvml")) else file, match[1]): match[0]
            for file, text in own.items()
            for match in _FUNCTION.finditer(text)
        }
        self._used: dict[tuple[str, str], Used] = {}

    @cached_property
    def _members(self) -> dict[str, set[str]]:
        found = [generate_exports.structs(self._texts[name]) for name in ("core/state.h", "core/layout.h")]
        return {
            struct.removeprefix("fg_"): {member.name for member in members}
            for structs in found
            for struct, members in structs.items()
        }

    @cached_property
    def _topics(self) -> dict[str, str]:
        """Topic of the state -> its struct: ``links`` -> ``link``."""
        topics = generate_exports.structs(self._texts["core/state.h"])["fg_gpu_state"]
        return {topic.name: topic.type.removeprefix("fg_") for topic in topics}

    def implemented(self) -> dict[str, list[str]]:
        """File -> the functions of nvml.h that it implements, in its order."""
        return {
            name: list(generate_exports._IMPLEMENTATION.findall(text))
            for name, text in sorted(self._texts.items())
            if name.endswith(".c") and generate_exports._IMPLEMENTATION.search(text)
        }

    def uses(self, file: str, function: str) -> Used:
        """What a function of nvml.h uses, with all that it calls."""
        if alias := re.search(rf"FG_ALIAS\({function}, (\w+)\)", self._texts[file]):
            return self.uses(file, alias[1])
        return self._uses(file, function, self._functions.get(("", function)) or self._expanded(file, function), ())

    def _expanded(self, file: str, function: str) -> str:
        """The text of a function that a macro defines."""
        for macro, arguments in _INVOCATION.findall(self._texts[file]):
            if re.match(rf"{function}\b", arguments):
                return self._expand(macro, arguments)
        return ""

    def _expand(self, macro: str, arguments: str) -> str:
        parameters, body = self._macros[macro]
        given = dict(zip(parameters, _split(arguments), strict=False))
        return _NAME.sub(lambda name: given.get(name[0], name[0]), body)

    def _uses(self, file: str, name: str, text: str, above: tuple[str, ...]) -> Used:
        if (file, name) in self._used:
            return self._used[file, name]
        used = self._direct(text)
        for called in sorted(set(_NAME.findall(text)) - {name, *above}):
            body = self._functions.get((file, called)) or self._functions.get(("", called))
            if body is not None:
                used.add(self._uses(file, called, body, (*above, name)))
            elif called in self._topical:
                used.add(self._direct(self._macros[called][1]))
        self._used[file, name] = used
        return used

    def _direct(self, text: str) -> Used:
        used = Used()
        structs = {"segment": "segment"} | {pointer: struct for struct, pointer in _POINTER.findall(text)}
        for path, copy in _READ.findall(text):
            topic, _, member = path.partition(".")
            structs[copy] = self._topics.get(topic, "")
            if member:
                used.read.add(path)
        for copy, struct in structs.items():
            topic = self._prefixes.get(struct)
            for member in re.findall(rf"\b{copy}(?:\[[^\]]*\])*(?:\.|->)(\w+)", text):
                if topic is not None and member in self._members[struct]:
                    used.read.add(topic + member)
        for topic, member, assignment in _CHANGED.findall(text):
            if topic in self._topics:
                path = f"{topic}.{member}" if member else topic
                is_changed = bool(assignment) or re.search(rf"mem(?:set|cpy)\([^,]*state\.{topic}", text)
                (used.changed if is_changed else used.read).add(path)
        return used

    @cached_property
    def _prefixes(self) -> dict[str, str]:
        """Struct -> the prefix of its members on the page."""
        return {struct: f"{topic}." for topic, struct in self._topics.items()} | {"segment": ""}


_PLUMBING = {
    "control/capabilities.c", "control/writer.c", "core/layout.h", "core/live.c", "core/live.h", "core/result.h",
    "core/ring.c", "core/segment.c", "core/state.h", "core/state_io.c", "core/state_io.h", "nvml/api.c", "nvml/api.h",
    "nvml/change.c", "nvml/visible.h",
}  # fmt: skip
"""Files that say how the state is read and written, not what an answer follows from."""


def _split(arguments: str) -> list[str]:
    parts, depth = [""], 0
    for character in arguments:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _title(text: str) -> str:
    """First sentence of the comment that a file begins with."""
    found = re.match(r"/\*\s*(.*?)(?:\.\s|\*/)", text, re.DOTALL)
    return " ".join(found[1].replace("\n *", " ").split()).rstrip(".") if found else ""


_EVERYWHERE = {"fault", "fault.is_lost", "gpu_count", "gpus"}
"""Members that every function looks at."""


def page(sources: Sources, since: Mapping[str, str], absent: Mapping[str, str]) -> str:
    """The whole page.

    Args:
        sources: The C sources.
        since: Function -> first release of CUDA that has it.
        absent: Function over something that no machine has -> its answer, where no source implements it.
    """
    rows = {file: [_row(sources, file, name, since) for name in names] for file, names in sources.implemented().items()}
    implemented = {name for names in sources.implemented().values() for name in names}
    rest = sorted(set(since) - implemented)
    absent = {name: absent[name] for name in rest if name in absent}
    refused = [name for name in rest if name not in absent]
    states = [state for part in rows.values() for _, state, _, _ in part]
    counts = (
        f"Of {len(since)} functions {states.count('modelled')} are modelled, {states.count('constant')} constant, "
        f"{len(absent)} concern hardware that no machine here has, and {len(refused)} are not supported."
    )
    lines = (*_HEAD.splitlines(), "", counts, *_sections(sources, rows), *_rest(absent, refused, since))
    return "".join(f"{line}\n" for line in lines)


def _row(sources: Sources, file: str, name: str, since: Mapping[str, str]) -> tuple[str, str, str, str]:
    if name in BESIDE_THE_STATE:
        return name, "modelled", since[name], BESIDE_THE_STATE[name]
    used = sources.uses(file, name)
    read = sorted(used.read - used.changed - _EVERYWHERE)
    changed = sorted(used.changed)
    said = [", ".join(f"`{member}`" for member in read)] if read else []
    if changed:
        said.insert(0, "sets " + ", ".join(f"`{member}`" for member in changed))
    return name, "modelled" if said else "constant", since[name], "; ".join(said)


def _sections(sources: Sources, rows: Mapping[str, list[tuple[str, str, str, str]]]) -> Iterator[str]:
    for file, part in rows.items():
        yield from ("", f"## {sources.titles[file]}", "", f"[{file}](../fakegpu/native/{file})", "")
        yield from ("| function | state | since | what is modelled |", "| --- | --- | --- | --- |")
        for row in sorted(part):
            yield f"| {' | '.join(row)} |".replace("|  |", "| |")


def _rest(absent: Mapping[str, str], refused: Sequence[str], since: Mapping[str, str]) -> Iterator[str]:
    yield from ("", "## Hardware that no machine here has", "")
    yield "Units of S-class systems and vGPUs: no handle of one is valid."
    yield from ("", "| function | state | since | answer |", "| --- | --- | --- | --- |")
    for name, answer in absent.items():
        yield f"| {name} | constant | {since[name]} | {answer} |"
    yield from ("", "## Not supported", "", "| function | state | since |", "| --- | --- | --- |")
    for name in refused:
        yield f"| {name} | not supported | {since[name]} |"


_HEAD = """# The functions of NVML

Written by `tools/generate/nvml_surface.py` from the C sources; do not edit.

The library exports every function that `nvml.h` of CUDA 13.5 declares, older names included. All of them check their
arguments in NVML's order: `UNINITIALIZED` before `nvmlInit`, `INVALID_ARGUMENT` for an invalid handle and a missing
pointer, `ARGUMENT_VERSION_MISMATCH` for a struct of another version, `INSUFFICIENT_SIZE` for a buffer that is
too small (with the required size, where NVML returns it), `GPU_IS_LOST`, `NOT_SUPPORTED` where the board lacks the
feature, and `NO_PERMISSION` for calls that need root.

- *modelled*: the answer follows from members of the machine's state, which the table names; see
  [state.h](../fakegpu/native/core/state.h) for their meaning. All processes see at once what a function *sets*.
- *constant*: no state changes the answer to a valid call.
- *not supported*: the function checks its arguments and returns that the board does not support it.

*since* is the first CUDA release whose `nvml.h` has the function; 11.7 also stands for all older releases."""


def history(wheels: Sequence[Path]) -> dict[str, dict[str, str]]:
    """What ``nvml_functions.json`` holds, from wheels given oldest first."""
    since: dict[str, str] = {}
    header = ""
    for wheel in wheels:
        release = ".".join(wheel.name.split("-")[1].split(".")[:2])
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("/nvml.h"))
            header = archive.read(name).decode()
        for name in generate_exports.declared_functions(header):
            since.setdefault(name, release)
    answers = {
        name: generate_exports.answer_of_absence(parameters).removeprefix("NVML_ERROR_")
        for name, parameters in generate_exports.prototypes(header).items()
    }
    return {
        "since": {name: since[name] for name in sorted(generate_exports.declared_functions(header))},
        "absent": {name: answer for name, answer in sorted(answers.items()) if answer != "NOT_SUPPORTED"},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 when the page is stale")
    parser.add_argument(
        "--history", nargs="+", type=Path, metavar="WHEEL", help="wheels of nvidia-nvml-dev, oldest first"
    )
    options = parser.parse_args()
    if options.history:
        FUNCTIONS.write_text(json.dumps(history(options.history), indent=1) + "\n", encoding="utf-8")
    texts = {
        str(path.relative_to(NATIVE)): path.read_text(encoding="utf-8") for path in sorted(NATIVE.glob("*/*.[ch]"))
    }
    fresh = page(Sources(texts), **json.loads(FUNCTIONS.read_text(encoding="utf-8")))
    if not options.check:
        PAGE.write_text(fresh, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != fresh:
        print(f"stale: {PAGE.name}; run: python -m tools.generate.nvml_surface", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
