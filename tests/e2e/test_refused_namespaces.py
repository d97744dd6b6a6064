"""The stories and `conform` where user and mount namespaces are refused, as in an ordinary container."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any, Final

import pytest

from fakegpu import Machine
from tests.support.live_cluster import live_cluster
from tests.support.patience import PROGRAM_LIMIT_S

_SCRIPT: Final = (
    'echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set -all --inh-caps -all --no-new-privs "$@"'
)
# The limit counts in the user namespace of the command alone.
REFUSED: Final = ("unshare", "--user", "--map-root-user", "sh", "-c", _SCRIPT, "sh")
PROFILES: Final = {
    "stub --device a --device b": "resource: example.com/device\n",
    "nvidia": "gpus: {profile: t4, count: 2}\n",
}

pytestmark = pytest.mark.skipif(
    subprocess.run([*REFUSED, "true"], capture_output=True, check=False).returncode != 0,
    reason="there are no user namespaces, in which to refuse them",
)


SHARED: Final = "containers have files of their own, but share the machine's processes, network, host name and users"


def simkubelet(run: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    return program(run, "simkubelet", *arguments)


def program(run: Any, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REFUSED, sys.executable, "-m", name, *arguments],
        env=run.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROGRAM_LIMIT_S,
        check=False,
    )


def test_all_stories_pass_and_what_containers_share_is_said_first(run: Any) -> None:
    done = simkubelet(run, "run", "--all")

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert re.search(r"^\d+ passed in ", done.stdout, re.MULTILINE), done.stdout[-5000:]
    assert done.stderr.startswith(f"warning: {SHARED}")
    assert done.stderr.count("\n") == 1


def test_stories_without_containers_say_nothing_of_them(run: Any) -> None:
    done = simkubelet(run, "run", "gopher-pending")

    assert (done.returncode, done.stderr) == (0, "")


def test_wrong_path_is_one_line_also_where_containers_share(run: Any) -> None:
    done = simkubelet(run, "run", "--junit", "/dev/null/x.xml")

    assert done.returncode == 2
    assert done.stderr == "error: --junit: '/dev/null/x.xml' cannot be written: Not a directory\n"


def test_cluster_says_what_its_containers_share() -> None:
    with live_cluster("--runtime process --plugin none", prefix=REFUSED) as cluster:
        said = cluster.interrupt()

    assert said.startswith(f"warning: {SHARED}")


def test_command_sees_an_installed_driver(run: Any) -> None:
    folder = run.scratch / "machine"
    Machine.create(folder, "t4", 1)
    look = "test -c /dev/nvidia0 && ls /proc/driver/nvidia && ls $NVIDIA_DRIVER_ROOT/usr/bin && nvidia-smi -L"

    done = program(run, "fakegpu", "exec", "--dir", str(folder), "--driver-root", "--", "sh", "-c", look)

    assert done.returncode == 0, done.stderr
    assert "nvidia-smi\nGPU 0: Tesla T4" in done.stdout


@pytest.mark.parametrize("plugin", PROFILES)
def test_conform_checks_a_plugin(run: Any, plugin: str) -> None:
    profile = run.scratch / "profile.yaml"
    profile.write_text(PROFILES[plugin])
    command = [sys.executable, "-m", "simkubelet", "plugin", *plugin.split()]

    done = simkubelet(run, "conform", "--profile", str(profile), "--only", "allocation/*", "--", *command)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED" in done.stdout
