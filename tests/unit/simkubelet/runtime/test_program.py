from __future__ import annotations

import pytest

from simkubelet.model.errors import InputError
from simkubelet.model.pod import pod_from_manifest
from simkubelet.runtime.program import Program, expand, program_of


def program(plugin_env: dict[str, str] | None = None, **container: object) -> Program:
    pod = pod_from_manifest({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", **container}]}})
    return program_of(pod, pod.containers[0], plugin_env or {})


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)-$(A.b)", "1-2"),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(A", "$(A"),
        ("$A $ $", "$A $ $"),
        ("$()", "$()"),
        ("$($(A))", "$($(A))"),
    ],
)
def test_references_are_expanded(text, expanded):
    assert expand(text, {"A": "1", "A.b": "2"}) == expanded


def test_variables_see_the_earlier_ones_of_the_pod_and_commands_the_plugins_too():
    env = [{"name": "B", "value": "$(C)"}, {"name": "C", "value": "c"}, {"name": "D", "value": "$(C)$(P)"}]

    seen = program({"P": "p", "C": "plugin"}, env=env, command=["$(D)"], args=["$(P)"])

    assert seen.env == {"P": "p", "B": "$(C)", "C": "c", "D": "c$(P)"}
    assert seen.argv == ("c$(P)", "p")


def test_what_the_manifest_leaves_open():
    assert program() == Program((), "/", {}, "/dev/termination-log", is_log_the_message=False)


def test_init_container_is_found_by_its_name():
    spec = {"initContainers": [{"name": "i", "args": ["run"]}], "containers": [{"name": "c", "command": ["serve"]}]}
    pod = pod_from_manifest({"metadata": {"name": "p"}, "spec": spec})

    assert [program_of(pod, container, {}).argv for container in pod.containers] == [("run",), ("serve",)]


@pytest.mark.parametrize("command", ["sleep 5", [5]])
def test_command_that_is_not_a_list_of_texts_is_reported(command):
    with pytest.raises(InputError, match="pod 'p': container 'c': command: must be a list of texts"):
        program(command=command)
