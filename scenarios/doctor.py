"""``simkubelet doctor``: what this machine can do, and the command that adds what is missing.

Each check tries what it is about, as a run would, and leaves nothing behind. What is needed to play stories is apart
from what only some stories, backends or tests need.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from simkubelet.host import CHECKOUT, check_sandbox, find_library
from simkubelet.model.errors import HostError, SimkubeletError


class State(StrEnum):
    """What came of a check."""

    OK = "ok"
    LIMITED = "limited"
    """It works, but not for all that it is good for."""
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found: its state, details for people, and the command that adds what is missing, if there is one."""

    state: State
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a machine can do or not.

    Attributes:
        purpose: What it is good for.
        run: Tries it.
        is_needed: Whether no story can be played without it.
    """

    name: str
    purpose: str
    run: Callable[[], Found]
    is_needed: bool = False


_TIMEOUT_S: Final = 15
_SYSCTL: Final = Path("/proc/sys")
_MANY_FILES: Final = 4096
_MANY_INSTANCES: Final = 1024
"""As many inotify instances as `tools/with_kind` gives a machine, for the nodes of a few kind clusters."""
_LONG_NODE_NAME: Final = "node-with-gpus-1"
_LONG_SOCKET_NAME: Final = "nvidia-mig-1g.10gb.sock"
_INSTALLERS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "apt-get": (
        "apt-get install -y",
        {"C compiler": "gcc libc6-dev", "docker": "docker.io", "Go": "golang-go", "kubectl": "kubernetes-client"},
    ),
    "dnf": ("dnf install -y", {"docker": "moby-engine", "Go": "golang", "kubectl": "kubernetes-client"}),
    "apk": ("apk add", {"C compiler": "build-base", "Go": "go"}),
    "pacman": ("pacman -S", {"Go": "go"}),
}
"""Program that installs packages -> how it is called, and the packages whose names are not those of `_PACKAGES`."""
_PACKAGES: Final = {
    "bubblewrap": "bubblewrap",
    "C compiler": "gcc",
    "docker": "docker",
    "Go": "go",
    "kubectl": "kubectl",
}


def _as_root(command: str) -> str:
    return command if os.geteuid() == 0 else f"sudo {command}"


def _install(name: str) -> str:
    """The command that installs what a check is about, with the package manager of this machine."""
    if name == "kubectl" and shutil.which("snap"):
        return _as_root("snap install kubectl --classic")
    for program, (command, packages) in _INSTALLERS.items():
        if shutil.which(program):
            return _as_root(f"{command} {packages.get(name, _PACKAGES[name])}")
    return ""


def _first_line(*command: str) -> str | None:
    """The first line that a program writes; None where it is not there, fails or takes too long."""
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.strip().partition("\n")[0] if ran.returncode == 0 else None


def _program(name: str, *command: str) -> Found:
    """A program by the line in which it names its version."""
    if shutil.which(command[0]) is None:
        return Found(State.MISSING, f"no program '{command[0]}' on the PATH", _install(name))
    line = _first_line(*command)
    return Found(State.OK, line) if line else Found(State.MISSING, f"'{' '.join(command)}' fails", _install(name))


def _libraries() -> Found:
    from fakegpu import FakeGpuError, Machine

    try:
        find_library()
        with tempfile.TemporaryDirectory(prefix="sk-") as folder:
            Machine.create(f"{folder}/machine", profile="t4", count=1).destroy()
    except (FakeGpuError, SimkubeletError) as error:
        compiler = "" if _compiler() else f"{_install('C compiler')} && "
        return Found(State.MISSING, str(error), f"{compiler}pip install --editable {CHECKOUT}")
    except OSError:
        return Found(State.LIMITED, "not tried: the temporary folder cannot be used")
    return Found(State.OK, "a fake GPU was made")


def _temporary_folder() -> Found:
    from simkubelet.devices import check_socket_path
    from simkubelet.node_tree import DEVICE_PLUGINS

    from .backends.world.folders import SHARED_MEMORY, default_place

    # As the folders of nodes are made: a link does not make a path shorter.
    place = Path(os.path.realpath(default_place()))
    try:
        with tempfile.TemporaryDirectory(prefix="sk-", dir=place) as folder:
            check_socket_path(Path(folder, _LONG_NODE_NAME, DEVICE_PLUGINS, _LONG_SOCKET_NAME))
    except OSError as error:
        return Found(State.MISSING, f"{place}: {error.strerror}", "export TMPDIR=/var/tmp")
    except SimkubeletError as error:
        return Found(State.MISSING, str(error), "export TMPDIR=/tmp")
    return Found(State.OK, f"{place}, in memory" if place == SHARED_MEMORY else str(place))


def _inotify() -> Found:
    import asyncio

    from simkubelet.apis.inotify import Mask, PathWatch

    async def try_one() -> None:
        with PathWatch() as watch:
            watch.add(Path("/"), Mask.CREATE)

    more = _as_root(f"sysctl fs.inotify.max_user_instances={_MANY_INSTANCES}")
    limit = _number("fs/inotify/max_user_instances")
    try:
        asyncio.run(try_one())
    except OSError as error:
        return Found(State.MISSING, f"no instance can be made: {error.strerror}; a user may have {limit}", more)
    if limit is not None and limit < _MANY_INSTANCES:
        return Found(State.LIMITED, f"a user may have {limit} instances; kind nodes may need more", more)
    return Found(State.OK, f"a user may have {limit} instances")


def _open_files() -> Found:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _MANY_FILES:
        more = _as_root("prlimit --pid $$ --nofile=65536:65536")
        return Found(State.LIMITED, f"at most {hard}, enough for {hard // 10} nodes", more)
    return Found(State.OK, f"{soft}, which a run raises to {'any number' if hard < 0 else hard}")


def _number(sysctl: str) -> int | None:
    try:
        return int((_SYSCTL / sysctl).read_text())
    except (OSError, ValueError):
        return None


def _allow_namespaces() -> str:
    """The command that lets the kernel make user namespaces; empty where it is not known what refuses them."""
    if _number("kernel/apparmor_restrict_unprivileged_userns"):
        return _as_root("sysctl kernel.apparmor_restrict_unprivileged_userns=0")
    if _number("kernel/unprivileged_userns_clone") == 0:
        return _as_root("sysctl kernel.unprivileged_userns_clone=1")
    if _number("user/max_user_namespaces") == 0:
        return _as_root("sysctl user.max_user_namespaces=15000")
    return ""


def _user_namespaces() -> Found:
    if shutil.which("unshare") is None:
        return Found(State.LIMITED, "not tried: there is no program 'unshare' (util-linux)")
    if _first_line("unshare", "--user", "echo", "made") == "made":
        return Found(State.OK, "one was made")
    return Found(State.MISSING, "the kernel refuses them", _allow_namespaces())


def _node_view() -> Found:
    try:
        return Found(State.OK, check_sandbox())
    except HostError as error:
        return Found(State.MISSING, str(error), _allow_namespaces())


def _containers() -> Found:
    from simkubelet.runtime import check_containers

    fix = _allow_namespaces() if shutil.which("bwrap") else _install("bubblewrap")
    try:
        shared = check_containers()
    except HostError as error:
        return Found(State.MISSING, str(error), fix)
    if shared:
        return Found(State.LIMITED, shared, _allow_namespaces())
    return Found(State.OK, _first_line("bwrap", "--version") or "a container was made")


def _selectors() -> Found:
    if find_spec("cel_expr_python") is None:
        return Found(State.MISSING, "no Python package cel-expr-python", "pip install cel-expr-python")
    return Found(State.OK, "cel-expr-python")


def _memory_bound() -> Found:
    from simkubelet.host import memory_for_programs, version_of_cgroups

    most = f"{memory_for_programs() / 2**30:.1f} GiB"
    version = version_of_cgroups()
    if version:
        return Found(State.OK, f"cgroup v{version}: a container has its limit, all together {most}")
    by_systemd = "systemd-run --user --scope $SHELL" if os.geteuid() != 0 and shutil.which("systemd-run") else ""
    detail = f"no cgroup can be made; the kernel ends them first, and a process of a container may have {most}"
    return Found(State.LIMITED, detail, by_systemd)


def _compiler() -> str | None:
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    return next((path for name in names if name and (path := shutil.which(name))), None)


def _c_compiler() -> Found:
    if compiler := _compiler():
        return Found(State.OK, _first_line(compiler, "--version") or compiler)
    return Found(State.MISSING, "none of cc, gcc, clang is on the PATH", _install("C compiler"))


def _with_kind() -> str:
    """What installs docker and kind for a command, in a checkout."""
    script = CHECKOUT / "tools" / "with_kind"
    return f"{script} simkubelet run kubelet-restart --backend kind" if script.is_file() else ""


def _docker() -> Found:
    if shutil.which("docker") is None:
        return Found(State.MISSING, "no program 'docker' on the PATH", _with_kind() or _install("docker"))
    version = _first_line("docker", "info", "--format", "{{.ServerVersion}}")
    if version:
        return Found(State.OK, f"daemon {version}")
    return Found(State.MISSING, "no docker daemon answers", _with_kind() or _as_root("systemctl start docker"))


def _kind() -> Found:
    if missing := [package for package in ("kr8s", "httpx") if find_spec(package) is None]:
        return Found(State.MISSING, f"no Python package {missing[0]}", "pip install kr8s")
    found = _program("kubectl", "kind", "version")
    build = "go install sigs.k8s.io/kind@latest"
    if found.state is State.OK:
        return found
    return Found(found.state, found.detail, _with_kind() or (build if shutil.which("go") else ""))


def _gpu() -> Found:
    line = _first_line("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    if line is None:
        return Found(State.MISSING, "no program 'nvidia-smi' finds a GPU")
    name, _, driver = line.partition(", ")
    return Found(State.OK, f"{name}, driver {driver}")


CHECKS: Final = (
    Check("C libraries", "fake GPUs and checkpoints", _libraries, is_needed=True),
    Check("temporary folder", "the nodes of a run, whose sockets need short paths", _temporary_folder, is_needed=True),
    Check("inotify", "plugins and kubelets notice each other's sockets", _inotify, is_needed=True),
    Check("open files", "many nodes and stories at a time", _open_files),
    Check("node view", "plugins that have a node's paths built in: most commands", _node_view),
    Check("containers", "containers that run: `runtime: process`", _containers),
    Check("user namespaces", "containers that run, and separated plugins, without root", _user_namespaces),
    Check("selectors", "claims and classes that choose devices by CEL", _selectors),
    Check("memory bound", "containers and plugins that take all memory", _memory_bound),
    Check("docker", "stories on a real cluster: `run --backend kind`", _docker),
    Check("kind", "stories on a real cluster: `run --backend kind`", _kind),
    Check("kubectl", "clusters of `simkubelet up`", lambda: _program("kubectl", "kubectl", "version", "--client")),
    Check("C compiler", "building from a checkout", _c_compiler),
    Check("Go", "tests against Kubernetes' and NVIDIA's own code", lambda: _program("Go", "go", "version")),
    Check("real GPU", "`fakegpu record` and plugins on real GPUs; stories need none", _gpu),
)


def examine(checks: Iterable[Check] = CHECKS) -> tuple[list[tuple[Check, Found]], int]:
    """Make all checks.

    Returns:
        What each found, and the exit status: 0 where stories can be played.
    """
    found = [(check, check.run()) for check in checks]
    is_playable = all(result.state is not State.MISSING for check, result in found if check.is_needed)
    return found, 0 if is_playable else HostError.exit_status


def lines(found: Iterable[tuple[Check, Found]], status: int) -> Iterable[str]:
    """The report for people."""
    results = list(found)
    for title, is_needed in (("Needed to play stories:", True), ("For more:", False)):
        yield title
        for check, result in results:
            if check.is_needed is is_needed:
                yield f"  {result.state:<8} {check.name:<17} {check.purpose}"
                yield f"           {'':<17} {result.detail}"
                if result.fix:
                    yield f"           {'':<17} add it: {result.fix}"
        yield ""
    yield "Stories can be played here." if status == 0 else "Stories cannot be played here; see what is missing above."


def document(found: Iterable[tuple[Check, Found]], status: int) -> str:
    """The report for programs, as JSON."""
    checks = [
        {"name": check.name, "purpose": check.purpose, "isNeeded": check.is_needed, **asdict(result)}
        for check, result in found
    ]
    return json.dumps({"canPlay": status == 0, "checks": checks}, indent=2)
