"""The pages: each block of code is played or has a reason, each link leads somewhere; and how blocks are read."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.doc_pages import blocks
from tests.support.page_reader import page_reader

UNTIL_CTRL_C = "<!-- keeps running -->\n```sh\ntrap 'echo no; exit 2' INT\necho up\nsleep 60\n```\n\n"


def read(folder: Path, page: str) -> None:
    environment = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(folder)}
    # A system's own Python may be named python3 alone.
    with page_reader(folder, environment, [Path(sys.executable).parent]) as reader:
        reader.read(blocks("page.md", page), but=lambda block: False)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("```sh\nexport A=1\n```\n\n```console\n$ echo $A\n1\n```\n", id="variables stay"),
        pytest.param("```sh\nmkdir a && cd a\n```\n\n```sh\nrmdir ../a\n```\n", id="folder stays"),
        pytest.param("<!-- file: a -->\n```yaml\nb\n```\n\n```console\n$ cat a\nb\n```\n", id="file"),
        pytest.param("```console\n$ echo $XDG_RUNTIME_DIR >&2\n/run/user/1000\n```\n", id="reader's folder"),
        pytest.param("<!-- not played: no -->\n```sh\nfalse\n```\n", id="not played"),
    ],
)
def test_reader_plays_a_page(tmp_path: Path, page: str) -> None:
    read(tmp_path, page)


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        pytest.param("```sh\nfalse\ntrue\n```\n", "page.md:1: status 1", id="command fails"),
        pytest.param("```sh\nfalse | true\n```\n", "page.md:1: status 1", id="command of a pipe fails"),
        pytest.param("```console\n$ echo a\nb\n```\n", "page.md:1: echo a\nprints\na", id="other output"),
        pytest.param("```python\n1 / 0\n```\n", "page.md:1: status 1", id="program fails"),
        pytest.param(f"{UNTIL_CTRL_C}```console\ndown\n```\n", "page.md:8: is really\nup", id="other output at work"),
        pytest.param(f"{UNTIL_CTRL_C}```console\nup\n```\n", "page.md:2: 2\nno", id="status after Ctrl-C"),
    ],
)
def test_reader_finds_what_is_not_so(tmp_path: Path, page: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        read(tmp_path, page)


def test_reader_ends_what_keeps_running_by_ctrl_c(tmp_path: Path) -> None:
    # Not a trap of the shell: a SIGINT between its fork and its exec is lost, the child goes on and the shell waits.
    page = """<!-- keeps running -->
```sh
exec python3 -c '
import pathlib, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("up", flush=True)
signal.sigwait({signal.SIGINT})
pathlib.Path("said").write_text("bye\\n")
'
```

```console
up
```

<!-- after Ctrl-C -->
```console
$ cat said
bye
```
"""
    read(tmp_path, page)
