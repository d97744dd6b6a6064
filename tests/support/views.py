"""Programs in views of a node, by who runs them and how they are shown the node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from simkubelet._internal import enter_view, sandbox
from simkubelet._internal.native import find_supervisor
from simkubelet._internal.sandbox import NodeView
from simkubelet.host import one_line
from simkubelet.model.errors import HostError
from simkubelet.runtime import check_containers

from .patience import LIMIT_S

USER = 54321


class Node:
    """A node's folder that its user owns, and programs in views of it."""

    def __init__(self, folder: Path, prefix: list[str], supervisor: Path | None) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.view = NodeView(self.root, folder / "view", kept=(folder,))
        self.supervisor = supervisor
        self.has_own_network = False
        self.given_env: dict[str, str] = {}
        self._prefix = prefix
        self.root.mkdir()

    def put(self, path: str, content: str = "") -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
        return place

    def with_places(self, places: Mapping[str, Path]) -> NodeView:
        return replace(self.view, places=places)

    def own(self) -> None:
        """Give all of it to the user."""
        if "setpriv" in self._prefix:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, USER, USER, follow_symlinks=False)

    def argv(self, command: list[str]) -> list[str]:
        self.own()
        whole = sandbox.sandboxed(command, self.view, (), self.given_env, has_own_network=self.has_own_network)
        described, *argv = whole[len(sandbox._LAUNCHER) :]
        supervisor = str(self.supervisor) if self.supervisor else None
        described = json.dumps({**json.loads(described), "supervisor": supervisor})
        return [*(self._prefix or sandbox._LAUNCHER), described, *argv]

    def run(self, *command: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(list(command)),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            cwd=cwd or "/",
            env={**os.environ, **env},
        )

    def sh(self, script: str) -> subprocess.CompletedProcess[str]:
        return self.run("sh", "-c", script)


LACKING = {
    "landlock": "isolation.landlock_abi = lambda: 0",
    "idmap": "isolation._MOUNT_ATTR_IDMAP = 1 << 40",
}
"""What a kernel may lack -> the statement that lets it."""


def lacking(launcher: Sequence[str], features: Sequence[str]) -> list[str]:
    """A launcher where the kernel lacks some features."""
    begin = "".join(f"from _internal import isolation; {LACKING[feature]}; " for feature in features)
    changed = sandbox._PROGRAM.replace("from _internal import enter_view", f"{begin}from _internal import enter_view")
    return [changed if word == sandbox._PROGRAM else word for word in launcher]


def ordinary_user(folder: Path) -> list[str]:
    """How a program starts as a user without rights, whose Python need not be ours."""
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
    if os.geteuid() != 0 or shutil.which("setpriv") is None or python is None:
        pytest.skip("takes root, setpriv and a Python that any user may run")
    package = folder / "_internal"
    package.mkdir()
    for name in ("__init__", "enter_view", "guard", "isolation", "view_bindings", "view_tree"):
        shutil.copy(Path(enter_view.__file__).with_name(f"{name}.py"), package)
    user = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
    return [*user, python, "-I", "-S", "-c", sandbox._PROGRAM, str(folder)]


WAYS = ["own", "ordinary", "own traced", "ordinary traced"]
"""Who runs the plugin, and whether a supervisor shows it the node instead of a mount namespace."""


@contextmanager
def node_of(kind: str) -> Iterator[Node]:
    """A node for one of `WAYS`, or one whose kernel lacks something; the test is skipped where it cannot be."""
    with tempfile.TemporaryDirectory(prefix="sk-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        user, *features = kind.split()
        prefix = ordinary_user(folder) if user == "ordinary" else []
        # Its folder has the same files by each way.
        program = Path(shutil.copy(find_supervisor(), folder))
        supervisor = program if "traced" in features else None
        features = [feature for feature in features if feature != "traced"]
        if features:
            prefix = lacking(prefix or sandbox._LAUNCHER, features)
        trial = [*(prefix or sandbox._LAUNCHER), *([str(supervisor)] if supervisor else [])]
        tried = subprocess.run(trial, capture_output=True, text=True, check=False)
        if tried.returncode:
            pytest.skip(tried.stderr)
        yield Node(folder, prefix, supervisor)


@cache
def shared_line() -> str:
    """The first line of a run with containers where they share the machine's processes."""
    with suppress(HostError):
        if line := check_containers():
            return f"warning: {one_line(line)}\n"
    return ""
