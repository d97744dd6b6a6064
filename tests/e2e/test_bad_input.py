"""What a user can get wrong: one clear line each, the exit status of CONTRIBUTING, nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from simkubelet.apis.inotify import Mask, PathWatch
from tests.support.patience import LIMIT_S, eventually

STORY = """\
name: mine
description: One node, one plugin.
plugins:
  - name: mine
    command: {command}
steps:
  - expect:
      node: node-1
      capacity: {{example.com/mine: 1}}
      within: {within}
"""


@pytest.fixture
def story(run: Any) -> Any:
    """Writes a story with a foreign plugin into the folder of the run."""

    def write(command: str, within: str = "1s") -> None:
        (run.scratch / "mine.yaml").write_text(STORY.format(command=command, within=within))

    return write


def assert_one_line(done: subprocess.CompletedProcess[str], status: int, *parts: str) -> None:
    assert done.returncode == status, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    for part in parts:
        assert part in line


def assert_failed(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert (done.returncode, done.stderr) == (1, "")
    assert "Traceback" not in done.stdout
    for part in ("FAILED", *parts):
        assert part in done.stdout


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        pytest.param("fakegpu up --profile nope --dir d", ["nope", "h100-80gb"], id="profile"),
        pytest.param("simkubelet run nope", ["no story 'nope'", "simkubelet list"], id="story"),
        pytest.param("simkubelet run kubelet-restrat", ["did you mean 'kubelet-restart'?"], id="misspelt-story"),
        pytest.param("simkubelet show nope", ["no story 'nope'", "simkubelet list"], id="story-to-show"),
        pytest.param("simkubelet check nope", ["no story 'nope'", "simkubelet list"], id="story-to-check"),
        pytest.param("simkubelet run .", ["no story in folder '.'", ".yaml"], id="folder-of-stories"),
        pytest.param("simkubelet run --plugin nvidia=/no/x", ["no program '/no/x'", "no file"], id="program"),
        pytest.param("simkubelet run --plugin other=/bin/true", ["no plugin 'other'", "gopher"], id="plugin-name"),
        pytest.param("simkubelet run gopher-pending --dir /dev/null/x", ["/dev/null/x", "--dir"], id="folder"),
    ],
)
def test_wrong_name_error_names_known_ones(run: Any, command: str, parts: list[str]) -> None:
    assert_one_line(run(command), 2, *parts)
    assert list(run.scratch.iterdir()) == []


@pytest.mark.parametrize("version", ["1.25", "1.99", "abc", "v1.34", "1.34.x", "1.34.", "1", "''"])
def test_wrong_version_error_names_supported_ones(run: Any, version: str) -> None:
    done = run(f"simkubelet run gopher-pending --kubelet-version {version}")

    assert_one_line(done, 2, "--kubelet-version", f"'{version}'" if version != "''" else version, "1.26 to 1.37")
    assert list(run.scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        pytest.param("simkubelet frobnicate", ["No such command 'frobnicate'"], id="command"),
        pytest.param("simkubelet run --nope", ["No such option '--nope'", "simkubelet run --help"], id="option"),
        pytest.param("simkubelet run --all gopher-pending", ["--all", "leave it out"], id="all-and-a-name"),
        pytest.param("simkubelet run -n 0", ["'-n'", "1<=x<=64"], id="too-few"),
        pytest.param("simkubelet run -n many", ["'-n'", "'many'"], id="no-number"),
        pytest.param("simkubelet run --backend mars", ["--backend", "'mars'", "sim"], id="backend"),
        pytest.param("simkubelet run --plugin mine", ["'mine' is not of the form NAME=COMMAND"], id="no-command"),
        pytest.param("simkubelet run --plugin 'mine=\"'", ["No closing quotation"], id="open-quotation"),
        pytest.param("simkubelet run --junit /dev/null/x.xml", ["--junit", "/dev/null"], id="junit"),
        pytest.param("simkubelet run --trace /", ["--trace", "is a directory"], id="trace"),
        pytest.param("simkubelet show", ["Missing argument 'STORY'", "simkubelet show --help"], id="nothing-to-show"),
        pytest.param("simkubelet check", ["Missing argument 'FILE...'"], id="nothing-to-check"),
        pytest.param("simkubelet list more", ["unexpected extra argument (more)"], id="more-than-a-list"),
        pytest.param("simkubelet schema more", ["unexpected extra argument (more)"], id="more-than-a-schema"),
        pytest.param("simkubelet plugin nope", ["'nope'"], id="plugin"),
        pytest.param("simkubelet plugin stub --device x,y=z", ["--device", "'y=z'"], id="device-of-the-stub"),
        pytest.param("simkubelet plugin stub --kubelet-dir /nope", ["--kubelet-dir", "/nope"], id="kubelets-folder"),
    ],
)
def test_wrong_use_of_a_command_is_one_line(run: Any, command: str, parts: list[str]) -> None:
    assert_one_line(run(command), 2, *parts)
    assert list(run.scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param("name: mine\ndescription: x\nstps: []\n", ["mine.yaml:3:1", "stps", "steps"], id="unknown-key"),
        pytest.param(
            "name: mine\ndescription: x\nsteps:\n  - advance: soon\n", ["mine.yaml:4:14", "soon"], id="wrong-type"
        ),
        pytest.param("name: [mine\n", ["mine.yaml:2:1"], id="syntax"),
        pytest.param("", ["mine.yaml:1:1", "the file is empty"], id="empty"),
        pytest.param("- a\n", ["mine.yaml:1:1", "expected a mapping"], id="list"),
        pytest.param("name: mine\ndescription: x\n", ["mine.yaml:1:1", "missing key 'steps'"], id="no-steps"),
        pytest.param(
            "name: mine\ndescription: x\nversions: ['1.25']\nsteps:\n  - advance: 1s\n",
            ["mine.yaml:3:12", "'1.25'", "1.26 to 1.37"],
            id="version",
        ),
        pytest.param(
            "name: mine\ndescription: x\nsteps:\n  - kubernetes: 1.37\n    advance: 1s\n",
            ["mine.yaml:4:17", "expected text; found 1.37"],
            id="condition",
        ),
        pytest.param(
            "name: mine\ndescription: x\nsteps:\n  - restartKublet: {}\n",
            ["mine.yaml:4:5", "restartKublet", "did you mean 'restartKubelet'?"],
            id="unknown-verb",
        ),
        pytest.param(
            "name: mine\ndescription: x\nsteps:\n  - restartKubelet: now\n",
            ["mine.yaml:4:21", "expected a mapping", "now"],
            id="argument-of-a-verb",
        ),
        pytest.param(
            "name: mine\ndescription: x\nsteps:\n  - changeCheckpoint: {to: gone}\n",
            ["mine.yaml:4:28", "'removed'", '"gone"'],
            id="state-of-a-checkpoint",
        ),
        pytest.param(
            "name: mine\ndescription: x\nsteps:\n  - pausePlugin: {plugin: nope}\n",
            ["mine.yaml:4:27", "no plugin 'nope'"],
            id="plugin-of-a-verb",
        ),
        pytest.param(
            "name: mine\ndescription: x\nnodes:\n  - name: n\n    gpus: {profile: nope, count: 8}\n"
            "steps:\n  - advance: 1s\n",
            ["mine.yaml:5:21", "nope", "h100-80gb"],
            id="profile",
        ),
    ],
)
@pytest.mark.parametrize("verb", ["check", "run"])
def test_wrong_story_error_names_its_place(run: Any, verb: str, text: str, parts: list[str]) -> None:
    (run.scratch / "mine.yaml").write_text(text)

    done = run(f"simkubelet {verb} mine.yaml")

    assert done.returncode == 2
    told = [line for line in (done.stdout + done.stderr).splitlines() if "mine.yaml" in line]
    for part in parts:
        assert part in told[0]
    assert "Traceback" not in done.stderr


def test_plugin_that_exits_early_fails_its_story(run: Any, story: Any) -> None:
    story('[sh, -c, "echo no devices today >&2; exit 3"]', within="1h")

    done = run("simkubelet run mine.yaml")

    assert_failed(done, "ended with status 3 before it registered", "no devices today")
    assert "  repeat it: simkubelet run mine.yaml\n" in done.stdout
    assert_only_the_log_is_left(run, done, "no devices today\n")


def test_impossible_steps_are_errors_of_their_stories(run: Any) -> None:
    stub = "plugins: [{name: stub, builtin: stub, serves: {resource: example.com/gpu, devices: [gpu-0]}}]"
    steps = {
        "twice": "{startPlugin: {plugin: stub}}",
        "no-file": "{removeFile: {path: /dev/seat}}",
        "fine": "{advance: 1s}",
    }
    for name, step in steps.items():
        (run.scratch / f"{name}.yaml").write_text(f"name: {name}\ndescription: x\n{stub}\nsteps: [{step}]\n")

    done = run("simkubelet run twice.yaml no-file.yaml fine.yaml --junit report.xml")

    assert (done.returncode, done.stderr) == (2, "")
    for part in ("twice.yaml:4: ERROR", "plugin 'stub' runs already; stop it first", "node-1:/dev/seat: cannot be"):
        assert part in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 passed, 2 error in ")
    assert (run.scratch / "report.xml").read_text().count("<error ") == 2
    assert run.processes() == []


def assert_only_the_log_is_left(run: Any, done: subprocess.CompletedProcess[str], content: str) -> None:
    ends = " ends with:"
    (log,) = [Path(line.removesuffix(ends).strip()) for line in done.stdout.splitlines() if line.endswith(ends)]
    assert log.read_text() == content
    left = {path for path in run.scratch.glob("sk-*/**/*") if not path.is_dir()}
    (mark,) = run.scratch.glob("sk-*/.simkubelet")
    assert left == {mark, log}
    assert [line for line in run.processes() if "/sk-" in line] == []


def test_story_fails_when_plugin_never_registers(run: Any, story: Any) -> None:
    story("[sleep, infinity]", within="500ms")

    done = run("simkubelet run mine.yaml")

    assert_failed(done, "absent", "plugin 'mine' runs but has not registered")
    assert run.leftovers() == []


def test_socket_path_over_107_bytes_is_refused(run: Any) -> None:
    deep = run.scratch / ("x" * 90)
    deep.mkdir()

    assert_one_line(run(f"simkubelet run gopher-pending --dir {deep}"), 2, "107 bytes", "shorter path")
    assert list(deep.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root to mount read-only")
def test_unwritable_folder_is_refused_even_for_root(run: Any) -> None:
    place = run.scratch / "read-only"
    place.mkdir()
    script = f'mount -t tmpfs -o ro tmpfs {place} && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", *run.argv(f"simkubelet run gopher-pending --dir {place}")]

    done = subprocess.run(argv, env=run.environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.stderr.startswith("unshare: "):
        pytest.skip(f"no namespace of mounts can be had here: {done.stderr}")

    assert_one_line(done, 2, str(place), "Read-only file system", "--dir")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_write_permission_is_refused(run: Any) -> None:
    place = run.scratch / "closed"
    place.mkdir(mode=0o500)

    assert_one_line(run(f"simkubelet run gopher-pending --dir {place}"), 2, str(place), "Permission denied")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["simkubelet list", "simkubelet --help", "fakegpu profiles"])
def test_output_that_cannot_be_written_is_one_line(run: Any, command: str, unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            run.argv(command),
            env={**run.environment(), "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    assert (done.returncode, done.stderr) == (3, "error: output: No space left on device\n")


@pytest.mark.parametrize("parallel", ["", "-n 2"])
def test_interrupted_run_ends_everything(run: Any, story: Any, parallel: str) -> None:
    story('[sh, -c, "touch /tmp/started; exec sleep infinity"]', within="1h")
    process = run.start(f"simkubelet run mine.yaml gopher-pending {parallel} --junit report.xml --trace trace.jsonl")
    eventually(lambda: has_started_plugin(run))

    os.killpg(process.pid, signal.SIGINT)
    told, said = process.communicate(timeout=LIMIT_S)

    assert process.returncode == 130
    assert "INTERRUPTED mine " in told
    assert (run.scratch / "report.xml").read_text().count("<testcase ") == 2
    assert '"plugin-started", "plugin": "mine"' in (run.scratch / "trace.jsonl").read_text()
    assert said == "interrupted; everything was ended\n"
    assert run.leftovers() == []
    assert run.processes() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interruption_during_start_is_one_line(run: Any, number: signal.Signals) -> None:
    marker = run.scratch / "started"
    # A slow disk, as far as the program can tell; not pause(), which misses a signal that comes just before it.
    (run.scratch / "click.py").write_text(
        f"import pathlib, time\npathlib.Path({str(marker)!r}).touch()\nwhile True:\n    time.sleep(0.01)\n"
    )
    process = run.start("simkubelet run gopher-pending", PYTHONPATH=str(run.scratch))
    wait_for(marker, process)

    os.killpg(process.pid, number)
    told, said = process.communicate(timeout=LIMIT_S)

    assert (process.returncode, told, said) == (128 + number, "", "interrupted; everything was ended\n")


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv to tie a plugin to its run")
def test_no_plugin_outlives_a_run_that_is_killed(run: Any, story: Any) -> None:
    story("[sleep, infinity]", within="1h")
    process = run.start("simkubelet run mine.yaml")
    eventually(lambda: "sleep infinity " in run.processes())
    plugins = [os.pidfd_open(pid) for pid in run.process_ids() if pid != process.pid]

    process.kill()
    process.communicate(timeout=LIMIT_S)

    assert len(plugins) == 1
    # A process' descriptor becomes readable when it has ended.
    assert select.select(plugins, [], [], LIMIT_S)[0] == plugins
    os.close(plugins[0])


def has_started_plugin(run: Any) -> bool:
    """Whether the plugin has written into the ``/tmp`` that it sees, which is its node's."""
    with contextlib.suppress(FileNotFoundError):  # of the other story's folder, removed while it is searched
        return any(run.scratch.glob("sk-*/*/root/tmp/started"))
    return False


def wait_for(marker: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a file is made in a folder, notified by the kernel."""

    async def is_made() -> None:
        with PathWatch() as watch:
            watch.add(marker.parent, Mask.CREATE)
            async with asyncio.timeout(LIMIT_S):
                while not marker.exists():  # noqa: ASYNC240 - one call of the system
                    assert process.poll() is None
                    await anext(watch)

    asyncio.run(is_made())
