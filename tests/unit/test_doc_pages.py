"""The pages: each block of code is played or has a reason, each link leads somewhere; and how blocks are read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.doc_pages import PAGES, ROOT, blocks, complaints, is_printed, overlooked

STATUS = "story  verdict    time\nmine   PASSED   0.88 s\n"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_played_or_says_why_not(page: str) -> None:
    assert complaints(blocks(page)) == []
    assert overlooked(page) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", (ROOT / page).read_text())

    assert [link for link in links if not _leads_somewhere(folder, *link, own=ROOT / page)] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_to_other_sites_are_well_formed(page: str) -> None:
    links = re.findall(r"\]\((https?:[^)]*)\)", (ROOT / page).read_text())

    assert [link for link in links if not re.fullmatch(r"https://(?:[\w-]+\.)+[a-z]+(?:/[^\s<>()]*)?", link)] == []


def test_every_markdown_file_is_a_page() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/stories.md", "tests/oracle/README.md"} <= set(PAGES)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        pytest.param("```sh\ntrue\n```\n", [], id="block"),
        pytest.param("Run:\n\n    true\n", ["page.md:3"], id="indented"),
        pytest.param("- Run:\n\n  ```sh\n  true\n  ```\n", ["page.md:3"], id="in a list"),
        pytest.param("~~~sh\ntrue\n~~~\n", ["page.md:1"], id="tildes"),
        pytest.param("```sh\ntrue\n", ["page.md:1"], id="without an end"),
    ],
)
def test_code_in_another_form_is_found(text: str, places: list[str]) -> None:
    assert overlooked("page.md", text) == places


def _leads_somewhere(folder: Path, path: str, anchor: str, own: Path) -> bool:
    target = folder / path if path else own
    return target.exists() and (not anchor or anchor in _anchors(target.read_text()))


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("```sh\ntrue\n```\n", None, id="commands"),
        pytest.param("```python\nprint()\n```\n", None, id="program"),
        pytest.param("```console\n$ true\n```\n", None, id="commands with output"),
        pytest.param("```console\nup\n```\n", "page.md:1: which command prints this?", id="output of nothing"),
        pytest.param("<!-- keeps running -->\n```sh\nup\n```\n\n```console\nup\n```\n", None, id="output of the last"),
        pytest.param("<!-- keeps running -->\n```sh\nup\n```\n", "page.md:2: what does it print", id="no output"),
        pytest.param("```yaml\na: 1\n```\n", "page.md:1: 'yaml' cannot be played", id="text for no file"),
        pytest.param("```\ntrue\n```\n", "page.md:1: '' cannot be played", id="no language"),
        pytest.param("<!-- file: a.yaml -->\n```yaml\na: 1\n```\n\n```sh\ncat a.yaml\n```\n", None, id="used file"),
        pytest.param(
            "\n<!-- file: a.yaml -->\n```yaml\na: 1\n```\n", "page.md:3: no later block uses", id="unused file"
        ),
        pytest.param(
            "<!-- file: a.py -->\n```python\nb = 1\n```\n\n```python\nfrom a import b\n```\n", None, id="imported file"
        ),
        pytest.param("<!-- not played: needs a GPU -->\n```yaml\na: 1\n```\n", None, id="a reason"),
        pytest.param("<!-- not played -->\n```sh\ntrue\n```\n", "page.md:2: why is it not played?", id="no reason"),
        pytest.param("<!-- skipped: slow -->\n```sh\ntrue\n```\n", "page.md:2: no such note: skipped", id="other note"),
    ],
)
def test_block_without_player_and_reason_is_found(text: str, complaint: str | None) -> None:
    found = complaints(blocks("page.md", text))

    assert len(found) == (complaint is not None)
    assert complaint is None or found[0].startswith(complaint)


def test_notes_belong_to_the_block_right_below() -> None:
    page = "<!-- not played: no -->\n\n```sh\na\n```\n\n<!-- after Ctrl-C -->\n<!-- keeps running -->\n```sh\nb\n```\n"

    assert [dict(block.notes) for block in blocks("page.md", page)] == [{}, {"after Ctrl-C": "", "keeps running": ""}]


def test_console_block_has_commands_and_what_they_print() -> None:
    (block,) = blocks("page.md", "```console\n$ cat <<EOF\n> one\n> EOF\none\n$ true\n$ echo\n\n```\n")

    assert [*block.commands()] == [("cat <<EOF\none\nEOF\n", "one\n"), ("true\n", ""), ("echo\n", "\n")]


@pytest.mark.parametrize(
    ("shown", "actual", "is_same"),
    [
        pytest.param(STATUS, STATUS, True, id="same"),
        pytest.param(STATUS, STATUS.replace("   0.88", "  12.34"), True, id="other time and width"),
        pytest.param(STATUS, STATUS.replace("PASSED", "FAILED"), False, id="other word"),
        pytest.param(STATUS, STATUS + "more\n", False, id="line too many"),
        pytest.param(STATUS + "more\n", STATUS, False, id="line too few"),
        pytest.param("GPU-…)\n", "GPU-12)\n", True, id="any text"),
        pytest.param("one\n…\nfour\n", "one\ntwo\nthree\nfour\n", True, id="any lines"),
        pytest.param("one\n…\nfour\n", "one\ntwo\nthree\n", False, id="missing line"),
        pytest.param("", "", True, id="nothing"),
    ],
)
def test_output_is_compared_except_for_times_and_widths(shown: str, actual: str, is_same: bool) -> None:
    assert is_printed(shown, actual) == is_same


def test_program_of_the_page_about_plugins_is_as_short_as_promised() -> None:
    (program,) = [block for block in blocks("docs/write-a-plugin.md") if block.language == "python"]

    assert "in thirty lines" in (ROOT / "docs" / "write-a-plugin.md").read_text()
    assert len(program.text.splitlines()) <= 30
