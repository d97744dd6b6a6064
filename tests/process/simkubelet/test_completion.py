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


def test_shell_completes_commands_of_fakegpu() -> None:
    asked = {"_FAKEGPU_COMPLETE": "bash_complete", "COMP_WORDS": "fakegpu f", "COMP_CWORD": "1"}

    ran = subprocess.run(
        [sys.executable, "-m", "fakegpu"], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )

    assert "plain,fail" in ran.stdout.splitlines()
