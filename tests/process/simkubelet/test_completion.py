"""What a shell offers after `simkubelet completion`; bash is asked as the user's own would be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ASK = """
compopt() { :; }
eval "$(simkubelet completion bash)"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_simkubelet_completion simkubelet
printf '%s\\n' "${COMPREPLY[@]}"
"""


_BASH = shutil.which("bash") or ""


@pytest.mark.skipif(not _BASH, reason="no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["doc"], "doctor"),
        (["run", "kubelet-r"], "kubelet-restart"),
        (["show", "bug"], "bugs/"),
        (["check", "gopher-p"], "gopher-pending"),
        (["run", "--all", "--kubelet-v"], "--kubelet-version"),
        (["up", "--profile", "h100-8"], "h100-80gb"),
        (["plugin", "gop"], "gopher"),
        (["completion", "f"], "fish"),
        (["run", "--kubelet-version", "1.3"], "1.35"),
        (["run", "--tag", "mi"], "mig"),
        (["bugs", "--kubelet-version", "1.2"], "1.27"),
        (["conform", "--only", "registration/o"], "registration/once"),
        (["conform", "--skip", "lim"], "limits"),
    ],
)
def test_bash_offers_commands_options_and_names(words: list[str], offered: str) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    ran = subprocess.run(
        [_BASH, "--norc", "-c", _ASK, "bash", "simkubelet", *words],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )

    assert offered in ran.stdout.split(), ran.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script(shell: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "simkubelet", "completion", shell], capture_output=True, text=True, check=True
    )

    assert f"_SIMKUBELET_COMPLETE={shell}_complete" in ran.stdout


@pytest.mark.parametrize(("shell", "status"), [("/usr/bin/fish", 0), ("/bin/tcsh", 2), ("", 2)])
@pytest.mark.parametrize("program", ["simkubelet", "fakegpu"])
def test_script_is_for_the_shell_of_the_user(program: str, shell: str, status: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", program, "completion"],
        env={**os.environ, "SHELL": shell},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == status
    assert ("fish_complete" in ran.stdout) == (status == 0)
    assert ran.stderr.startswith("error: for which shell? Give one of bash, zsh, fish" if status else "")
    assert ran.stderr.count("\n") == (1 if status else 0)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("fakegpu f", "fail"),
        ("fakegpu fail --dir DIR ", "1"),
        ("fakegpu heal --dir DIR G", "GPU-"),
        ("fakegpu up --profile h100-8", "h100-80gb"),
        ("fakegpu set --dir DIR 0 temp", "temperature="),
        ("fakegpu fault slow nvmlDeviceGetMem", "nvmlDeviceGetMemoryInfo"),
        ("fakegpu fault error nvmlInit driver", "DRIVER_NOT_LOADED"),
        ("fakegpu fail --dir nowhere ", ""),
    ],
)
def test_shell_completes_words_of_fakegpu(tmp_path: Path, words: str, offered: str) -> None:
    fakegpu = [sys.executable, "-m", "fakegpu"]
    subprocess.run([*fakegpu, "up", "-n", "2", "--dir", str(tmp_path / "m")], capture_output=True, check=True)
    text = words.replace("DIR", str(tmp_path / "m"))
    asked = {"_FAKEGPU_COMPLETE": "bash_complete", "COMP_WORDS": text, "COMP_CWORD": str(text.count(" "))}

    ran = subprocess.run(fakegpu, env={**os.environ, **asked}, capture_output=True, text=True, check=True)

    assert any(line.startswith(f"plain,{offered}") for line in ran.stdout.splitlines()) == bool(offered), ran.stderr


@pytest.mark.parametrize(
    "asked",
    [
        {"COMPLETE": "bash_complete"},
        {"COMPLETE": "fish_complete", "COMP_CWORD": "r"},
        {"COMPLETE": "zsh_complete", "COMP_WORDS": "p r", "COMP_CWORD": "x"},
        {"COMPLETE": "bash_"},
        {"COMPLETE": "other_source"},
    ],
)
@pytest.mark.parametrize("program", ["simkubelet", "fakegpu"])
def test_question_of_no_shell_is_one_line(program: str, asked: dict[str, str]) -> None:
    named = {f"_{program.upper()}_{name}" if name == "COMPLETE" else name: value for name, value in asked.items()}

    ran = subprocess.run([sys.executable, "-m", program], env={**os.environ, **named}, capture_output=True, text=True)

    assert ran.returncode == 2
    assert (
        ran.stderr == f"error: _{program.upper()}_COMPLETE is set, which is for scripts of completion alone; unset it\n"
    )
