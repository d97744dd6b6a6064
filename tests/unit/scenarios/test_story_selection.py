from __future__ import annotations

from typing import Any

import pytest

from scenarios.backends.world.selection import chosen_file, chosen_gpu, numbered
from scenarios.story.verbs.file_action import RemoveFile
from scenarios.story.verbs.hardware_action import Fail
from scenarios.trace.snapshot import Snapshot
from simkubelet.model.errors import InputError, PluginError

UUIDS = ("GPU-c", "GPU-a", "GPU-b")


@pytest.fixture
def snapshot(frames: Any) -> Snapshot:
    taken: Snapshot = frames.frame(frames.pod(ids=("GPU-b", "GPU-c::0")), frames.pod("idle"))
    return taken


def selector(gpu: object) -> Any:
    return Fail.model_validate({"gpu": gpu, "xid": 79}).gpu


@pytest.mark.parametrize(
    ("gpu", "uuid"),
    [
        pytest.param(1, "GPU-a", id="index"),
        pytest.param("GPU-b", "GPU-b", id="UUID"),
        pytest.param({"heldBy": "trainer"}, "GPU-b", id="held, first by id"),
        pytest.param({"free": True}, "GPU-a", id="free; a shared GPU is held"),
    ],
)
def test_gpu_is_found(gpu: object, uuid: str, snapshot: Snapshot) -> None:
    assert chosen_gpu(selector(gpu), numbered(UUIDS), snapshot) == uuid


@pytest.mark.parametrize(
    ("gpu", "uuids", "error", "message"),
    [
        pytest.param(3, UUIDS, InputError, "no GPU 3; the node has 3, counted from 0", id="index"),
        pytest.param("GPU-x", UUIDS, InputError, "no GPU 'GPU-x'; the node has GPU-c, GPU-a, GPU-b", id="UUID"),
        pytest.param({"heldBy": "idle"}, UUIDS, PluginError, "pod 'idle' holds none", id="holds none"),
        pytest.param({"heldBy": "gone"}, UUIDS, PluginError, "pod 'gone' holds none", id="no such pod"),
        pytest.param({"free": True}, UUIDS[::2], PluginError, "no GPU is free", id="none free"),
    ],
)
def test_gpu_that_is_not_there_is_refused(
    gpu: object, uuids: tuple[str, ...], error: type[Exception], message: str, snapshot: Snapshot
) -> None:
    with pytest.raises(error, match=message):
        chosen_gpu(selector(gpu), numbered(uuids), snapshot)


def test_file_is_named_or_that_of_the_device_held(snapshot: Snapshot) -> None:
    by_path = RemoveFile.model_validate({"path": "/etc/gophers/g1"})
    by_holder = RemoveFile.model_validate({"directory": "/etc/gophers", "heldBy": "trainer"})
    by_idler = RemoveFile.model_validate({"directory": "/etc/gophers", "heldBy": "idle"})

    assert chosen_file(by_path, snapshot) == "/etc/gophers/g1"
    assert chosen_file(by_holder, snapshot) == "/etc/gophers/GPU-b"
    with pytest.raises(PluginError, match="pod 'idle' holds no device"):
        chosen_file(by_idler, snapshot)
