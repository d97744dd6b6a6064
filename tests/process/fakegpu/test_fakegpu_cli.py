"""The command ``fakegpu``; each wrong input is one line on stderr."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fakegpu import Machine
from fakegpu.state.library import load_writer
from tests.support.machines import run

_LOADED = """
import sys
from fakegpu.cli.main import main
status = main(sys.argv[1:])
print(status, *sorted({name.partition(".")[0] for name in sys.modules} & {"pydantic", "yaml", "rich", "tempfile"}))
print("importlib.metadata" in sys.modules)
"""


@pytest.mark.parametrize(
    "command",
    [["fail", "1", "--xid", "79"], ["heal", "1"], ["set", "1", "temperature=50"], ["fault", "waits", "stick"]],
)
def test_change_of_a_figure_loads_no_more_than_it_needs(machine: Machine, command: list[str]) -> None:
    program = [sys.executable, "-c", _LOADED, *command, "--dir", str(machine.directory)]

    assert subprocess.check_output(program, text=True) == "0\nFalse\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["up", "--profile", "h300", "--dir", "new"], "no GPU profile 'h300'; there are a100-40gb", id="profile"
        ),
        pytest.param(["up", "--profile", "./no.yaml", "--dir", "new"], "no.yaml: No such file", id="profile file"),
        pytest.param(["up", "--gpu", "l4", "--dir", "new"], "--gpu l4: write MODEL=N", id="mix without number"),
        pytest.param(["up", "--gpu", "l4=1", "-n", "2", "--dir", "new"], "leave --profile and --count", id="mix twice"),
        pytest.param(["up", "--gpu", "l9=1", "--dir", "new"], "no GPU profile 'l9'", id="mix unknown"),
        pytest.param(["profiles", "l9"], "no GPU profile 'l9'", id="profiles unknown"),
        pytest.param(["cdi", "--kind", "gpu", "--dir", "node"], "write VENDOR/CLASS", id="cdi kind"),
        pytest.param(["cdi", "--dir", "node", "-o", "no/where.json"], "no/where.json: No such file", id="cdi nowhere"),
        pytest.param(["record", "--interval", "0"], "--interval must be above 0", id="record interval"),
        pytest.param(["amd", "up", "--profile", "mi1", "--dir", "new"], "no AMD profile 'mi1'", id="amd unknown"),
        pytest.param(["amd", "list", "--dir", "new"], "no AMD GPUs in", id="amd list without up"),
        pytest.param(["iluvatar", "-n", "0", "--dir", "new"], "1 to 64", id="no chips"),
        pytest.param(["files", "../x", "--dir", "new"], "is no file below", id="file outside"),
        pytest.param(["up", "-n", "0", "--dir", "new"], "cannot make 0 GPUs: a machine has 1 to 1024", id="no GPUs"),
        pytest.param(["up", "-n", "many", "--dir", "new"], "'many' is not a valid integer", id="count no number"),
        pytest.param(["up", "--dir", "node"], "already is a fake machine: `fakegpu down", id="up twice"),
        pytest.param(["down", "--dir", "new"], "no fake machine in", id="down without up"),
        pytest.param(["list", "--dir", "new"], "`fakegpu up --dir", id="list without up"),
        pytest.param(["exec", "--dir", "node"], "no command to run", id="exec nothing"),
        pytest.param(
            ["exec", "--dir", "node", "--", "no-such-program"], "no command 'no-such-program'", id="exec unknown"
        ),
        pytest.param(["exec", "--dir", "node", "--", "."], "cannot run '.'", id="exec a folder"),
        pytest.param(["exec", "--dir", "new", "--", "true"], "no fake machine in", id="exec without machine"),
        pytest.param(["fail", "3", "--dir", "node"], "give --xid N, --lost, or another of", id="fail how"),
        pytest.param(["fail", "9", "--xid", "79", "--dir", "node"], "no GPU 9 in", id="fail whom"),
        pytest.param(
            ["fail", "GPU-x", "--lost", "--dir", "node"], "give an index, 0 to 3, or a UUID", id="fail who is it"
        ),
        pytest.param(["fail", "1", "--xid", "x", "--dir", "node"], "'x' is not a valid integer", id="xid no number"),
        pytest.param(["fail", "1", "--xid", "0", "--dir", "node"], "0 is not in the range", id="xid zero"),
        pytest.param(["fail", "1", "--xid", str(1 << 40), "--dir", "node"], "no XID", id="xid too large"),
        pytest.param(["heal", "4", "--dir", "node"], "it has 4, 0 to 3", id="heal whom"),
        pytest.param(["heal", "--dir", "node"], "heal which? Give a GPU, or --all", id="heal nobody"),
        pytest.param(["set", "1", "colour=3", "--dir", "node"], "no setting 'colour'; there are", id="unknown key"),
        pytest.param(["set", "1", "temperature=hot", "--dir", "node"], "not a whole number", id="value no number"),
        pytest.param(
            ["set", "1", "temperature=900", "--dir", "node"], "out of range, 0 to 200", id="value out of range"
        ),
        pytest.param(["set", "1", "temperature", "--dir", "node"], "is not KEY=VALUE", id="no value"),
        pytest.param(
            ["exec", "--gpu", "0", "--memory", "lots", "--dir", "node", "true"],
            "--memory lots: write a number of bytes, or one with KiB, MiB or GiB, such as 20GiB",
            id="memory that is not a number",
        ),
        pytest.param(
            ["set", "1", "memory_used=900GiB", "--dir", "node"], "bytes for allocations", id="too much memory"
        ),
        pytest.param(["set", "1", "--dir", "node"], "Missing argument 'KEY=VALUE...'", id="set nothing"),
        pytest.param(["set", "7", "temperature=50", "--dir", "node"], "no GPU 7 in", id="set whom"),
        pytest.param(["set", "9" * 5000, "temperature=50", "--dir", "node"], "no GPU '999", id="endless index"),
        pytest.param(["set", "1", f"energy={'9' * 5000}", "--dir", "node"], "not a whole number", id="endless value"),
        pytest.param(["fail", "1", "--hot", "--after", "9" * 5000, "--dir", "node"], "than a year", id="endless wait"),
        pytest.param(["fault", "error", "nvmlInit", "9" * 5000, "--dir", "node"], "no NVML error", id="endless code"),
        pytest.param(["up", "--gpu", f"l4={'9' * 5000}", "--dir", "new"], "write MODEL=N", id="endless number"),
        pytest.param(["cdi", "--dir", "node", "-o", "node"], "Is a directory; choose another", id="cdi over a folder"),
        pytest.param(["mig", "create", "0", "9g.1gb", "--dir", "node"], "no MIG profile", id="mig profile"),
        pytest.param(["launch"], "No such command 'launch' (see `fakegpu --help`)", id="unknown command"),
        pytest.param(["list", "--loud"], "No such option", id="unknown option"),
    ],
)
def test_wrong_input_is_one_line_and_exit_status_2(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(machine.directory.parent)

    status, out, err = run(capsys, *arguments)

    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not Path("new").exists()


def test_library_of_another_version_is_exit_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other, text = tmp_path / "other.so", tmp_path / "text.so"
    subprocess.run(["cc", "-shared", "-o", other, "-x", "c", "/dev/null"], check=True)  # noqa: S607
    text.write_text("no library")
    for library, message in ((other, "is of another version than this fakegpu"), (text, "cannot be loaded")):
        monkeypatch.setenv("FAKEGPU_LIBRARY", str(library))
        load_writer.cache_clear()

        status, _, err = run(capsys, "up", "--dir", tmp_path / "node")

        assert status == 3
        assert message in err
        assert err.count("\n") == 1
        assert not (tmp_path / "node").exists()
    load_writer.cache_clear()


@pytest.mark.slow
def test_exec_passes_environment_arguments_and_exit_status(machine: Machine) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fakegpu", "exec", "--dir", machine.directory, "--"),
            *("sh", "-c", 'echo "$FAKEGPU_SEGMENT $1"; exit 7', "sh", "--json"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (7, f"{machine.directory}/segment --json\n")
