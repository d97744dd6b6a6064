"""The pytest plugin in projects of its users, each in a pytest of its own: fixtures, stories, failures, Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from simkubelet.apis import deviceplugin
from tests.support.obeyed import WORKFLOW_COMMAND, is_harmless
from tests.support.patience import PROGRAM_LIMIT_S, eventually

from .pytest_project import INI, Project

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = [sys.executable, "-m", "simkubelet", "plugin", "stub", "--resource", "example.com/seat", "--device", "aisle"]
STORY = f"""
name: seats
description: A plugin serves one seat.
versions: ["1.30", "1.34"]
plugins:
  - name: seats
    command: {PLUGIN}
steps:
  - expect:
      node: node-1
      capacity: {{example.com/seat: 1}}
      within: 30s
"""
TEST = f"""
    import pytest

    SEAT = "example.com/seat"
    POD = {{
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {{"name": "passenger"}},
        "spec": {{"containers": [{{"name": "main", "image": "none", "resources": {{"limits": {{SEAT: 1}}}}}}]}},
    }}

    @pytest.fixture
    def seats(simkubelet_plugin):
        return simkubelet_plugin(*{PLUGIN}, name="seats")
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    project = Project(pytester, monkeypatch)
    yield project
    project.close()


@pytest.fixture
def wheel(project: Project) -> Project:
    """A project beside an installed wheel: both bundled packages are below `simkubelet`, and their names are free."""
    site, built = project.folder / "site", sysconfig.get_path("purelib")
    places = {"fakegpu": "", "simkubelet": "", "plugin": "simkubelet/_bundled", "scenarios": "simkubelet/_bundled"}
    for package, place in places.items():
        copytree(ROOT / package, site / place / package, ignore=ignore_patterns("native"))
    for package in ("fakegpu", "simkubelet"):
        copytree(Path(built, package, "lib"), site / package / "lib", dirs_exist_ok=True)
    # An interpreter without the environment's .pth files, which lead to the checkout.
    project.program = [f"{sys.base_prefix}/bin/python3", "-m", "pytest"]
    del project.environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]
    project.environment["PYTHONPATH"] = f"{site}:{built}"
    return project


def test_plugin_loads_only_pytest() -> None:
    program = """
import sys
import pytest
from _pytest.config import get_config
get_config()  # the built-in plugins
before = set(sys.modules)
import simkubelet.pytest_plugin
print(*sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)

    ours = {"", "._internal", "._internal.bundle", "._internal.lazy", ".pytest_plugin"}
    assert set(done.stdout.split()) - {f"simkubelet{one}" for one in ours} == set()


def test_run_without_stories_loads_none_of_the_bundled_packages(tmp_path: Path) -> None:
    test = tmp_path / "test_modules.py"
    test.write_text("""
import sys

def test_modules(pytestconfig):
    assert pytestconfig.pluginmanager.has_plugin("simkubelet.pytest_plugin")
    loaded = {name.partition(".")[0] for name in sys.modules}
    assert loaded & {"fakegpu", "plugin", "scenarios"} == set()
""")

    command = [sys.executable, "-m", "pytest", "-p", "simkubelet.pytest_plugin", "-p", "no:cacheprovider", str(test)]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=alone)

    assert done.returncode == 0, done.stdout + done.stderr


def test_fixtures_and_stories_work_beside_packages_of_the_same_names(wheel: Project) -> None:
    stubs = f"FILE = {deviceplugin.Device.DESCRIPTOR.file.serialized_pb!r}\n"
    stubs += "from google.protobuf.descriptor_pool import Default\nDefault().AddSerializedFile(FILE)\n"
    wheel.write("v1beta1_pb2.py", stubs)
    wheel.write("plugin/__init__.py", "from v1beta1_pb2 import FILE\nMINE = True\n")
    wheel.write("scenarios/__init__.py", "MINE = True\n")
    wheel.write("tests/seats.story.yaml", STORY)
    wheel.write("pytest.ini", f"{INI}pythonpath = .\n")
    wheel.write(
        "tests/test_mine.py",
        TEST
        + """
    import plugin, scenarios

    def test_pod_gets_a_seat(simkubelet_kubelet, seats):
        assert plugin.MINE and scenarios.MINE
        assert "site" in __import__("simkubelet").__file__
        simkubelet_kubelet.expect(capacity={SEAT: 1})
        simkubelet_kubelet.apply(POD)
        simkubelet_kubelet.expect(pod="passenger", phase="Running", env={"STUB_DEVICES": "aisle"})
        assert simkubelet_kubelet.devices_of("passenger") == {"main": {SEAT: ("aisle",)}}
        simkubelet_kubelet.restart()
        simkubelet_kubelet.until(lambda: seats.registrations == 2)
        simkubelet_kubelet.step(expect={"pod": "passenger", "keepsDevices": True})

    @pytest.mark.simkubelet_machine(profile="t4", count=3)
    def test_node_has_the_machine(simkubelet_kubelet, simkubelet_machine):
        assert simkubelet_kubelet.machine is simkubelet_machine
        assert [gpu.name for gpu in simkubelet_machine.gpus] == ["Tesla T4"] * 3

    def test_machine_alone(simkubelet_machine):
        assert len(simkubelet_machine.gpus) == 2

    @pytest.mark.simkubelet_cluster(nodes=2)
    def test_cluster(simkubelet_cluster):
        assert simkubelet_cluster.nodes == ("node-1", "node-2")
        assert "server" in simkubelet_cluster.kubeconfig.read_text()
        simkubelet_cluster.restart_kubelet("node-2")

    def test_story(simkubelet_story):
        played = simkubelet_story("seats.story.yaml")
        assert [one.verdict.scenario for one in played] == ["seats on 1.30", "seats on 1.34"]
""",
    )

    status, printed = wheel.run("-n", "2", "-v")

    assert status == 0, printed
    assert "7 passed" in printed
    assert "tests/seats.story.yaml::seats[1.30]" in printed
    assert wheel.leftovers() == []


def test_failures_show_expected_actual_trace_and_log(project: Project) -> None:
    project.write("seats.story.yaml", STORY.replace("seat: 1}", "seat: 2}").replace("within: 30s", "within: 1s"))
    project.write(
        "test_failures.py",
        TEST
        + """
    def test_expectation(simkubelet_kubelet, seats):
        simkubelet_kubelet.expect(capacity={SEAT: 3}, within="100ms")

    def test_assertion(simkubelet_kubelet, seats):
        assert seats.registrations == 5

    def test_broken_plugin(simkubelet_plugin):
        simkubelet_plugin("sh", "-c", "echo no seats here; exit 3")

    def test_absent_plugin(simkubelet_plugin):
        simkubelet_plugin("./absent")

    @pytest.mark.simkubelet_kubelet(kubernets="1.30")
    def test_marker(simkubelet_kubelet):
        pass

    def test_absent_story(simkubelet_story):
        simkubelet_story("absent.story.yaml")
""",
    )

    status, printed = project.run()

    assert status == 1
    assert re.search(r"\b7 failed, .*\b1 error in", printed), printed
    story = printed.partition("seats[1.34] __")[2].partition("____ test_")[0]
    for line in (
        "seats.story.yaml:11: FAILED on Kubernetes 1.34 in step 1 of 1, 'expect node node-1'",
        "expected  2",
        "actual    ",
        "what happened around it",
        "plugin-registered     node=node-1 resource=example.com/seat",
        "node-1/logs/plugins/seats.log ends with:",
        '{"registered": "example.com/seat"',
    ):
        assert line in story
    assert "Traceback" not in printed
    assert "blocking.py" not in printed
    for line in (
        "E         capacity[example.com/seat]",
        "simkubelet: what happened last",
        "PluginError: plugin 'plugin' ended with status 3 before it registered with the kubelet; its log says: "
        '"no seats here"',
        "InputError: plugin 'plugin': no program './absent'; give its path or put its folder on PATH",
        "\nnode: kubernets: unknown key; did you mean 'kubernetes'?\n",
        "\nabsent.story.yaml: cannot be read: No such file or directory\n",
    ):
        assert line in printed
    assert project.leftovers() == []


def test_failures_show_no_control_characters(project: Project) -> None:
    said = r"printf 'a\033[2J\r\n::error::b\302\233 \043\043[error]c' >&2; exit 3"
    project.write("seats.story.yaml", STORY.replace(str(PLUGIN), str(["sh", "-c", said])))
    project.write(
        "test_failures.py",
        f"""
    def test_broken_plugin(simkubelet_plugin):
        simkubelet_plugin("sh", "-c", {said!r})
""",
    )

    status, printed = project.run()

    assert status == 1
    assert "error::b" in printed
    assert is_harmless(printed)
    assert not WORKFLOW_COMMAND.search(printed)


def test_wrong_story_is_an_error_of_one_line_at_its_place(project: Project) -> None:
    project.write("seats.story.yaml", STORY.replace("steps", "stepps"))
    project.write("list.story.yaml", "- 1")

    status, printed = project.run()

    assert status == 2
    shown = printed.partition("short test summary")[0].splitlines()
    for line in (
        "list.story.yaml:1:1: expected a mapping; found [1]",
        "seats.story.yaml:8:1: stepps: unknown key; did you mean 'steps'?",
    ):
        place = shown.index(line)
        assert shown[place - 1].startswith("____")
        assert shown[place + 1].startswith(("____", "===="))


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        pytest.param("--simkubelet-kubelet-version=1.1", "no Kubernetes '1.1' here;", id="version"),
        pytest.param("--simkubelet-plugin=seats=./absent", "absent'; give its path or put its", id="program"),
    ],
)
def test_wrong_option_is_an_error_of_one_line(project: Project, option: str, complaint: str) -> None:
    project.write("seats.story.yaml", STORY)

    status, printed = project.run(option)

    assert status == 2
    shown = [line for line in printed.partition("short test summary")[0].splitlines() if complaint in line]
    assert len(shown) == 1
    assert "Traceback" not in printed


def test_plugin_that_no_story_has_fails_each_story(project: Project) -> None:
    project.write("seats.story.yaml", STORY)

    status, printed = project.run("--simkubelet-plugin=seat=true", "-n", "1")

    assert status == 1
    assert printed.count("no story has a plugin 'seat'; there are: seats") >= 2


def test_command_of_the_settings_takes_the_plugins_place(project: Project) -> None:
    project.write("pytest.ini", f"{INI}simkubelet_plugins = seats=./mine\nsimkubelet_kubelet_version = 1.29\n")
    project.write("mine", f"#!/bin/sh\nexec {' '.join(PLUGIN)} --device window\n")
    (project.folder / "mine").chmod(0o755)
    project.write("tests/seats.story.yaml", STORY.replace("seat: 1}", "seat: 2}"))
    project.write("other.story.yaml", STORY.replace("name: seats", "name: other"))

    status, printed = project.run("-v", "tests")

    assert status == 0, printed
    assert "seats[1.29] PASSED" in printed


def test_coroutines_work_with_both_runners(project: Project) -> None:
    project.write(
        "test_async.py",
        TEST
        + f"""
    async def check(kubelet):
        seats = await kubelet.start_plugin(*{PLUGIN})
        await kubelet.expect(capacity={{SEAT: 1}})
        kubelet.apply(POD)
        await kubelet.expect(pod="passenger", phase="Running")
        assert seats.registrations == 1

    @pytest.mark.asyncio
    async def test_with_asyncio(simkubelet_async_kubelet):
        async with simkubelet_async_kubelet as kubelet:
            await check(kubelet)

    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    async def test_with_anyio(simkubelet_async_kubelet, anyio_backend):
        async with simkubelet_async_kubelet as kubelet:
            await check(kubelet)

    @pytest.mark.asyncio
    async def test_cluster(simkubelet_async_cluster):
        async with simkubelet_async_cluster as cluster:
            await cluster.reboot("node-1")
            assert cluster.kubeconfig.exists()
""",
    )

    status, printed = project.run("-p", "anyio")

    assert status == 0, printed
    assert "3 passed" in printed
    assert project.leftovers() == []


HANGING_TEST = f"""
def test_hangs(simkubelet_kubelet, simkubelet_plugin):
    simkubelet_plugin(*{PLUGIN})
    open("hangs", "w").close()
    simkubelet_kubelet.until(lambda: False, 100)
"""
HANGING_STORY = STORY.replace("seat: 1}", "seat: 2}").replace("30s", "100s").replace('"1.30", ', "")


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        pytest.param("test_hangs.py", HANGING_TEST, [], id="fixture"),
        pytest.param("seats.story.yaml", HANGING_STORY, ["-n", "1"], id="story with xdist"),
    ],
)
def test_interrupted_run_leaves_nothing(project: Project, name: str, text: str, options: list[str]) -> None:
    project.write(name, text)

    process = project.start(*options)
    eventually(project.has_plugin)
    if name.endswith(".py"):
        eventually((project.folder / "hangs").exists)
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=PROGRAM_LIMIT_S)

    assert process.returncode == 2, printed
    assert "KeyboardInterrupt" in printed
    eventually(lambda: not project.leftovers(), lambda: str(project.leftovers()))


@pytest.mark.parametrize("runtime", ["process", "book-keeping"])
def test_what_containers_share_without_namespaces_is_said_before_the_tests(project: Project, runtime: str) -> None:
    project.write("bin/bwrap", "#!/bin/sh\nexit 1\n")
    (project.folder / "bin" / "bwrap").chmod(0o755)
    project.environment["PATH"] = f"{project.folder / 'bin'}:{project.environment['PATH']}"
    project.write("seats.story.yaml", f"{STORY}nodes: [{{name: node-1, runtime: {runtime}}}]\n")
    project.write(
        "test_mine.py",
        f"""
    import pytest

    @pytest.mark.simkubelet_kubelet(runtime="{runtime}")
    def test_node(simkubelet_kubelet):
        assert simkubelet_kubelet.name == "node-1"
""",
    )

    for file in ("seats.story.yaml", "test_mine.py"):
        status, printed = project.run("--collect-only", file)

        assert status == 0, printed
        lines = [line for line in printed.splitlines() if "share the machine's processes" in line]
        assert len(lines) == (runtime == "process"), printed
