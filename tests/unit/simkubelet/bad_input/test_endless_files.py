"""Files without an end, of any depth or with aliases of aliases keep no reader of a node or a cluster busy."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from simkubelet.cdi import CdiRegistry
from simkubelet.model.errors import InputError
from simkubelet.node_tree import FileTree
from simkubelet.pods.static_pods import read_static_pods
from simkubelet.remote import read_kubeconfig

LAUGHS = "a0: &a0 {x: y}\n" + "".join(
    f"a{number}: &a{number} {{<<: [{', '.join([f'*a{number - 1}'] * 9)}]}}\n" for number in range(1, 9)
)
MUCH_CPU_S = 10


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def written(text: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(text) and None


HOSTILE = [
    pytest.param(pipe, id="pipe"),
    pytest.param(endless, id="device"),
    pytest.param(sparse, id="large"),
    pytest.param(written("[" * 100_000), id="brackets"),
    pytest.param(written("- " * 100_000), id="dashes"),
    pytest.param(written('{"a":' * 5_000 + "1" + "}" * 5_000), id="objects"),
    pytest.param(written(LAUGHS), id="laughs"),
    pytest.param(written("a: &a [*a]"), id="itself"),
    pytest.param(written("a: !!bool x"), id="no value of its type"),
    pytest.param(written("{" + "".join(f'"{number}": 1,' for number in range(100_000)) + '"0": 2}'), id="duplicate"),
]


@pytest.fixture(autouse=True)
def _short() -> object:
    began = time.process_time()
    yield
    assert time.process_time() - began < MUCH_CPU_S


@pytest.mark.parametrize("make", HOSTILE)
def test_cdi_folder_with_a_hostile_file_is_read(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "spec.json")
    make(tmp_path / "spec.yaml")

    registry = CdiRegistry.load(FileTree(tmp_path), ["/"])

    assert [problem.split(":")[0] for problem in registry.problems] == [
        "//spec.json",
        "//spec.yaml",
    ]


@pytest.mark.parametrize("make", HOSTILE)
async def test_static_pods_beside_a_hostile_file_are_read(
    make: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path / "hostile.yaml")
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}"
    (tmp_path / "pod.yaml").write_text(pod)

    with caplog.at_level(logging.ERROR):
        pods = await read_static_pods(tmp_path, "node-1", tmp_path)

    assert [one.name for one in pods.values()] == ["p-node-1"]
    if make is sparse:
        assert caplog.messages == [
            f"Could not process manifest file: {tmp_path}/hostile.yaml: the read limit is reached"
        ]


@pytest.mark.parametrize("make", HOSTILE[1:])
def test_hostile_kubeconfig_is_refused_in_one_line(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "config")

    with pytest.raises(InputError, match="kubeconfig") as caught:
        read_kubeconfig(tmp_path / "config")

    assert "\n" not in str(caught.value)
