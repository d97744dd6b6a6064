"""Which line of a program's log says why it ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.backends.world.logs import exit_message, last_lines

REGISTERS = "rax    0x0\nrip    0x48b760\ncs     0x33\nfs     0x0\ngs     0x0\n"
NIL = """panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48b677]

"""
IN_C = """SIGSEGV: segmentation violation
PC=0x48b760 m=0 sigcode=1 addr=0x0
signal arrived during cgo execution

"""
IN_C_UNEXPECTED = """fatal error: unexpected signal during runtime execution
[signal SIGSEGV: segmentation violation code=0x2 addr=0x0 pc=0x48b677]

"""
KLOG = "F1123 04:05:06.789123       1 main.go:42] cannot start: no devices\n"
ZAP = """2026-11-23T04:05:06.789Z\tFATAL\tsetup\tcannot start\t{"error": "no devices"}
main.main
\t/src/main.go:42
runtime.main
\t/usr/local/go/src/runtime/proc.go:283
"""
RUST = """thread 'main' (4711) panicked at src/main.rs:4:5:
called `Result::unwrap()` on an `Err` value: "no devices"
stack backtrace:
   0: rust_begin_unwind
note: run with `RUST_BACKTRACE=full` for a verbose backtrace.
"""
OLD_RUST = """thread 'main' panicked at 'no devices', src/main.rs:4:5
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
CPP = """terminate called after throwing an instance of 'std::runtime_error'
  what():  no devices
Aborted (core dumped)
"""
PYTHON = """Traceback (most recent call last):
  File "/plugin.py", line 3, in <module>
    start()
FileNotFoundError: no devices
"""
GRPC = """Traceback (most recent call last):
  File "/plugin.py", line 36, in <module>
    register(request)
grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:
\tstatus = StatusCode.UNKNOWN
\tdetails = "no such version"
\tdebug_error_string = "UNKNOWN:Error received from peer {grpc_message:"no such version", grpc_status:2}"
>
"""
WATCH = """registered
ERROR:grpc._server:Exception iterating responses: Protocol message Device has no "id" field.
Traceback (most recent call last):
  File "/grpc/_server.py", line 589, in _take_response_from_response_iterator
    return next(response_iterator), True
ValueError: Protocol message Device has no "id" field.
good-bye
"""
NVIDIA = """I1130 06:50:21.471617       1 main.go:235] "Starting NVIDIA Device Plugin" version="v0.19.0" error=""
E1130 06:50:21.471617       1 factory.go:116] Incompatible strategy detected auto
E1130 06:50:21.471617       1 factory.go:117] If this is a GPU node, did you configure the NVIDIA Container Toolkit?
I1130 06:50:21.471617       1 main.go:375] No devices found. Waiting indefinitely.
"""
STUB = """{"ready": true}
{"registered": "example.com/gpu", "endpoint": "stub.sock", "error": ""}
{"called": "Allocate", "devices": ["gpu-0"]}
"""
NODE = """Error: no devices
    at Object.<anonymous> (/plugin.js:3:7)
    at node:internal/main/run_main_module:33:47

Node.js v22.1.0
"""


def goroutines(count: int) -> str:
    """Stacks as Go's runtime writes them."""
    return "".join(
        f"goroutine {number} [sleep]:\ntime.Sleep(0x34630b8a000)\n\t/usr/local/go/src/runtime/time.go:363 +0x165\n"
        f"main.main.func1()\n\t/src/main.go:17 +0x1d\ncreated by main.main in goroutine 1\n\t/src/main.go:17 +0x27\n\n"
        for number in range(1, count + 1)
    )


def words(tmp_path: Path, text: str) -> str:
    log = tmp_path / "log"
    log.write_text(text)
    return exit_message(log)


@pytest.mark.parametrize("count", [1, 300, 20_000], ids=["one-goroutine", "300-goroutines", "20000-goroutines"])
@pytest.mark.parametrize(
    ("crash", "cause"),
    [
        pytest.param(NIL, "panic: runtime error: invalid memory address or nil pointer dereference", id="panic"),
        pytest.param("panic: one\n\tpanic: two\n\n", "panic: one", id="panic-twice"),
        pytest.param(IN_C, "SIGSEGV: segmentation violation", id="in-c"),
        pytest.param(IN_C_UNEXPECTED, "fatal error: unexpected signal during runtime execution", id="fatal-error"),
        pytest.param(KLOG, KLOG.strip(), id="klog"),
    ],
)
def test_crash_of_a_go_program_is_its_cause(tmp_path: Path, crash: str, cause: str, count: int) -> None:
    before = "I1123 04:05:06.000000       1 main.go:7] starting\n"

    assert words(tmp_path, before + crash + goroutines(count) + REGISTERS) == cause


@pytest.mark.parametrize(
    ("crash", "cause"),
    [
        pytest.param(ZAP, ZAP.partition("\n")[0], id="zap"),
        pytest.param(
            RUST,
            "thread 'main' (4711) panicked at src/main.rs:4:5: "
            'called `Result::unwrap()` on an `Err` value: "no devices"',
            id="rust",
        ),
        pytest.param(OLD_RUST, "thread 'main' panicked at 'no devices', src/main.rs:4:5", id="old-rust"),
        pytest.param(
            CPP,
            "terminate called after throwing an instance of 'std::runtime_error' what():  no devices",
            id="c++",
        ),
        pytest.param(PYTHON, "FileNotFoundError: no devices", id="python"),
        pytest.param(
            GRPC, "grpc._channel._InactiveRpcError: <_InactiveRpcError StatusCode.UNKNOWN: no such version", id="grpcio"
        ),
        pytest.param(
            WATCH,
            'ERROR:grpc._server:Exception iterating responses: Protocol message Device has no "id" field. … good-bye',
            id="grpcio-server",
        ),
        pytest.param(
            f"error: no version\n{PYTHON}",
            "error: no version … FileNotFoundError: no devices",
            id="error-and-exception",
        ),
        pytest.param(
            NVIDIA,
            "E1130 06:50:21.471617       1 factory.go:116] Incompatible strategy detected auto … "
            "I1130 06:50:21.471617       1 main.go:375] No devices found. Waiting indefinitely.",
            id="nvidia",
        ),
        pytest.param(STUB, STUB.splitlines()[-1], id="no-error"),
        pytest.param(
            'level=info msg="up"\nlevel=fatal msg="no driver"\nbye\n', 'level=fatal msg="no driver" … bye', id="logrus"
        ),
        pytest.param(NODE, "Error: no devices", id="node.js"),
        pytest.param("Segmentation fault (core dumped)\nexit status 139\n", "Segmentation fault (core dumped)", id="c"),
        pytest.param("  loading\n\nno devices\n\n", "no devices", id="last-line"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_cause_is_found_in_what_other_programs_write(tmp_path: Path, crash: str, cause: str) -> None:
    assert words(tmp_path, crash) == cause


def test_go_program_whose_panic_is_lost_has_its_signal(tmp_path: Path) -> None:
    signal = "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48b677]"

    assert words(tmp_path, f"{signal}\n\n{goroutines(3)}") == signal


def test_crash_of_an_earlier_process_in_the_same_log_is_not_the_cause(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(NIL + goroutines(2))
    begin = log.stat().st_size
    with log.open("a") as file:
        file.write("no devices\n")

    assert exit_message(log, begin) == "no devices"


def test_huge_log_and_a_huge_line_give_one_short_line(tmp_path: Path) -> None:
    assert words(tmp_path, "I am well\n" * 2_000_000 + "no devices\n") == "no devices"
    assert words(tmp_path, "x" * 5_000_000) == "x" * 1000 + "…"


@pytest.mark.parametrize("size", [1, 5_000_000])
def test_first_error_is_quoted_wherever_it_is(tmp_path: Path, size: int) -> None:
    text = "starting\nno driver: fatal\n" + "I am well\n" * size + "error: later\ngoodbye\n"

    assert words(tmp_path, text) == "no driver: fatal … goodbye"


def test_last_lines_have_the_first_error_before_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("starting\nerror: no driver\n" + "".join(f"{number}\n" for number in range(8)))

    assert last_lines(log) == ("error: no driver", "…", *map(str, range(8)))
    assert last_lines(log, 9) == ("error: no driver", *map(str, range(8)))


def test_log_that_is_not_there_has_no_words(tmp_path: Path) -> None:
    assert exit_message(tmp_path / "log") == ""
    assert last_lines(tmp_path / "log") == ()


@given(st.text(max_size=200), st.sampled_from([NIL, IN_C, KLOG]), st.integers(0, 40))
def test_cause_is_found_whatever_was_written_before(
    tmp_path_factory: pytest.TempPathFactory, before: str, crash: str, count: int
) -> None:
    log = tmp_path_factory.getbasetemp() / "any"
    log.write_bytes((before.encode() + b"\n") + (crash + goroutines(count) + REGISTERS).encode())

    assert exit_message(log) == crash.partition("\n")[0]
