"""The code blocks of the project's Markdown files, and how a reader would play them.

A block is played unless an HTML comment above it gives a reason: ``<!-- not played: needs a real GPU -->``. The blocks
of a page are played in their order:

- ``sh``: commands of a shell; each has to end with status 0;
- ``console``: commands behind ``$ `` (lines that continue one behind ``> ``), and what they print; without a command,
  what the program prints that the block before has started. ``…`` stands for any text, as a line of its own for any
  lines; times in seconds and widths of columns do not count;
- ``python``: a program;
- a block below ``<!-- file: NAME -->`` is written to that file, which a later block uses.

``<!-- keeps running -->`` above a block of commands: they run until the end of the page, or until a block below
``<!-- after Ctrl-C -->``. The block after that shows what they print once they are at work.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from tools.check.text import project_files

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = tuple(sorted(str(path.relative_to(ROOT)) for path in project_files(ROOT) if path.suffix == ".md"))

NOT_PLAYED, FILE, KEEPS_RUNNING, AFTER_CTRL_C = "not played", "file", "keeps running", "after Ctrl-C"
COMMANDS = {"sh", "console"}
PLAYED = {*COMMANDS, "python"}

_FENCE = re.compile(r"^((?:<!-- [^\n]* -->\n)*)```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOTE = re.compile(r"^<!-- ([^:\n]+?)(?:: (.*?))? -->$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code.

    Attributes:
        place: page and line, for messages.
        notes: the comments above it: text before the colon -> text after it.
    """

    place: str
    language: str
    text: str
    notes: Mapping[str, str]

    @property
    def is_played(self) -> bool:
        return NOT_PLAYED not in self.notes

    @property
    def needs_kubectl(self) -> bool:
        return self.language in COMMANDS and re.search(r"\bkubectl\b", self.text) is not None

    @property
    def needs_pytest(self) -> bool:
        return self.language in COMMANDS and re.search(r"^(?:\$ )?pytest ", self.text, re.MULTILINE) is not None

    @property
    def needs_go(self) -> bool:
        return self.language in COMMANDS and re.search(r"^(?:\$ )?go ", self.text, re.MULTILINE) is not None

    @property
    def needs_clone(self) -> bool:
        """It uses the checkout's own command, or the environment that this makes."""
        return self.language in COMMANDS and re.search(r"(?<!\S)\./dev |\.venv/", self.text) is not None

    def commands(self) -> Iterator[tuple[str, str]]:
        """Yield each command of a console block with what it prints."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            first, *lines = part.splitlines(keepends=True)
            more = [line for line in lines if line.startswith("> ")]
            yield first + "".join(line[2:] for line in more), "".join(lines[len(more) :])


def blocks(page: str, text: str | None = None) -> tuple[Block, ...]:
    """Return the blocks of a page in their order.

    Args:
        page: its path in the checkout.
        text: its content; by default the file's.
    """
    text = (ROOT / page).read_text() if text is None else text
    return tuple(
        Block(
            f"{page}:{text.count(chr(10), 0, found.start(2)) + 1}",
            found[2],
            found[3],
            {note[1]: note[2] or "" for note in _NOTE.finditer(found[1])},
        )
        for found in _FENCE.finditer(text)
    )


def the_block(page: str, start: str) -> str:
    """Return the text of the only block of a page that begins with ``start``."""
    (text,) = [block.text for block in blocks(page) if block.text.startswith(start)]
    return text


def copy_checkout(folder: Path) -> None:
    """Copy the checkout's own files into a folder, which is made."""
    for file in project_files(ROOT):
        place = folder / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)


def overlooked(page: str, text: str | None = None) -> list[str]:
    """Return the places of code that is not among the `blocks` of a page: indented, in a list, or without an end.

    Args:
        page: its path in the checkout.
        text: its content; by default the file's.
    """
    text = (ROOT / page).read_text() if text is None else text
    code = (token for token in MarkdownIt().parse(text) if token.type in ("fence", "code_block"))
    places = [f"{page}:{token.map[0] + 1}" for token in code if token.map]
    seen = {block.place for block in blocks(page, text)}
    return [place for place in places if place not in seen]


def complaints(played: tuple[Block, ...]) -> list[str]:
    """Say which blocks of a page are neither played nor have a reason."""
    found = []
    for number, block in enumerate(played):
        later = "".join(other.text for other in played[number + 1 :] if other.is_played)
        if unknown := block.notes.keys() - {NOT_PLAYED, FILE, KEEPS_RUNNING, AFTER_CTRL_C}:
            found.append(f"{block.place}: no such note: {', '.join(sorted(unknown))}")
        elif not block.is_played:
            if not block.notes[NOT_PLAYED]:
                found.append(f"{block.place}: why is it not played?")
        elif FILE in block.notes:
            if not _is_used(block.notes[FILE], later):
                found.append(f"{block.place}: no later block uses the file {block.notes[FILE]}")
        elif block.language not in PLAYED:
            found.append(f"{block.place}: '{block.language}' cannot be played: name its file, or say why not")
        elif is_output(block) and (not number or KEEPS_RUNNING not in played[number - 1].notes):
            found.append(f"{block.place}: which command prints this?")
        elif KEEPS_RUNNING in block.notes and not any(map(is_output, played[number + 1 : number + 2])):
            found.append(f"{block.place}: what does it print once it is at work?")
    return found


def _is_used(file: str, later: str) -> bool:
    """Say whether blocks name a file, or import it where it is a module."""
    module = file.removesuffix(".py")
    return file in later or (
        module != file and re.search(rf"^(?:from|import) {module}\b", later, re.MULTILINE) is not None
    )


def is_output(block: Block) -> bool:
    """Say whether a block is what the program prints that the block before has started."""
    return block.language == "console" and not any(block.commands())


def is_printed(shown: str, actual: str) -> bool:
    """Say whether a page shows what a command prints."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else rf"{'.*'.join(map(re.escape, _plain(line).split('…')))}\n"
        for line in shown.splitlines()
    )
    return re.fullmatch(pattern, "".join(f"{_plain(line)}\n" for line in actual.splitlines())) is not None


def _plain(line: str) -> str:
    return " ".join(re.sub(r"\b\d+\.\d+ s\b", "0.00 s", line).split())
