"""Output that nobody reads, that cannot be written or shown: a command ends with one line at most, and its status.

Feeds in: names and logs with control characters, and standard streams that are closed, full, unread or ASCII.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.support.command_server import CLOSED, UNREAD
from tests.support.obeyed import WORKFLOW_COMMAND, is_harmless
from tests.support.patience import LIMIT_S, eventually
from tests.support.views import shared_line

NEED_A_MACHINE = ("fakegpu list", "fakegpu list -o json", "fakegpu fault list", "fakegpu cdi", "fakegpu smi -L")
COMMANDS = (
    "simkubelet --help",
    "simkubelet list",
    "simkubelet bugs",
    "simkubelet show kubelet-restart",
    "simkubelet check kubelet-restart",
    "simkubelet schema",
    "simkubelet doctor",
    "simkubelet completion bash",
    "simkubelet run gopher-pending",
    "simkubelet run gopher-pending --watch",
    "simkubelet replay t.jsonl",
    "simkubelet conform --list",
    "simkubelet campaign --stories 1 -n 1",
    "simkubelet plugin nvidia --manifest",
    "fakegpu --help",
    "fakegpu profiles",
    "fakegpu profiles t4",
    "fakegpu amd profiles",
    *NEED_A_MACHINE,
)
FULL = "/dev/full"
TITLE = "\x1b]0;title\x07 caf\u00e9 \u202e \udc80\n::error::x ##[error]x"
ENTRY = {"story": "odd", "seq": 0, "time_s": 0.0, "real_s": 0.0, "kind": "step-started", "step": 0, "title": TITLE}


@pytest.fixture
def ready(run: Any, command: str) -> Any:
    """A run with what a command needs: a trace, or a fake machine."""
    (run.scratch / "t.jsonl").write_text(json.dumps(ENTRY) + "\n")
    if command in NEED_A_MACHINE:
        assert run("fakegpu up --profile t4 -n 1").returncode == 0
    return run


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("output", "status", "complaint"),
    [
        pytest.param(FULL, 3, "error: output: No space left on device\n", id="full"),
        pytest.param(UNREAD, 141, "", id="unread"),
        pytest.param(CLOSED, 0, "", id="closed"),
    ],
)
def test_output_that_is_lost_gives_its_status(
    ready: Any, command: str, output: str, status: int, complaint: str
) -> None:
    done = ready(command, (output, ""))

    assert (done.returncode, done.stderr) == (status, complaint)
    assert ready.leftovers() == []


@pytest.mark.parametrize(
    ("output", "status"), [pytest.param(FULL, 3, id="full"), pytest.param(UNREAD, 141, id="unread")]
)
def test_plugin_whose_answers_are_lost_ends(run: Any, output: str, status: int) -> None:
    assert run("simkubelet plugin stub --kubelet-dir .", (output, "")).returncode == status
    assert list(run.scratch.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_characters_that_an_encoding_lacks_are_escapes(ready: Any, command: str) -> None:
    done = ready(command, PYTHONIOENCODING="ascii")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


@pytest.mark.parametrize("errors", [FULL, UNREAD, CLOSED])
@pytest.mark.parametrize("command", ["simkubelet show nope", "fakegpu list --dir nope", "simkubelet plugin nope"])
def test_lost_error_line_leaves_the_status(run: Any, command: str, errors: str) -> None:
    assert run(command, ("", errors)).returncode == 2


@pytest.mark.parametrize("command", ["simkubelet list", "simkubelet run gopher-pending", "fakegpu profiles"])
def test_streams_that_are_closed_at_the_start_lead_nowhere(run: Any, command: str) -> None:
    argv = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *run.argv(command)]

    done = subprocess.run(argv, cwd=run.scratch, env=run.environment(), check=False, timeout=LIMIT_S)

    assert done.returncode == 0
    assert run.leftovers() == []


@pytest.mark.parametrize("options", ["--junit report.xml", "-q", "--watch"])
def test_run_ends_when_its_reader_does(run: Any, options: str) -> None:
    process = run.start(f"simkubelet run --all {options}")
    eventually(lambda: bool(list(run.scratch.glob("sk-*"))))

    process.stdout.close()

    assert process.wait(LIMIT_S) == 128 + signal.SIGPIPE
    assert process.stderr.read() == shared_line()
    assert run.leftovers() == []
    if "--junit" in options:
        assert 'type="NOT PLAYED"' in (run.scratch / "report.xml").read_text()
    process.stderr.close()


def test_printed_text_of_strangers_is_escaped(run: Any) -> None:
    program = run.scratch / "plug\x1bin"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.buffer.write({TITLE.encode(errors='replace')!r})\n")
    program.chmod(0o755)
    odd = json.dumps(TITLE.encode(errors="replace").decode())
    folder = run.scratch / "o\x9b\nd"
    folder.mkdir()
    (folder / "odd.yaml").write_text(
        f"name: odd\ndescription: {odd}\nplugins: [{{name: mine, command: [{json.dumps(str(program))}]}}]\n"
        f"steps: [{{name: {odd}, expect: {{node: node-1, capacity: {{example.com/gpu: 1}}, within: 500ms}}}}]\n"
    )
    (run.scratch / "t.jsonl").write_text(json.dumps(ENTRY) + "\n")

    for command in ("run FILE --junit j.xml --report page", "run FILE --watch", "replay t.jsonl", "check FILE"):
        done = run(f"simkubelet {command}".replace("FILE", shlex.quote(f"{folder.name}/odd.yaml")))

        assert is_harmless(done.stdout + done.stderr), command
        assert not WORKFLOW_COMMAND.search(done.stdout + done.stderr), command
    assert is_harmless((run.scratch / "page" / "index.html").read_text())
    assert is_harmless((run.scratch / "j.xml").read_text())


@pytest.mark.parametrize("command", ["show 'a\n\x1b[2J'", "run --plugin 'a\nb=c'", "list --tag '\u202e\n'", "'a\nb'"])
@pytest.mark.parametrize("program", ["simkubelet", "fakegpu"])
def test_error_is_one_line_whatever_it_quotes(run: Any, program: str, command: str) -> None:
    done = run(f"{program} {command}")

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert is_harmless(done.stderr)


def test_matrix_of_nvidia_smi_keeps_its_style(run: Any) -> None:
    assert run("fakegpu up --profile t4 -n 1").returncode == 0

    assert run("fakegpu smi topo -m").stdout.startswith("\t\x1b[4mGPU0\tCPU Affinity")
