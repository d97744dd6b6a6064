"""Any sequence of calls about files has the same answers in a mount namespace and under a supervisor."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.file_calls import PROGRAM, calls
from tests.support.views import USER, Node, node_of

LONG = "long-" * 20
PYTHON = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin") or "python3"


@pytest.fixture(scope="module")
def host() -> Iterator[Path]:
    """A folder of the host that the user of the nodes owns."""
    with tempfile.TemporaryDirectory(prefix="skh-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "d" / "e").mkdir(parents=True)
        (folder / "f").write_text("host")
        for link, target in {"absolute": "/etc/skt", "relative": "d/e", "up": "../../../../etc/skt/f"}.items():
            (folder / link).symlink_to(target)
        if os.geteuid() == 0:
            for path in (folder, *folder.rglob("*")):
                try:
                    os.chown(path, USER, USER, follow_symlinks=False)
                except OSError as error:
                    pytest.skip(f"root gives nothing to another user here: {error}")
        yield folder


def furnish(node: Node) -> None:
    own, deep = node.folder / "own", node.folder / LONG / "deep"
    for folder in (own, deep, node.folder / "deep", node.folder / "tmp", node.root / "run/skt", node.root / "var"):
        folder.mkdir(parents=True)
    (own / "o").write_text("own")
    for path in ("/etc/skt/f", "/etc/skt/sub/g", "/opt/only/file", "/etc/hosts", "/proc/driver/skt/v", "/proc/version"):
        node.put(path, path)
    links = {"absolute": "/srv/own", "dangling": "nowhere", "loop": "/etc/sk-loop", "link": "skt/sub"}
    for link, target in links.items():
        (node.root / f"etc/sk-{link}").symlink_to(target)
    (node.root / "var/run").symlink_to("../run")
    (node.folder / "machine/dev").mkdir(parents=True)
    (node.folder / "machine/dev/gpu0").touch()
    (node.root / "dev").symlink_to(node.folder / "machine/dev")
    places = {
        "/srv/own": own,
        "/tmp": node.folder / "tmp",
        "/var/lib/skt/deep": node.folder / "deep",
        "/run/deep": deep,
    }
    node.view = replace(
        node.view,
        places=places,
        hidden=("/etc/pass*",),
        opened=("/etc", "/var/lib", "/run", "/opt", "/srv"),
        devices=node.folder / "machine/dev",
    )


def answers(kind: str, host: Path, made: list[tuple[object, ...]]) -> list[str]:
    """What each call answered, and the files of the node afterwards."""
    with node_of(kind) as node:
        furnish(node)
        text = json.dumps(made).replace("NODE", str(node.folder)).replace("HOST", str(host))
        seen = node.run(PYTHON, "-I", "-S", "-c", PROGRAM, text)
        left_out = {"_internal", "simkubelet-view"}
        files = [str(path) for path in sorted(node.folder.rglob("*")) if not left_out & set(path.parts)]
        said = "\n".join([seen.stdout, seen.stderr, str(seen.returncode), *files])
        return said.replace(str(node.folder), "NODE").replace(node.folder.name, "NAME").splitlines()


@given(made=calls)
@settings(
    max_examples=int(os.environ.get("SKT_SEQUENCES", "10")),
    # Others by the variable: a difference is one to look at, and seldom one that a plugin sees.
    derandomize="SKT_SEQUENCES" not in os.environ,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_calls_have_the_same_answers(host: Path, made: list[tuple[object, ...]]) -> None:
    before = untouched(host)

    by_mounts, by_supervisor = (answers(kind, host, made) for kind in ("ordinary", "ordinary traced"))

    assert by_supervisor == by_mounts
    assert untouched(host) == before


def untouched(host: Path) -> dict[Path, tuple[float, ...]]:
    """What shows that something was changed."""
    found = {path: path.lstat() for path in host.rglob("*")}
    return {path: (one.st_mode, one.st_uid, one.st_size, one.st_mtime) for path, one in found.items()}
