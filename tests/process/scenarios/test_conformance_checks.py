"""Each check of ``simkubelet conform`` with a plugin that passes all of them, and with one that is broken for it.

A broken plugin is played with its own check. With SIMKUBELET_EVERY_CHECK=1 it is played with every check, in half an
hour on two free cores.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from scenarios.conform.checks import Check, all_checks
from scenarios.conform.conform import Status
from scenarios.conform.profile import Profile
from scenarios.conform.tested_plugin import Subject, discovered
from scenarios.story.check_spec import Severity
from tests.support import broken_answers, broken_plugin
from tests.support.conformance import EVERY_CHECK, known, statuses, verdicts
from tests.support.doc_pages import the_block

ROOT = Path(__file__).parents[3]
CHECKS = [check for check in all_checks() if not check.spec.needs.found]
"""The plugins here call Register; those that the kubelet finds are in test_stub_verdicts.py."""
BY_ID = {check.id: check for check in CHECKS}
COMPANIONS = {
    # The answer for its first pod is lost, and the next pod asks for the same devices again.
    "allocation/asked-again": ("kubelet-restart/during-admission",),
    # A registration opens a stream, and a stream that has ended is opened again by a registration.
    "registration/once": ("stream/stays-open",),
    # The other one looks for seconds whether the devices stay.
    "stream/stays-open": ("registration/once", "instances/rolling-update"),
    # A kubelet ends the stream at a list that is too long.
    "limits/list-size": ("registration/once", "stream/stays-open"),
}
"""Check -> those that a plugin which is broken for it may fail as well, though they do not need it."""
FAULTS = (Status.FAILED, Status.WARNING, Status.UNKNOWN)
PROFILE = Profile.model_validate(
    {
        "env": {"PYTHONPATH": str(ROOT)},
        "break": {"createFile": {"path": broken_answers.BROKEN}},
        "heal": {"removeFile": {"path": broken_answers.BROKEN}},
        "many": {"count": broken_answers.MANY, "env": {"BROKEN_PLUGIN_COUNT": str(broken_answers.MANY)}},
        "wait": "3s",
        "watch": "4s",
    }
)
GOPHERS = ["/etc/gophers/g1", "/etc/gophers/g2"]
GROUPS = ("registration", "stream", "instances")
"""They tell most about a bundled plugin for their time."""
RACING = ("gpu-memory", "volcano")
"""Their second instance registers ten times a second. If the first one leaves while a registration is being refused,
kubelet 1.37 frees the socket's place, and the update succeeds; so `instances` has no verdict that is always the same.
"""
BUNDLED: Mapping[str, Mapping[str, Any]] = {
    "amd": {
        "amd": {"profile": "mi300x", "count": 2, "exporter": True},
        "break": {"failDevice": {"device": 0}},
        "heal": {"healDevice": {"device": 0}},
    },
    "generic": {"files": [{"path": "/etc/seats.yaml", "content": "resource: example.com/seat\ncount: 2\n"}]},
    "gpu-memory": {
        "gpus": {"profile": "t4", "count": 1},
        "api": True,
        "annotations": {
            "DOSLAB_IO_GPU_ASSUME_TIME": "1700000001000000000",
            "DOSLAB_IO_GPU_ASSIGNED": "false",
            "DOSLAB_IO_GPU_UUID": "GPU-of-pod",
        },
        "wait": "5s",
    },
    "gpushare": {
        "gpus": {"profile": "t4", "count": 2},
        "api": True,
        "resource": "aliyun.com/gpu-mem",
        "annotations": {
            "ALIYUN_COM_GPU_MEM_IDX": "0",
            "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1700000001000000000",
            "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
        },
        "break": {"fail": {"gpu": 0, "xid": 79}},
        "heal": {"heal": {"gpu": 0}},
        "breaks": 15,
        "wait": "5s",
    },
    "gopher": {
        "files": GOPHERS,
        "break": {"removeFile": {"path": GOPHERS[1]}},
        "heal": {"createFile": {"path": GOPHERS[1]}},
    },
    "iluvatar": {
        "iluvatar": {"count": 2},
        "files": [{"path": "/etc/ix-config", "content": "resourceName: iluvatar.com/gpu"}],
        "break": {"failDevice": {"device": 0}},
        "heal": {"healDevice": {"device": 0}},
    },
    "volcano": {
        "gpus": {"profile": "t4", "count": 2},
        "api": True,
        "env": {"GPU_MEMORY_FACTOR": "1024"},
        "annotations": {
            "volcano.sh/gpu-index": "1",
            "volcano.sh/predicate-time": "1700000001000000000",
        },
        "break": {"fail": {"gpu": 0, "xid": 79}},
        "heal": {"heal": {"gpu": 0}},
        "breaks": 15,
        "wait": "5s",
    },
}
ARGUMENTS = {
    "amd": ("--pulse", "1"),
    "generic": ("--config", "/etc/seats.yaml"),
    "gpushare": ("--health-check",),
    "iluvatar": ("--config-file", "/etc/ix-config"),
}


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place for nodes' folders, with a short path: of a plugin that fails, the logs are kept."""
    with tempfile.TemporaryDirectory(prefix="sk-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield


def plugin(fault: str = "") -> Subject:
    """The plugin with a fault, as it is discovered."""
    return Subject(
        (sys.executable, "-m", "tests.support.broken_plugin", fault),
        PROFILE,
        broken_plugin.RESOURCE,
        broken_answers.COUNT,
        (broken_plugin.RESOURCE,),
        frozenset({"preStart", "preferredAllocation"}),
    )


async def test_plugin_is_discovered() -> None:
    unknown = Subject(plugin().command, PROFILE)

    assert await discovered(unknown, None) == plugin()


async def test_good_plugin_passes_every_check() -> None:
    found = await statuses(plugin(), CHECKS)

    assert found == dict.fromkeys(found, Status.PASSED)


OWN: Mapping[str, Mapping[str, Any]] = {
    "stub": {
        "files": ["/etc/stub/gpu-2"],
        "break": {"removeFile": {"path": "/etc/stub/gpu-2"}},
        "heal": {"createFile": {"path": "/etc/stub/gpu-2"}},
    },
    "page": {
        "files": ["/srv/seats/aisle", "/srv/seats/middle", "/srv/seats/window"],
        "break": {"removeFile": {"path": "/srv/seats/window"}},
        "heal": {"createFile": {"path": "/srv/seats/window"}},
    },
}


def own_command(name: str, folder: Path) -> tuple[str, ...]:
    """What starts the stub with all that it offers, or the plugin of docs/write-a-plugin.md."""
    if name == "page":
        (folder / "seats.py").write_text(the_block("docs/write-a-plugin.md", "import sys"))
        return (sys.executable, str(folder / "seats.py"))
    devices = [word for number in range(3) for word in ("--device", f"gpu-{number}")]
    options = ("--pre-start", "--preferred-allocation", "--file", "gpu-2=/etc/stub/gpu-2")
    return (sys.executable, "-m", "simkubelet", "plugin", "stub", *devices, *options)


@pytest.mark.parametrize("name", OWN)
async def test_own_plugin_passes_every_check(name: str) -> None:
    command = own_command(name, Path(tempfile.gettempdir()))
    subject = await discovered(Subject(command, Profile.model_validate(OWN[name])), None)

    found = await statuses(subject, CHECKS)

    assert found == {
        check.id: Status.SKIPPED if subject.reason_to_skip(check.spec.needs) else Status.PASSED for check in CHECKS
    }


def failed(check: Check) -> Status:
    return Status.WARNING if check.spec.severity is Severity.WARNING else Status.FAILED


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
async def test_broken_plugin_fails_its_check_alone(check: Check) -> None:
    found = await statuses(plugin(check.id), CHECKS if EVERY_CHECK else [check])

    assert found.pop(check.id) is failed(check)
    others = {one: status for one, status in found.items() if status not in (Status.PASSED, Status.SKIPPED)}
    assert others == {one: failed(BY_ID[one]) for one in COMPANIONS.get(check.id, ()) if one in others}


@pytest.mark.parametrize("name", BUNDLED)
async def test_bundled_plugin_gets_the_verdicts_of_the_page(name: str) -> None:
    groups = GROUPS[:-1] if name in RACING else GROUPS
    expected = known(f"`{name}`", groups)
    command = (sys.executable, "-m", "simkubelet", "plugin", name, *ARGUMENTS.get(name, ()))

    assert await verdicts(command, BUNDLED[name], groups) == expected
