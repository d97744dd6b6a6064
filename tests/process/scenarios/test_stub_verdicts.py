"""Options of the stub that make it a plugin of which the checks must not be mistaken, each with its right verdict."""

from __future__ import annotations

import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import pytest

from scenarios.conform.checks import all_checks, selected
from scenarios.conform.conform import Status
from scenarios.conform.profile import Profile
from scenarios.conform.tested_plugin import Subject, discovered
from simkubelet.model.errors import PluginError
from tests.support.conformance import statuses

RESOURCE = "example.com/device"
BY_ID = {check.id: check for check in all_checks()}
GOOD = (Status.PASSED, Status.SKIPPED)
FREE = "a free port"


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place for nodes' folders, with a short path: of a plugin that fails, the logs are kept."""
    with tempfile.TemporaryDirectory(prefix="sk-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield


async def stub(*options: str) -> Subject:
    """The stub with two devices and some options, as it is discovered."""
    devices = ("--device", "gpu-0", "--device", "gpu-1")
    command = (sys.executable, "-m", "simkubelet", "plugin", "stub", *devices, *options)
    return await discovered(Subject(command, Profile.model_validate({"wait": "5s"})), None)


@pytest.mark.parametrize(
    ("options", "checks", "faults"),
    [
        pytest.param(
            ["--empty", "example.com/none"],
            [
                "registration",
                "lists",
                "limits/list-size",
                "kubelet-restart/registers-again",
                "resources/sockets",
                "stream",
            ],
            {},
            id="two resources of which one is empty",
        ),
        pytest.param(
            ["--registers", "found", "--whole-path"],
            [
                "registration",
                "lists/health",
                "kubelet-restart/registers-again",
                "allocation/init-container",
                "limits/list-size",
                "hostile-kubelet/unknown-device",
                "resources/sockets",
                "stream",
            ],
            # The kubelet asks a socket that it has found once, and the stub does not make it again.
            {"stream/ends": Status.FAILED},
            id="an endpoint by its absolute path, which the kubelet finds",
        ),
        pytest.param(
            ["--registers", "found"],
            ["hostile-kubelet"],
            {"hostile-kubelet/found-refused": Status.FAILED},
            id="found once, and not after a refusal",
        ),
        pytest.param(["--registers", "found-again"], ["hostile-kubelet"], {}, id="found again after a refusal"),
        pytest.param(
            ["--socket", "stub-{second}.sock"],
            ["registration", "instances/killed", "resources/sockets", "shutdown"],
            {},
            id="sockets named by the second",
        ),
        pytest.param(
            ["--resend", "60"],
            ["lists", "registration", "stream/stays-open"],
            {"lists/unchanged": Status.WARNING},
            id="a list resent each minute",
        ),
        pytest.param(
            ["--registers", "once"],
            ["registration", "kubelet-restart", "clock/set-back", "hostile-kubelet/register-hangs", "resources"],
            {"kubelet-restart/registers-again": Status.FAILED},
            id="never registering again",
        ),
        pytest.param(["--topology"], ["lists", "allocation/paths"], {}, id="an empty topology"),
        pytest.param(
            ["--port", "47831"],
            ["registration", "instances", "kubelet-restart/registers-again"],
            {},
            id="a fixed TCP port",
        ),
    ],
)
async def test_option_gets_its_right_verdict(
    options: Sequence[str], checks: Sequence[str], faults: Mapping[str, Status]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        free = str(unused.getsockname()[1])
    subject = await stub(*(free if option == FREE else option for option in options))

    found = await statuses(subject, selected(all_checks(), checks, ()))

    assert (subject.resource, subject.count) == (RESOURCE, 2)
    assert {check: status for check, status in found.items() if status not in GOOD} == faults
    # A check says nothing where one that it needs has failed, and only there.
    left = [check for check in found if not subject.reason_to_skip(BY_ID[check].spec.needs)]
    assert Status.SKIPPED not in [found[check] for check in left] or Status.FAILED in faults.values()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(["--fails", "no driver"], r"its log says: \"E.* stub\] no driver … ", id="not the last line"),
        pytest.param(
            ["--whole-path"],
            "the kubelet refuses the plugin's registration: .* failed to dial device plugin",
            id="Register with an absolute path",
        ),
    ],
)
async def test_option_that_leaves_nothing_to_check_has_its_cause(options: Sequence[str], message: str) -> None:
    with pytest.raises(PluginError, match=message):
        await stub(*options)
