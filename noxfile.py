"""The project's checks: `./dev test` runs the default sessions, `./dev test -l` lists all.

At its end nox prints how long each session took. The sessions with the tag `quick` are those of `./dev test --quick`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import nox
from nox.command import CommandFailed

sys.path.insert(0, str(Path(__file__).parent))
from tools.build import apt, go_build, kind_node_image, python_image
from tools.build import chromium as find_chromium
from tools.build import clients as build_clients
from tools.build import control_plane as build_control_plane
from tools.build import dra_driver as build_dra_driver
from tools.build import helm as build_helm
from tools.build import inputs as build_inputs
from tools.build import nvidia_plugin as build_nvidia_plugin
from tools.build import nvidia_smi as fetch_nvidia_smi
from tools.build import oracle as build_oracle
from tools.build import rdma_plugin as build_rdma_plugin

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_existing_virtualenvs = True
# Thousands of processes load the same modules: what one has compiled the others read, whatever the caller's shell says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

PYPROJECT = nox.project.load_toml("pyproject.toml")
# What starts no process computes all the time: more processes than cores would only collect the tests once more.
ON_EACH_CORE = ("--numprocesses", str(os.cpu_count() or 1), "--dist", "worksteal")
# Most tests wait for processes more than they compute, and some take up to a minute: the longest come first
# (`tests/conftest.py`), and each process takes the next one.
LONGEST_FIRST = ("--numprocesses", str(1 + 2 * (os.cpu_count() or 1)), "--dist", "load", "--maxschedchunk", "1")
# Each process has a cluster of its own, and stories on a cluster wait more than they compute. A machine with three
# clusters is slow at times, which does not indicate a defect: only here is a failed test run again, as RERUN.
ON_CLUSTERS = ("--numprocesses", "3", "--dist", "worksteal", "--reruns", "2")
# Each process has a control plane of its own, which takes longer to start than most of these tests.
EACH_FILE = ("--numprocesses", "2", "--dist", "loadfile")
BIN = Path(__file__).parent / ".nox" / "environment" / "bin"
"""Programs of the session `environment`."""
IN_ENVIRONMENT = nox.session(venv_backend="none", requires=["environment"])
ONE_PART = nox.session(venv_backend="none", requires=["environment"], default=False)
"""The session `tests` runs these with the others."""
QUICK = "quick"
WORKLOADS = "tests/join/test_real_workloads.py"
SANITIZED_TESTS = [
    *(
        f"tests/unit/fakegpu/test_fakegpu_{topic}.py"
        for topic in (
            *("capabilities", "events", "export_table", "load", "mig", "mig_placements", "overwritten"),
            *("processes", "setters"),
        )
    ),
    *(
        f"tests/process/fakegpu/test_fakegpu_{topic}.py"
        for topic in (
            *("accounting", "any_arguments", "capabilities", "damage", "events", "exports", "fuzz_corpus", "mig"),
            *("mig_containers", "processes", "setters"),
        )
    ),
]
ROOM_BYTES = 1 << 30
TOP_LEVEL_NAMES = {"fakegpu", "simkubelet"}
PUBLIC_TYPES = """
from simkubelet import ManualClock
from simkubelet.framework import Device
from simkubelet.stories import Verdict
from simkubelet.testing import Node

print(ManualClock, Device, Verdict, Node)
"""
"""A user's program; mypy refuses it where a type checker takes one of the names for Any."""


def install(session: nox.Session, *requirements: str) -> None:
    """Install what a session needs, unless its kept environment was given just this before."""
    noted = Path(session.virtualenv.location, "installed-inputs")
    wanted = "\n".join((build_inputs.digest(), *requirements))
    if not noted.exists() or noted.read_text() != wanted:
        # Warnings of the C compiler end a build here, never a user's.
        session.install(*requirements, env={"CMAKE_ARGS": "-DFAKEGPU_WERROR=ON"})
        noted.write_text(wanted)


def groups(*names: str) -> tuple[str, ...]:
    """Return the requirements of pyproject.toml's dependency groups."""
    return nox.project.dependency_groups(PYPROJECT, *names)


def give_up(session: nox.Session, reason: str) -> None:
    """Skip a session that this machine cannot run; where CI is set, end it with an error."""
    (session.error if os.environ.get("CI") else session.skip)(reason)


def files_in_memory() -> dict[str, str]:
    """Let temporary files be in memory if programs run there: a node of a test is two hundred files and folders."""
    memory = Path("/dev/shm")  # noqa: S108 - each process makes a folder of its own there
    if not memory.is_dir() or os.statvfs(memory).f_flag & os.ST_NOEXEC:
        return {}
    return {"TMPDIR": str(memory)} if shutil.disk_usage(memory).free >= ROOM_BYTES else {}


def need_kind(session: nox.Session) -> None:
    """Give a session up on a machine without docker or kind, or where nobody wants it."""
    if os.environ.get("SIMKUBELET_NO_KIND") == "1":
        session.skip("SIMKUBELET_NO_KIND=1 leaves it out")
    for command in (["docker", "info"], ["kind", "version"]):
        if shutil.which(command[0]) is None or subprocess.run(command, capture_output=True, check=False).returncode:
            give_up(session, f"`{' '.join(command)}` does not work here; `tools/with_kind COMMAND` sees to it")


def name_nvidia_smi(session: nox.Session) -> None:
    """Fetch NVIDIA's own nvidia-smi with apt, and name it to the tests."""
    session.env["SIMKUBELET_NVIDIA_SMI"] = str(fetch_nvidia_smi.fetch())


def name_browser(session: nox.Session) -> None:
    """Find Chromium, install it where that is possible, and name it to the tests."""
    session.env["SIMKUBELET_CHROMIUM"], session.env["SIMKUBELET_CHROMEDRIVER"] = find_chromium.find()


def built_with_go(session: nox.Session, builder: ModuleType, *arguments: str) -> list[str]:
    """Have a module of `tools.build` build programs with Go, and return their paths.

    Raises:
        BuildError: There is no Go.
    """
    builder.find_go()
    built = session.run(BIN / "python", "-m", builder.__name__, *arguments, silent=True)
    return str(built).splitlines()


def name_nvidia_programs(session: nox.Session) -> None:
    """Build NVIDIA's own plugin and tools with Go, and name them to the tests."""
    names = ("SIMKUBELET_NVIDIA_PLUGIN", "SIMKUBELET_GPU_FEATURE_DISCOVERY", "SIMKUBELET_NVIDIA_CTK")
    session.env.update(zip(names, built_with_go(session, build_nvidia_plugin), strict=True))


def name_nvidia_plugins(session: nox.Session) -> None:
    """Build NVIDIA's own plugins and tools with Go, that of Mellanox included, and name them to the tests."""
    name_nvidia_programs(session)
    (session.env["SIMKUBELET_RDMA_PLUGIN"],) = built_with_go(session, build_rdma_plugin)


def name_clients(session: nox.Session) -> None:
    """Build kubectl and clients with client-go, and name them to the tests."""
    names = ("SIMKUBELET_KUBECTL", "SIMKUBELET_INFORMER", "SIMKUBELET_PROTOBUF")
    session.env.update(zip(names, built_with_go(session, build_clients), strict=True))


def name_dra_driver(session: nox.Session) -> None:
    """Build the example driver of dynamic resources and kubectl with Go, and name them to the tests."""
    name_clients(session)
    (session.env["SIMKUBELET_DRA_DRIVER"],) = built_with_go(session, build_dra_driver)


def name_nvidia_dra_driver(session: nox.Session) -> None:
    """Build NVIDIA's driver of dynamic resources and kubectl with Go, and name them to the tests."""
    name_clients(session)
    (session.env["SIMKUBELET_NVIDIA_DRA_DRIVER"],) = built_with_go(session, build_dra_driver, "--nvidia")


def name_control_plane(session: nox.Session, minor: str = build_control_plane.DEFAULT_MINOR) -> None:
    """Build a control plane of a Kubernetes minor with Go, and name it to the tests."""
    built = built_with_go(session, build_control_plane, "--kubernetes", minor)
    (session.env["SIMKUBELET_CONTROL_PLANE"],) = built


def name_workloads(session: nox.Session) -> None:
    """Build a control plane and helm, get NVIDIA's manifest and chart, and name them to the tests."""
    name_control_plane(session)
    (session.env["SIMKUBELET_HELM"],) = built_with_go(session, build_helm)
    session.env["SIMKUBELET_NVIDIA_MANIFEST"] = str(build_nvidia_plugin.manifest())
    session.env["SIMKUBELET_NVIDIA_CHART"] = str(build_nvidia_plugin.chart())


def name_oracle(session: nox.Session, minor: str = build_oracle.DEFAULT_MINOR) -> None:
    """Build the real managers of a Kubernetes minor and the real scheduler, and name them to the tests."""
    programs = ("", "_STUB", "_SCHEDULER", "_SAMPLE_PLUGIN", "_DRA", "_REGISTRY", "_ALLOCATOR", "_CLIENT", "_SCORES")
    names = tuple(f"SIMKUBELET_ORACLE{name}" for name in programs)
    session.env.update(zip(names, built_with_go(session, build_oracle, "--kubernetes", minor), strict=True))
    session.env["SIMKUBELET_ORACLE_VERSION"] = minor


@dataclass(frozen=True)
class Part:
    """Tests that have a session of their own, and that the session `tests` runs together with the other parts.

    Attributes:
        chosen: Which tests, for pytest.
        name_programs: Gets the programs that only they need, and names them to the tests in the environment.
    """

    chosen: tuple[str, ...]
    name_programs: Callable[[nox.Session], None] = lambda session: None


PARTS = {
    "process": Part(("tests/process",)),
    "e2e": Part(("tests/e2e", "-m", "not nvidia_go and not clients and not dra_go and not nvidia_dra_go")),
    "smi": Part(("tests/smi",), name_nvidia_smi),
    "browser": Part(("tests/browser",), name_browser),
    "nvidia": Part(("tests/e2e", "-m", "nvidia_go"), name_nvidia_plugins),
    "clients": Part(("tests/e2e", "-m", "clients"), name_clients),
    "dra": Part(("tests/e2e", "-m", "dra_go"), name_dra_driver),
    "oracle": Part(("tests/oracle",), name_oracle),
}
MISSING = (go_build.BuildError, fetch_nvidia_smi.FetchError, apt.AptError)
"""What a part's programs raise that this machine cannot have."""


def get_programs(session: nox.Session, name_programs: Callable[[nox.Session], None]) -> None:
    """Name to the tests what they need, or give the session up."""
    try:
        name_programs(session)
    except MISSING as reason:
        give_up(session, str(reason))


def run_part(session: nox.Session) -> None:
    """Run the part that has the session's name; arguments after `--` go to pytest."""
    part = PARTS[session.name]
    get_programs(session, part.name_programs)
    session.run(BIN / "pytest", *part.chosen, *LONGEST_FIRST, *session.posargs, env=files_in_memory())


@nox.session(tags=[QUICK])
def lint(session: nox.Session) -> None:
    """Check style, format, layers, machine-bound text, and that the committed stubs are fresh."""
    install(session, *groups("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")
    session.run("python", "-m", "tools.check.text")
    session.run("python", "-m", "tools.check.imports")
    session.run("python", "-m", "tools.generate.kind_column", "--check")
    session.run("python", "-m", "tools.generate.nvml_surface", "--check")
    session.run("python", "-m", "tools.generate.layout", "--check")
    session.notify("protos", ["--check"])


@nox.session
def types(session: nox.Session) -> None:
    """Run mypy --strict over the packages, the tools, the benchmarks and what tests share."""
    install(session, *PYPROJECT["project"]["dependencies"], *groups("types"))
    session.run("mypy")
    session.run("mypy", "--config-file=", "--follow-imports=silent", "--disallow-any-expr", "-c", PUBLIC_TYPES)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site in build/site; a link that leads nowhere fails, and what loads from the network."""
    install(session, *groups("docs"))
    site = Path("build", "site")
    shutil.rmtree(site, ignore_errors=True)
    strictly = ("--fail-on-warning", "--keep-going", "--quiet", "--fresh-env", "--doctree-dir", "build/doctrees")
    session.run("sphinx-build", *strictly, "--conf-dir", "docs/site", ".", str(site))
    session.run("python", "-m", "tools.check.site", str(site))


@nox.session(default=False)
def environment(session: nox.Session) -> None:
    """Make the environment that the sessions share which run tests: the project and all that its tests use."""
    # The fake library is compared with the nvml.h that it was built from, which is a build requirement.
    install(session, "--editable", ".", *groups("test"), *PYPROJECT["build-system"]["requires"])


@nox.session(venv_backend="none", requires=["environment"], tags=[QUICK])
def unit(session: nox.Session) -> None:
    """Run the unit tests, which start no process; arguments after `--` go to pytest."""
    session.run(BIN / "pytest", "tests/unit", *ON_EACH_CORE, *session.posargs, env=files_in_memory())


@nox.session(venv_backend="none", requires=["environment"], tags=[QUICK], default=False)
def catalogue(session: nox.Session) -> None:
    """Play each built-in story once on the simulator; the session `e2e` does so too, and looks at more."""
    session.run(BIN / "simkubelet", "run", "--all", env=files_in_memory())


@IN_ENVIRONMENT
def tests(session: nox.Session) -> None:
    """Run the parts process, e2e, smi, browser, nvidia, clients, dra and oracle at once: some wait, others compute.

    Each part is a session as well. Where a part's programs cannot be had, its tests are skipped and the others run.
    """
    failed = []
    for name, part in PARTS.items():
        try:
            part.name_programs(session)
        except (*MISSING, CommandFailed) as reason:
            session.warn(f"no programs for {name}: {reason}")
            if os.environ.get("CI") or isinstance(reason, CommandFailed):
                failed.append(name)
    folders = dict.fromkeys(part.chosen[0] for part in PARTS.values())
    session.run(BIN / "pytest", *folders, *LONGEST_FIRST, *session.posargs, env=files_in_memory())
    if failed:
        session.error(f"their programs are missing, as said above: {', '.join(failed)}")


@ONE_PART
def process(session: nox.Session) -> None:
    """Run the tests of parts that are, or that start, a process of their own."""
    run_part(session)


@ONE_PART
def e2e(session: nox.Session) -> None:
    """Play every story over real sockets with the project's own plugins."""
    run_part(session)


@ONE_PART
def smi(session: nox.Session) -> None:
    """Look at fake GPUs with NVIDIA's own nvidia-smi, fetched with apt, with ours, and with tools from PyPI."""
    run_part(session)


@ONE_PART
def browser(session: nox.Session) -> None:
    """Use the page of a report in headless Chromium, installed with apt where it is missing."""
    run_part(session)


@ONE_PART
def nvidia(session: nox.Session) -> None:
    """Play the stories with NVIDIA's own plugin, built from source with Go."""
    run_part(session)


@ONE_PART
def clients(session: nox.Session) -> None:
    """Use a simulated cluster with kubectl and clients with client-go, built with Go, and with Python's clients."""
    run_part(session)


@ONE_PART
def dra(session: nox.Session) -> None:
    """Run the example driver of dynamic resources, built from source with Go, on a simulated node."""
    run_part(session)


@nox.session(venv_backend="none", requires=["environment"], default=False)
def nvidia_dra(session: nox.Session) -> None:
    """Run NVIDIA's driver of dynamic resources, built from source with Go, on fake GPUs."""
    get_programs(session, name_nvidia_dra_driver)
    session.run(BIN / "pytest", "tests/e2e/nvidia_dra_go", *session.posargs, env=files_in_memory())


@IN_ENVIRONMENT
def asan(session: nox.Session) -> None:
    """Call the fake library with all kinds of arguments, built with AddressSanitizer and UBSan."""
    built = session.run(BIN / "python", "-m", "tools.build.sanitized", silent=True)
    library, runtime = str(built).split()
    # Python keeps memory until it ends; that is not a leak of the library.
    sanitized = {"FAKEGPU_LIBRARY": library, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"}
    sanitized |= files_in_memory()
    session.run(BIN / "pytest", *SANITIZED_TESTS, *LONGEST_FIRST, *session.posargs, env=sanitized)


JOIN_USAGE = argparse.ArgumentParser(prog="nox -s join --", epilog="Other arguments go to pytest.")
build_control_plane.add_minor(JOIN_USAGE)


@IN_ENVIRONMENT
def join(session: nox.Session) -> None:
    """Join simulated nodes to a real control plane without nodes, built with Go from Kubernetes' module."""
    chosen, for_pytest = JOIN_USAGE.parse_known_args(session.posargs)
    get_programs(session, partial(name_control_plane, minor=chosen.kubernetes))
    tests = ("tests/join", "--ignore", WORKLOADS, "tests/process/scenarios/up/test_join.py")
    session.run(BIN / "pytest", *tests, *EACH_FILE, *for_pytest)


@nox.session(default=False, requires=["environment"])
def workloads(session: nox.Session) -> None:
    """Run an operator of kopf, and NVIDIA's plugin by its manifest and chart, on nodes that joined a control plane."""
    get_programs(session, name_workloads)
    install(session, *groups("workloads"))
    session.env["SIMKUBELET_KOPF"] = str(Path(session.bin, "kopf"))
    session.run(BIN / "pytest", WORKLOADS, *session.posargs, external=True)


@IN_ENVIRONMENT
def e2e_kind(session: nox.Session) -> None:
    """Play the catalogue on kind clusters and on the simulator, and compare; see docs/kind.md for what is needed."""
    need_kind(session)
    get_programs(session, name_nvidia_programs)
    try:
        session.env["KIND_NODE_IMAGE"] = kind_node_image.node_image() or ""
    except kind_node_image.ImageError as error:
        session.error(str(error))
    try:
        session.env["SIMKUBELET_PYTHON_IMAGE"] = python_image.python_image()
    except python_image.ImageError as error:
        (session.error if os.environ.get("CI") else session.warn)(f"the recipes of docs/ci.md are not played: {error}")
    session.run(BIN / "pytest", "tests/e2e_kind", "-v", "--durations=10", *ON_CLUSTERS, *session.posargs)


@nox.session(venv_backend="none", requires=["environment"], default=False)
def gpu(session: nox.Session) -> None:
    """Record this machine's NVIDIA GPUs, compare a fake machine made from that, and run the plugin on them.

    The recording stays in build/gpu/recorded.yaml; `-- --duration 60` records figures over time as well.
    """
    if not Path("/proc/driver/nvidia/version").exists():
        give_up(session, "no NVIDIA driver is loaded on this machine")
    recorded = Path("build", "gpu", "recorded.yaml")
    recorded.parent.mkdir(parents=True, exist_ok=True)
    session.run(BIN / "fakegpu", "record", "--anonymise", "-o", str(recorded), *session.posargs)
    session.run(BIN / "fakegpu", "diff", str(recorded))
    session.run(BIN / "python", "-m", "tools.check.plugin_on_gpus")


ORACLE_USAGE = argparse.ArgumentParser(prog="nox -s oracle --", epilog="Other arguments go to pytest.")
ORACLE_USAGE.add_argument(
    "--kubernetes", default=build_oracle.DEFAULT_MINOR, metavar="MINOR", choices=build_oracle.PINS.minors()
)
ORACLE_USAGE.add_argument("--all-versions", action="store_true", help="one Kubernetes minor after the other")
ORACLE_USAGE.add_argument("--long", action="store_true", help="a hundred times the examples, of a new seed: a night")
ORACLE_USAGE.add_argument("--seed", type=int, help="the one that a run with --long printed")


@ONE_PART
def oracle(session: nox.Session) -> None:
    """Compare the device manager with the kubelet's own, and the scheduler with the real one, built with Go."""
    chosen, for_pytest = ORACLE_USAGE.parse_known_args(session.posargs)
    if chosen.long and chosen.seed is None:
        chosen.seed = random.SystemRandom().randrange(2**32)
    if chosen.long:
        session.env["SIMKUBELET_ORACLE_ROUNDS"] = "100"
    if chosen.seed is not None:
        session.log(f"`-- --seed {chosen.seed}` gives the same examples again")
        session.env["SIMKUBELET_ORACLE_SEED"] = str(chosen.seed)
    for minor in build_oracle.PINS.minors() if chosen.all_versions else [chosen.kubernetes]:
        get_programs(session, partial(name_oracle, minor=minor))
        session.run(BIN / "pytest", "tests/oracle", *LONGEST_FIRST, *for_pytest, env=files_in_memory())


@nox.session(reuse_venv=False)
def wheel(session: nox.Session) -> None:
    """Install the built wheel into a fresh environment, away from the checkout, and use it."""
    with tempfile.TemporaryDirectory() as away:
        session.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", away, ".")
        (built,) = Path(away).glob("*.whl")
        claimed = {name.partition("/")[0] for name in zipfile.ZipFile(built).namelist() if ".dist-info/" not in name}
        if claimed != TOP_LEVEL_NAMES:
            session.error(f"{built.name} claims the names {sorted(claimed)}, not {sorted(TOP_LEVEL_NAMES)}")
        session.install(str(built), *(one for one in groups("types") if one.startswith("mypy")))
        with session.chdir(away):
            session.run("mypy", "--config-file=", "--follow-imports=silent", "--disallow-any-expr", "-c", PUBLIC_TYPES)
            use_installed(session)


def use_installed(session: nox.Session) -> None:
    """Use the commands of an installed wheel, with both of its libraries, in the working directory."""
    session.run("fakegpu", "profiles")
    session.run("simkubelet", "list", "--tag", "cdi")
    session.run("simkubelet", "run", "gopher-pending", "device-unhealthy", "--report", "report")


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Build the files of a release into dist/, and use the wheel of this machine; `-- --only TAG` chooses wheels."""
    install(session, *groups("release"), *PYPROJECT["build-system"]["requires"])
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "tools.build.release", "dist", *session.posargs)
    dist = Path("dist").resolve()
    wheels = list(map(str, dist.glob("*.whl")))
    session.run("twine", "check", "--strict", *wheels, *map(str, dist.glob("*.tar.gz")))
    for wheel_here in (one for one in wheels if f"manylinux_2_17_{platform.machine()}" in one):
        with tempfile.TemporaryDirectory() as away, session.chdir(away):
            session.install("--force-reinstall", wheel_here)
            use_installed(session)
        session.run("python", "-m", "tools.check.advisories")


@nox.session(default=False)
def protos(session: nox.Session) -> None:
    """Regenerate the kubelet's message stubs; with `-- --check` only compare."""
    install(session, *groups("protos"))
    session.run("python", "-m", "tools.generate.protos", *session.posargs)


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Look for inputs that a target fails at: `-- TARGET --seconds 600`; `-- --help` lists the targets."""
    install(session, "--editable", ".", *groups("fuzz"), *PYPROJECT["build-system"]["requires"])
    session.run("python", "-m", "tests.fuzz", *session.posargs, env=files_in_memory())


EMULATED = "trixie-arm64"
PLACES = {"suite": ("trixie", "forky", EMULATED), "rights": ("root", "user", "container")}
PLACE_COMMANDS = {
    "stories": ("./dev", "run", "--all"),
    **{part: ("./dev", "test", "-s", part, "--") for part in ("unit", "process", "e2e")},
}
# Some of each topic; a start of Python takes seconds there, and several at once more than a story waits.
EMULATED_STORIES = ("./dev", "run", "-n", "1")
PLACES_USAGE = argparse.ArgumentParser(prog="nox -s places --", epilog="Other arguments go to pytest.")
for name, values in (PLACES | {"part": tuple(PLACE_COMMANDS)}).items():
    PLACES_USAGE.add_argument(f"--{name}", action="append", choices=values, help="only this; all without it")


@nox.session(default=False, venv_backend="none")
def places(session: nox.Session) -> None:
    """Play all stories and run the tests on Python 3.13 and 3.14, as root, as a user and in a container.

    On arm64, which is emulated, some stories of each topic are played, as root and as a user. Root on Debian only, see
    `tools/in_place --help`; `-- --help` lists what can be chosen.
    """
    chosen, for_pytest = PLACES_USAGE.parse_known_args(session.posargs)
    if os.geteuid() != 0:
        give_up(session, "it makes root file systems, for which it must be root")
    wanted = (getattr(chosen, name) or values for name, values in PLACES.items())
    every = list(itertools.product(*wanted, chosen.part or PLACE_COMMANDS))
    possible = [one for one in every if one[0] != EMULATED or (one[1] != "container" and one[2] == "stories")]
    if not possible:
        session.error(f"on {EMULATED} there are stories alone, as root and as a user")
    failed = []
    for suite, rights, part in possible:
        command = EMULATED_STORIES if suite == EMULATED else PLACE_COMMANDS[part]
        arguments = () if part == "stories" else for_pytest
        try:
            session.run("tools/in_place", suite, rights, *command, *arguments, external=True)
        except CommandFailed:
            failed.append(f"{suite} {rights} {part}")
    if failed:
        session.error(f"failed, as said above: {', '.join(failed)}")


@nox.session(default=False, venv_backend="none", requires=["environment"])
def bench(session: nox.Session) -> None:
    """Measure and print JSON lines; arguments after `--` choose the benchmarks."""
    session.run(BIN / "python", "-m", "bench", *session.posargs)


@nox.session(default=False, venv_backend="none", requires=["environment"])
def endurance(session: nox.Session) -> None:
    """Let one node with ten plugins live through a day of faults; `-- --faults 1000 --hours 1 --seed 7` for less."""
    session.run(BIN / "python", "-m", "tools.endurance", *session.posargs)


@nox.session(default=False, venv_backend="none", requires=["environment"])
def kills(session: nox.Session) -> None:
    """Kill -9 and other signals at random moments, and compare; `-- kubelet signals --kills 100` for less."""
    session.run(BIN / "python", "-m", "tools.kills", *session.posargs)
