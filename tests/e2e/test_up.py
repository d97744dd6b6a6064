"""`simkubelet up` from the shell: it comes, takes commands from another terminal, and goes without a trace."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.command_server import CommandServer
from tests.support.live_cluster import LiveCluster, environment, live_cluster
from tests.support.patience import LIMIT_S, eventually
from tests.support.short_paths import short_place
from tests.support.views import shared_line


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder with a short path, as sockets are made below it."""
    with tempfile.TemporaryDirectory(prefix="up-", dir=short_place()) as folder:
        yield Path(folder)


@pytest.fixture
def refused(command_server: CommandServer) -> Callable[[Path, str], str]:
    """Run a command that cannot be done in a folder; the one line with which it ends."""

    def run(scratch: Path, command: str) -> str:
        done = command_server.run("simkubelet", command.split(), scratch, environment(scratch))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert done.stderr.startswith("error: ")
        return done.stderr

    return run


def test_cluster_whose_containers_cannot_run_is_refused(scratch: Path, command_server: CommandServer) -> None:
    if shared_line():
        pytest.skip("containers run without namespaces here, which need no program")
    env = {**environment(scratch), "PATH": str(scratch)}

    done = command_server.run("simkubelet", ["up", "--runtime", "process"], scratch, env)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1), done.stderr
    assert done.stderr.startswith("error: bwrap not found: ")
    assert "apt-get install bubblewrap" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_cluster_that_is_interrupted_leaves_nothing(number: signal.Signals) -> None:
    with live_cluster("--nodes 2 --profile t4 --gpus 1") as cluster:
        assert cluster.introduction.startswith("cluster 'simkubelet' is up: 2 nodes, Kubernetes 1.34; Ctrl-C ends it\n")
        # Root gets one more line, after what each user gets and the pages show.
        lines = cluster.introduction.splitlines()
        assert [number for number, line in enumerate(lines) if line.startswith("  as root: ")] == (
            [len(lines) - 1] if os.geteuid() == 0 else []
        )

        said = cluster.interrupt(number)

        assert (cluster.process.returncode, said) == (128 + number, "interrupted; everything was ended\n")
        assert cluster.leftovers() == []
        assert cluster.command("simkubelet kubelet stop node-1", fails=True) == (
            "error: no cluster runs; start one with 'simkubelet up' in another terminal\n"
        )


def test_killed_cluster_ends_its_plugins_and_frees_its_name() -> None:
    with live_cluster("--profile t4 --gpus 1") as cluster:
        cluster.process.kill()
        cluster.process.wait()

        eventually(lambda: all("plugin" not in left for left in cluster.leftovers() if "python" in left))
        again = subprocess.Popen(
            [sys.executable, "-m", "simkubelet", "up"], env=cluster.env, stdout=subprocess.PIPE, text=True
        )
        try:
            assert again.stdout is not None
            assert "is up" in again.stdout.readline()
        finally:
            again.terminate()
            again.communicate()
        assert cluster.leftovers() == []


def test_kubelet_and_node_obey_commands() -> None:
    with live_cluster("--nodes 2 --profile t4 --gpus 1") as cluster:
        assert cluster.command("simkubelet kubelet stop node-1") == "the kubelet of node-1 is stopped\n"
        assert cluster.command("simkubelet kubelet stop node-1", fails=True) == (
            "error: the kubelet of node 'node-1' is stopped already; start it first\n"
        )
        assert cluster.command("simkubelet kubelet start node-1") == "the kubelet of node-1 runs\n"
        assert cluster.command("simkubelet kubelet start node-1", fails=True) == (
            "error: the kubelet of node 'node-1' runs already; stop it first\n"
        )
        assert cluster.command("simkubelet kubelet restart node-1") == "the kubelet of node-1 was restarted\n"
        assert cluster.command("simkubelet node reboot node-2") == "node-2 was rebooted\n"
        assert cluster.command("simkubelet node reboot node-3", fails=True) == (
            "error: no node 'node-3' in cluster 'simkubelet'; its nodes: node-1, node-2\n"
        )


def test_two_clusters_run_side_by_side() -> None:
    with live_cluster("--name left") as left:
        argv = [sys.executable, "-m", "simkubelet", "up", "--name"]
        taken = left.run(*argv, "left", fails=True)
        assert taken == "error: a cluster 'left' runs already; end it or choose another --name\n"
        right = subprocess.Popen([*argv, "right"], env=left.env, stdout=subprocess.PIPE, text=True)
        try:
            assert right.stdout is not None
            assert "'right' is up" in right.stdout.readline()

            assert left.command("simkubelet kubelet restart node-1") == "the kubelet of node-1 was restarted\n"
            of_none = replace(left, env={**left.env, "KUBECONFIG": ""})
            assert of_none.command("simkubelet kubelet restart node-1", fails=True) == (
                "error: 2 clusters run: choose one with KUBECONFIG or --cluster: left, right\n"
            )
            of_nobody = replace(left, env={**left.env, "KUBECONFIG": "/nope"})
            assert of_nobody.command("simkubelet kubelet restart node-1", fails=True) == (
                "error: KUBECONFIG: '/nope' does not exist; unset it, name another file, or choose one with --cluster\n"
            )
            assert (
                left.command("simkubelet kubelet stop node-1 --cluster right") == "the kubelet of node-1 is stopped\n"
            )
            assert left.command("simkubelet kubelet restart node-1 --cluster other", fails=True) == (
                "error: no cluster 'other' runs; running: left, right; start it with 'simkubelet up --name other'\n"
            )
        finally:
            right.terminate()
            right.communicate()


def asked(address: str, step: object) -> tuple[int, str]:
    """The answer of a live page to a step."""
    body = None if step is None else json.dumps(step).encode()
    try:
        with urlopen(Request(address, body, {"Content-Type": "application/json"}), timeout=LIMIT_S) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_live_page_shows_and_does_what_a_cluster_can() -> None:
    with live_cluster("--profile t4 --gpus 1 --web") as cluster:
        found = re.search(r"live page: (http://127\.0\.0\.1:(\d+)/\S+/)\n", cluster.introduction)
        assert found is not None
        address = found[1]
        assert "<title>cluster &#39;simkubelet&#39;</title>" in asked(address, None)[1]
        with urlopen(f"{address}events", timeout=LIMIT_S) as stream:  # noqa: S310

            def wait_for(kind: str) -> dict[str, Any]:
                timelines = (json.loads(line[6:]) for line in stream if line.startswith(b"data: "))
                return next(one for one in timelines if any(moment[6] == kind for moment in one["moments"]))

            begun = wait_for("devices-listed")
            assert "GPU 0" in [lane[1] for lane in begun["lanes"]]
            well = ["kubelet runs", "nvidia runs", "nvidia.com/gpu: 1 healthy"]
            assert begun["nodes"] == [{"name": "node-1", "isWell": True, "lines": well}]
            for step, said in (
                ({"fail": {"gpu": {"free": True}, "xid": 79}}, "XID 79 on a free GPU on node-1"),
                ({"stopPlugin": {"plugin": "nvidia"}}, "the plugin nvidia of node-1 is stopped"),
                ({"startPlugin": {"node": "node-1", "plugin": "nvidia"}}, "the plugin nvidia of node-1 was started"),
                ({"pausePlugin": {"plugin": "nvidia"}}, "the plugin nvidia of node-1 is paused"),
                ({"resumePlugin": {"plugin": "nvidia"}}, "the plugin nvidia of node-1 runs"),
                ({"failNvml": {"call": "nvmlInit", "error": "UNKNOWN"}}, "nvmlInit answers UNKNOWN on node-1"),
                ({"pauseRuntime": {}}, "the container runtime of node-1 is paused"),
                ({"resumeRuntime": {}}, "the container runtime of node-1 runs"),
                ({"restartKubelet": {}}, "the kubelet of node-1 was restarted"),
            ):
                status, text = asked(f"{address}steps", step)
                assert (status, said in text) == (200, True), text
            assert "GPU 0: XID 79" in wait_for("fault-injected")["nodes"][0]["lines"]
        for step, why in (
            ({"startPlugin": {"plugin": "nvidia"}}, "plugin 'nvidia' runs already; stop it first"),
            ({"killPlugin": {"plugin": "nvidea"}}, "no plugin 'nvidea'; did you mean 'nvidia'?"),
            ({"heal": {"node": "node-9", "gpu": 0}}, "no node 'node-9' in cluster 'simkubelet'; its nodes: node-1"),
        ):
            status, text = asked(f"{address}steps", step)
            assert (status, why in text) == (400, True), text
        assert asked(address.rsplit("/", 2)[0] + "/", None)[0] == 403

        refused = cluster.command(f"simkubelet up --name other --web {found[2]}", fails=True)
        assert refused == f"error: --web {found[2]}: cannot be used: Address already in use; choose another port\n"
        assert cluster.interrupt() == "interrupted; everything was ended\n"
        assert cluster.leftovers() == []


def test_chosen_folder_and_kubeconfig_are_removed_at_end(tmp_path: Path) -> None:
    with live_cluster(f"--dir /tmp --kubeconfig {tmp_path}/config") as cluster:
        assert cluster.kubeconfig == tmp_path / "config"
        assert cluster.kubeconfig.stat().st_mode & 0o777 == 0o600
        cluster.interrupt()

        assert list(tmp_path.iterdir()) == []


def test_kubeconfig_of_killed_cluster_is_replaced(tmp_path: Path) -> None:
    options = f"--kubeconfig {tmp_path}/config"
    with live_cluster(options) as killed:
        killed.process.kill()
        killed.process.wait()
        assert killed.kubeconfig.exists()

    with live_cluster(options) as cluster:
        assert cluster.server != ""
        cluster.interrupt()

    assert list(tmp_path.iterdir()) == []


def test_cluster_reports_plugin_that_never_registers() -> None:
    with live_cluster("--plugin broken=false") as cluster:
        assert cluster.process.stderr is not None
        assert cluster.process.stderr.readline() == (
            "warning: node-1: plugin 'broken' ended with status 1 before it registered with the kubelet; "
            "its log is empty; it is started again in 10 s\n"
        )
        assert cluster.command("simkubelet kubelet restart node-1") == "the kubelet of node-1 was restarted\n"


def test_many_nodes_start_under_low_soft_limit() -> None:
    command = shlex.quote("limits=sh -c 'ulimit -Sn >/tmp/limit; ulimit -Hn >>/tmp/limit; exec sleep 999'")
    options = f"--nodes 16 --profile t4 --gpus 1 --plugin nvidia --plugin {command}"
    with live_cluster(options, prefix=["prlimit", "--nofile=100:2000"]) as cluster:
        # The plugin's /tmp is its node's.
        limits = cluster.scratch.glob
        eventually(lambda: {one.read_text() for one in limits("**/root/tmp/limit")} == {"100\n2000\n"})

        assert cluster.command("simkubelet kubelet restart node-16") == "the kubelet of node-16 was restarted\n"


def test_hard_limit_that_is_too_low_is_named(scratch: Path) -> None:
    up = [sys.executable, "-m", "simkubelet", "up", "--nodes", "16", "--profile", "t4"]
    argv = ["prlimit", "--nofile=60:60", *up]
    done = subprocess.run(
        argv,
        env=environment(scratch),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        3,
        "error: too many open files: this process may have 60; allow more with 'ulimit -n', or start fewer nodes",
    )


def test_another_terminal_breaks_gpu_of_a_node() -> None:
    with live_cluster("--profile t4 --gpus 2") as cluster:
        machine = machine_of(cluster)
        cluster.command(f"fakegpu fail 1 --xid 79 --dir {machine}")

        assert "79" in cluster.command(f"fakegpu list --dir {machine}")


def machine_of(cluster: LiveCluster) -> str:
    found = re.search(r"--dir (/\S+)", cluster.introduction)
    assert found is not None, cluster.introduction
    return found[1]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--profile gtx", "no GPU profile 'gtx'"),
        ("--gpus 2", "--gpus needs --profile"),
        ("--web 99999", "Invalid value for '--web': 99999 is not in the range"),
        ("--web page", "Invalid value for '--web': 'page' is not a valid integer"),
        ("--event-ttl 5", "expected a duration like 200ms, 10s, 5m or 1h30m; found '5'"),
        ("--nodes 0", "0 is not in the range"),
        ("--plugin unknown", "'unknown': choose amd, generic, gopher, gpu-memory, gpushare, iluvatar, nvidia, "),
        ("--plugin mine=/no/such/program", "no program '/no/such/program'"),
        ("--plugin gopher --plugin gopher", "'gopher' is given twice"),
        ("--image nvidia", "'nvidia' is not of the form IMAGE=PLUGIN"),
        ("--kubelet-version 1.99", "1.99"),
        ("--name My_Cluster", "'My_Cluster': up to 32 small letters, digits and dashes"),
        ("--dir /dev/null/folder", "/dev/null/folder: no folder can be made here"),
        ("--kubeconfig /dev/null/config", "--kubeconfig: '/dev/null/config' cannot be written"),
        ("--kubeconfig /dev/null", "--kubeconfig: '/dev/null' is there already"),
    ],
)
def test_invalid_input_is_one_line(
    refused: Callable[[Path, str], str], scratch: Path, options: str, reason: str
) -> None:
    assert reason in refused(scratch, f"up {options}")
    assert [path for path in scratch.rglob("*") if not path.is_dir()] == []


def test_port_in_use_is_refused(refused: Callable[[Path, str], str], scratch: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        assert refused(scratch, f"up --port {port}").startswith(f"error: --port {port}: cannot be used: ")


def test_runtime_folder_too_deep_for_sockets_is_refused(refused: Callable[[Path, str], str], tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()

    assert "a socket path holds 107 bytes" in refused(deep, "up")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_unreadable_output_ends_the_cluster_with_error(scratch: Path, unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "simkubelet", "up"],
            env={**environment(scratch), "PYTHONUNBUFFERED": unbuffered},
            cwd=scratch,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    assert (done.returncode, done.stderr) == (3, "error: output: No space left on device\n")
    assert [path for path in scratch.rglob("*") if not path.is_dir()] == []
