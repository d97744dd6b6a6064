"""Every command of the line protocol is answered with the same fields by the real manager's program and by ours."""

from __future__ import annotations

import pytest

from simkubelet.model.version import DEFAULT
from tests.support.kubelet_sides import Programs, Sides
from tests.support.protocol import DEVICES, RESOURCE, WITH_PLUGIN, WITHOUT_PLUGIN, Example

pytestmark = pytest.mark.oracle

# Other tests check the values; here, the fields of an answer.
ALWAYS = {"cmd", "ok", "us", "t"}


def test_every_command_is_answered_with_its_fields(sides: Sides, oracle_programs: Programs):
    for example in WITHOUT_PLUGIN:
        check(sides, example, oracle_programs.minor)
    sides.reset("a", socket="stub.sock", resource=RESOURCE)
    sides.ask("a", "set_devices", devices=[{"id": device, "health": "Healthy"} for device in DEVICES])
    sides.ask("a", "register")
    for example in WITH_PLUGIN:
        check(sides, example, oracle_programs.minor)
    for side in sides.both:
        side.programs["a"].ask("stop_server")
        # The kubelet's start settings would stay for the next test.
        side.respawn_kubelet()
        side.clear_folder()


def check(sides: Sides, example: Example, minor: str) -> None:
    real, ours = (side.programs["kubelet"].ask(example.cmd, **example.fields) for side in sides.both)
    if minor != DEFAULT and real["ok"] is example.fails:
        # What this minor does not have.
        assert ours.get("error") == real.get("error"), example.cmd
        return
    for answer in (real, ours):
        assert answer["ok"] is not example.fails, (example.cmd, answer)
        assert set(answer) == ALWAYS | set(example.answered), (example.cmd, answer)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"start", id="no JSON"),
        pytest.param(b'["start"]', id="a list"),
        pytest.param(b"{}", id="no command"),
        pytest.param(b'{"cmd": 1}', id="a number for a command"),
        pytest.param(b'{"cmd": "begin"}', id="unknown command"),
        pytest.param(b'{"cmd": "add_pod", "uid": 1}', id="a number for a text"),
        pytest.param(b'{"cmd": "allocate", "pod": "u1"}', id="no container"),
        pytest.param(b'{"cmd": "await", "name": "x"}', id="await nothing"),
    ],
)
def test_invalid_line_is_an_error_to_both(sides: Sides, line: bytes):
    for side in sides.both:
        program = side.programs["kubelet"]
        program.tell_line(line)

        answer = program.hear()

        assert (answer["ok"], bool(answer["error"])) == (False, True), side.name
        assert program.ask("now")["ok"]
