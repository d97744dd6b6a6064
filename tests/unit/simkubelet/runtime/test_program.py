from __future__ import annotations

import base64
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from simkubelet.cluster import Objects, Store, WallTime
from simkubelet.cluster.objects.objects import Key
from simkubelet.model.clock import ManualClock
from simkubelet.model.errors import InputError
from simkubelet.model.pod import pod_from_manifest
from simkubelet.runtime.container_runtime import ContainerStartError
from simkubelet.runtime.program import (
    ContainerConfigError,
    Program,
    check_mounts,
    environment,
    expand,
    program_of,
    sub_path,
)


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


@pytest.mark.parametrize(
    ("mount", "path"),
    [
        ({}, ""),
        ({"subPath": "$(A)"}, "$(A)"),
        ({"subPathExpr": "logs/$(A)/$$(A)"}, "logs/1/$(A)"),
    ],
)
def test_mount_begins_where_its_variables_say(mount: dict[str, str], path: str) -> None:
    assert sub_path(mount, {"A": "1"}) == path


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("$(b)$(Z)$(EMPTY)$(A)", "missing value for EMPTY, Z, b"),
        ("$(ROOT)", "error SubPath `/etc` must not be an absolute path"),
        ("x/$(UP)", "unable to provision SubPath `x/../y`: must not contain '..'"),
    ],
)
def test_mount_that_cannot_begin_there_has_the_kubelets_words(expression: str, why: str) -> None:
    mounts = [{"name": "v", "mountPath": "/v", "subPathExpr": expression}]
    spec = {"containers": [{"name": "c", "volumeMounts": mounts}]}
    pod = pod_from_manifest({"metadata": {"name": "p"}, "spec": spec})

    with pytest.raises(ContainerConfigError) as error:
        check_mounts(pod, pod.containers[0], {"A": "1", "EMPTY": "", "ROOT": "/etc", "DOTS": ".."}, {"UP": "../y"})

    assert str(error.value) == why


def test_variables_see_the_earlier_ones_of_the_pod_and_commands_the_plugins_too():
    env = [{"name": "B", "value": "$(C)"}, {"name": "C", "value": "c"}, {"name": "D", "value": "$(C)$(P)"}]

    seen = program({"P": "p", "C": "plugin"}, env=env, command=["$(D)"], args=["$(P)"])

    assert seen.env == {"P": "p", "B": "$(C)", "C": "c", "D": "c$(P)"}
    assert seen.argv == ("c$(P)", "p")


def test_what_the_manifest_leaves_open():
    assert program() == Program((), "/", {}, "/dev/termination-log", is_log_the_message=False)


def test_init_container_is_found_by_its_name():
    spec = {
        "initContainers": [{"name": "i", "args": ["run"]}],
        "containers": [{"name": "c", "image": "x", "command": ["serve"]}],
    }
    pod = pod_from_manifest({"metadata": {"name": "p"}, "spec": spec})

    assert [program_of(pod, container, {}).argv for container in pod.containers] == [("run",), ("serve",)]


@pytest.mark.parametrize("command", ["sleep 5", [5]])
def test_command_that_is_not_a_list_of_texts_is_reported(command):
    with pytest.raises(InputError, match="pod 'p': container 'c': command: must be a list of texts"):
        program(command=command)


def doubled(count: int) -> list[dict[str, str]]:
    return [{"name": "E0", "value": "x"}, *({"name": f"E{i}", "value": f"$(E{i - 1})" * 2} for i in range(1, count))]


@pytest.mark.parametrize(
    "container",
    [
        pytest.param({"env": doubled(40)}, id="each-names-the-one-before-twice"),
        pytest.param({"env": [{"name": "V", "value": "x" * 131_072}]}, id="one-long-variable"),
        pytest.param({"env": [{"name": f"V{i}", "value": "x" * 100_000} for i in range(21)]}, id="many-variables"),
        pytest.param({"env": doubled(16), "args": ["$(E15)" * 5]}, id="one-long-argument"),
        pytest.param({"env": doubled(16), "args": ["$(E15)"] * 80}, id="many-arguments"),
        pytest.param({"args": ["x" * 131_072]}, id="a-literal-argument"),
    ],
)
def test_more_text_than_the_kernel_takes_is_refused_without_being_made(container):
    tracemalloc.start()
    try:
        with pytest.raises(ContainerStartError, match=r"exec run: argument list too long: unknown$"):
            program(command=["run"], **container)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 10_000_000


def test_as_much_text_as_the_kernel_takes_is_given():
    made = program({"P": "x" * 131_069}, env=doubled(17), args=["$(P)", "x" * 131_071])

    assert len(made.env["E16"]) == 2**16
    assert [len(argument) for argument in made.argv] == [131_069, 131_071]


async def test_container_with_more_variables_than_the_kernel_takes_does_not_start(node):
    container = {"name": "c", "image": "none", "command": ["run"], "env": doubled(40)}

    pod = node.pod(None, containers=[container])

    await node.until(lambda: "Failed" in dict(node.pod_events(pod)))
    text = dict(node.pod_events(pod))["Failed"]
    assert text.endswith("error during container init: exec run: argument list too long: unknown")
    assert node.container(pod).last_state.reason == "StartError"


@pytest.fixture
def objects() -> Objects:
    objects = Objects(WallTime(ManualClock()))
    objects.create(Key("configmaps", "default", "c"), {"data": {"a": "1", "b": "$(X)"}})
    objects.create(Key("secrets", "default", "s"), {"data": {"token": base64.b64encode(b"secret").decode()}})
    return objects


def variables(objects: Objects, **container: Any) -> dict[str, str]:
    spec = {"containers": [{"name": "main", "image": "none", **container}], "nodeName": "node-1"}
    pod = pod_from_manifest({"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": spec})
    return dict(environment(pod, pod.containers[0], Store(objects, lambda event: None)))


def from_(**source: Any) -> list[dict[str, Any]]:
    return [{"name": "V", "valueFrom": source}]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"configMapKeyRef": {"name": "c", "key": "a"}}, "1"),
        ({"secretKeyRef": {"name": "s", "key": "token"}}, "secret"),
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "node-1"),
        ({"fieldRef": {"fieldPath": "metadata.labels['app']"}}, "x"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['none']"}}, ""),
    ],
)
def test_variable_has_the_value_of_its_source(objects: Objects, source: dict[str, Any], value: str) -> None:
    assert variables(objects, env=from_(**source)) == {"V": value}


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "a"}}, 'configmap "none" not found'),
        ({"secretKeyRef": {"name": "none", "key": "a"}}, 'secret "none" not found'),
        ({"configMapKeyRef": {"name": "c", "key": "x"}}, "couldn't find key x in ConfigMap default/c"),
        ({"secretKeyRef": {"name": "s", "key": "x"}}, "couldn't find key x in Secret default/s"),
    ],
)
def test_source_that_is_not_there_is_named_unless_optional(objects: Objects, source: dict[str, Any], why: str) -> None:
    with pytest.raises(ContainerConfigError) as error:
        variables(objects, env=from_(**source))
    assert str(error.value) == why

    ((kind, reference),) = source.items()
    assert variables(objects, env=from_(**{kind: {**reference, "optional": True}})) == {}


def test_own_variables_go_before_those_of_a_whole_config_map(objects: Objects) -> None:
    found = variables(
        objects,
        envFrom=[{"configMapRef": {"name": "c"}, "prefix": "P_"}, {"secretRef": {"name": "none", "optional": True}}],
        env=[{"name": "P_a", "value": "own"}],
    )
    assert found == {"P_a": "own", "P_b": "$$(X)"}


def test_value_of_a_config_map_is_taken_to_the_letter(objects: Objects) -> None:
    spec = {"containers": [{"name": "main", "image": "none", "env": [{"name": "X", "value": "x"}]}]}
    pod = pod_from_manifest({"metadata": {"name": "p"}, "spec": spec})
    (container,) = pod.containers
    taken = replace(container, env=variables(objects, env=from_(configMapKeyRef={"name": "c", "key": "b"})))

    assert program_of(pod, taken, {}).env == {"V": "$(X)"}
