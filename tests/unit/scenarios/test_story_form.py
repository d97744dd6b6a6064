"""Documents that are no story: each problem of form, with its place in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.story.crosscheck import Known
from scenarios.story.part import is_condition, parse_duration
from tests.support.stories import expect_problems

POD = "apply: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: x}]}}"
OK = "expect: {node: node-1, capacity: {r: 1}}"

# Text after the name and description (lines 1 and 2), and all problems without the file's name.
WRONG = [
    pytest.param(
        "steps:\n- expect:\n    node: node-1\n    capacty: {r: 1}",
        ["6:5: steps[0].expect.capacty: unknown key; did you mean 'capacity'?"],
        id="misspelt key",
    ),
    pytest.param(
        "steps:\n- restartKublet: {}",
        ["4:3: steps[0].restartKublet: unknown key; did you mean 'restartKubelet'?"],
        id="misspelt verb",
    ),
    pytest.param(f"steps:\n- {OK}\nxyzzy: 1", ["5:1: xyzzy: unknown key"], id="unknown key like no other"),
    pytest.param(
        f"steps:\n- fail: {{gpu: {{heldB: p}}, xid: 79}}\n- {OK}",
        ["4:16: steps[0].fail.gpu.heldB: unknown key; did you mean 'heldBy'?"],
        id="misspelt key is not missing, too",
    ),
    pytest.param(
        "steps:\n- fail: {gpu: 0}",
        ["4:9: steps[0].fail: says nothing about the fault; add 'xid', 'lost: true' or both"],
        id="no fault",
    ),
    pytest.param(
        "steps:\n- signalPlugin: {plugin: p}\n- refuseCri: {calls: [Statu, ListContainers]}\n- createFolder: {path: a}",
        [
            "4:17: steps[0].signalPlugin: missing key 'signal'",
            "5:23: steps[1].refuseCri.calls[0]: expected 'Status', 'ListPodSandbox' or 'ListContainers'; "
            "found \"Statu\"; did you mean 'Status'?",
            "6:24: steps[2].createFolder.path: expected an absolute path on the node without '..'",
        ],
        id="missing key points at its mapping",
    ),
    pytest.param("steps: []", ["3:8: steps: expected at least 1 item; found []"], id="no steps"),
    pytest.param(
        "nodes: []", ["1:1: missing key 'steps'", "3:8: nodes: expected at least 1 item; found []"], id="none"
    ),
    pytest.param(
        "nodes: [{name: n, files: [5, {path: a}]}]\nsteps:\n- failDevice: {device: true}",
        [
            "3:27: nodes[0].files[0]: expected a file: its path, or a mapping with 'path' and 'content' or 'link'",
            "3:37: nodes[0].files[1].path: expected an absolute path on the node without '..'",
            "5:24: steps[0].failDevice.device: expected a device: its index, its id, {heldBy: POD} or {free: true}",
        ],
        id="no file and no device",
    ),
    pytest.param("steps: 5", ["3:8: steps: expected a list; found 5"], id="number for a list"),
    pytest.param("steps:\n- 5", ["4:3: steps[0]: expected a mapping; found 5"], id="number for a step"),
    pytest.param("steps:\n- {}", ["4:3: steps[0]: needs exactly one verb"], id="no verb"),
    pytest.param(
        "steps:\n- {heal: {gpu: 0}, delete: {pod: p}}",
        ["4:3: steps[0]: needs exactly one verb"],
        id="two verbs",
    ),
    pytest.param(
        "steps:\n- restartKubelet:",
        ["4:3: steps[0]: 'restartKubelet' has no value; write {} for an empty one"],
        id="verb without a value",
    ),
    pytest.param(
        "steps:\n- advance: 5",
        ["4:12: steps[0].advance: expected a duration like 200ms, 10s, 5m or 1h30m; found 5"],
        id="duration without a unit",
    ),
    pytest.param(
        f"nodes: [{{name: node-1, kubernetes: 1.34}}]\nsteps:\n- {OK}",
        ["3:36: nodes[0].kubernetes: expected text; found 1.34; put it in quotes"],
        id="version without quotes",
    ),
    pytest.param(
        "steps:\n- expect: {pod: p, node: n}",
        ["4:11: steps[0].expect: expected a mapping with exactly one of 'node', 'pod', 'plugin'"],
        id="two subjects",
    ),
    pytest.param(
        "steps:\n- expect: {node: node-1, within: 3s}",
        ["4:11: steps[0].expect: says nothing about the node; add what is expected"],
        id="nothing expected",
    ),
    pytest.param(
        "steps:\n- expect: {node: node-1, capacity: {r: -1, s: gone, t: true}}",
        [
            "4:40: steps[0].expect.capacity.r: expected a whole number of devices or 'absent'; found -1",
            "4:47: steps[0].expect.capacity.s: expected a whole number of devices or 'absent'; found \"gone\"",
            "4:56: steps[0].expect.capacity.t: expected a whole number of devices or 'absent'; found true",
        ],
        id="quantities",
    ),
    pytest.param(
        'steps:\n- expect: {node: node-1, capacityHistory: {r: [1, "0?", -1, "?"]}}',
        [
            '4:57: steps[0].expect.capacityHistory.r[2]: expected a whole number of devices, or as "0?" one that may',
            '4:61: steps[0].expect.capacityHistory.r[3]: expected a whole number of devices, or as "0?" one that may',
        ],
        id="past quantities",
    ),
    pytest.param(
        f"steps:\n- {POD}\n- expect: {{pod: p, phase: running}}",
        ["5:27: steps[1].expect.phase: expected 'Pending', 'Running', 'Succeeded' or 'Failed'; found \"running\"; did"],
        id="phase in lower case",
    ),
    pytest.param(
        f"steps:\n- {POD}\n- expect: {{pod: p, gone: true, phase: Failed}}",
        ["5:11: steps[1].expect: a pod that is gone has nothing else to expect"],
        id="gone and something else",
    ),
    pytest.param(
        f'steps:\n- {POD}\n- expect: {{pod: p, event: {{message: {{"new": x}}}}}}',
        ["5:37: steps[1].expect.event.message: expected a text, or a mapping of quoted minor versions to texts"],
        id="message by something else than a version",
    ),
    pytest.param(
        "steps:\n- apply: {apiVersion: apps/v1, kind: Pod, metadata: {}, spec: {containers: []}}",
        [
            "4:23: steps[0].apply.apiVersion: expected 'v1'; found \"apps/v1\"",
            "4:53: steps[0].apply.metadata: missing key 'name'",
            "4:76: steps[0].apply.spec.containers: expected at least 1 item; found []",
        ],
        id="manifest",
    ),
    pytest.param(
        "steps:\n- removeFile: {path: /a, heldBy: p}",
        ["4:15: steps[0].removeFile: name the file by 'path', or by 'directory' and 'heldBy' together"],
        id="two ways to name a file",
    ),
    pytest.param(
        "steps:\n- createFile: {path: a/../b}",
        ["4:22: steps[0].createFile.path: expected an absolute path on the node without '..'"],
        id="relative path",
    ),
    pytest.param(
        f"plugins:\n- {{name: a, builtin: nvida}}\n- {{name: b}}\n- {{name: c, command: []}}\nsteps:\n- {OK}",
        [
            "4:22: plugins[0].builtin: expected 'amd', ",
            "5:3: plugins[1]: needs exactly one of 'builtin' and 'command'",
            "6:22: plugins[2].command: expected at least 1 item; found []",
        ],
        id="plugins",
    ),
    pytest.param(
        f"plugins:\n- {{name: a, command: [x], quirks: original}}\n- {{name: b, builtin: gopher, quirks: orignal}}\n"
        f"steps:\n- {OK}",
        [
            "4:3: plugins[0]: only a 'builtin' has 'quirks'; give a program of yours 'args'",
            "5:38: plugins[1].quirks: expected 'article' or 'original'; found \"orignal\"; did you mean 'original'?",
        ],
        id="quirks",
    ),
    pytest.param(
        "plugins:\n- {name: a, builtin: stub, serves: {devices: [d], files: {e: /dev/e}}}\n"
        f"- {{name: b, builtin: stub, tap: true, serves: {{registers: found}}}}\nsteps:\n- {OK}",
        [
            "4:36: plugins[0].serves: 'files' names 'e', which is none of the 'devices'",
            "5:3: plugins[1]: a stub that the kubelet finds reports all calls itself; leave out 'tap'",
        ],
        id="stub that cannot be",
    ),
    pytest.param(
        "steps:\n- expect:\n    pod: p\n    containers:\n      main:\n        mounts: {/a: {hostpath: /b}}\n"
        "        deviceNodes: {/dev/a: [x]}\n        cdiDevices: a\n      side: {}",
        [
            "8:23: steps[0].expect.containers.main.mounts[/a].hostpath: unknown key; did you mean 'hostPath'?",
            "9:31: steps[0].expect.containers.main.deviceNodes[/dev/a]: expected the path on the node, or a mapping "
            "with 'hostPath' and 'permissions'; found [\"x\"]",
            '10:21: steps[0].expect.containers.main.cdiDevices: expected a list; found "a"',
            "11:13: steps[0].expect.containers.side: needs at least one of 'devices', 'podResources', 'env', ",
        ],
        id="containers",
    ),
    pytest.param(
        "steps:\n- label: {node: n, labels: {a b: x, c: y z, d: 7}}\n- annotate: {pod: p}\n- label: {labels: {a: b}}",
        [
            "4:29: steps[0].label.labels[a b]: expected text of the form ",
            "4:40: steps[0].label.labels.c: expected text of the form ",
            "4:48: steps[0].label.labels.d: expected text; found 7; put it in quotes",
            "5:13: steps[1].annotate: missing key 'annotations'",
            "6:10: steps[2].label: needs exactly one of 'pod' and 'node'",
        ],
        id="labels",
    ),
    pytest.param(
        f"steps:\n- {OK}\n- {OK}\nsteps: []",
        ["6:1: steps: key given twice; first in line 3"],
        id="key given twice",
    ),
    pytest.param("steps:\n- {1: 2}", ["4:4: steps[0]: expected text as a key; put 1 in quotes"], id="number as a key"),
    pytest.param("steps: &s [*s]", ["3:12: anchor 's' value contains itself; write it flatter"], id="endless alias"),
    pytest.param("steps:\n  - a\n - b", ["5:2: while parsing a block"], id="indentation"),
    pytest.param("steps: [", ["3:9: while parsing a flow"], id="open bracket"),
    pytest.param("steps: !!python/object:os.system x", ["3:8: could not determine a constructor"], id="foreign tag"),
    pytest.param("steps: 2001-99-99", ["3:8: steps: '2001-99-99' is no timestamp"], id="impossible date"),
    pytest.param("---\na: 1", ["3:1: expected a single document in the stream but found another document"], id="two"),
]

WRONG += [
    pytest.param(
        "steps:\n- kubernetes: newer\n  restartKubelet: {}",
        [
            "4:15: steps[0].kubernetes: expected a condition on the version, such as '>=1.37' or "
            "'<1.26.5 || >=1.27, <1.28'"
        ],
        id="condition",
    ),
    pytest.param(
        "plugins: [{name: a, builtin: stub, serves: {devices: [{ID: x}, 5]}}]\nsteps:\n- rebootNode: {}",
        [
            "3:55: plugins[0].serves.devices[0]: missing key 'id'",
            "3:56: plugins[0].serves.devices[0].ID: unknown key",
            "3:64: plugins[0].serves.devices[1]: expected a device: its id, or a mapping with 'id'; found 5",
        ],
        id="devices of a stub",
    ),
    pytest.param(
        "plugins: [{name: a, builtin: gopher, serves: {}}]\nsteps:\n- rebootNode: {}",
        ["3:11: plugins[0]: only 'builtin: stub' serves what 'serves' says"],
        id="serving of another plugin",
    ),
    pytest.param(
        "steps:\n- create: {apiVersion: resource.k8s.io/v1, kind: Pod, metadata: {name: a}, spec: {}}",
        ["4:50: steps[0].create.kind: expected 'DeviceClass', 'ResourceSlice', 'ResourceClaim', 'ResourceClaimTempl"],
        id="another object",
    ),
    pytest.param(
        "steps:\n- create: {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: a}, spec: {selecto: }}",
        ["4:91: steps[0].create.spec.selecto: unknown key; did you mean 'selectors'?"],
        id="objects of devices",
    ),
    pytest.param(
        "steps:\n- pausePlugin: {plugn: a}\n- expect: {node: n, lists: {r: many}}\n"
        "- addStaticPod: {manifest: {apiVersion: v1, kind: Pod, metadata: {name: q}}}",
        [
            "4:17: steps[0].pausePlugin.plugn: unknown key; did you mean 'plugin'?",
            '5:32: steps[1].expect.lists.r: expected a whole number; found "many"',
            "6:28: steps[2].addStaticPod.manifest: missing key 'spec'",
        ],
        id="new keys",
    ),
    pytest.param(
        "steps:\n- expect: {node: n, podResources: {r: [a, a]}, podResourcesGet: {p: 1}}\n"
        "- expect: {pod: p, devices: {r: some}, podResources: {r: {a: 0}}}\n"
        "- expect: {pod: p, containers: {main: {}, other: {devises: {r: 1}}}}\n"
        "- expect: {node: n, checkpoint: gone}\n- expect: {node: n, checkpoint: {pods: {p: 1}, registered: {r: -1}}}\n"
        "- expect: {node: n, checkpoint: {}}\n- expect: {plugin: a, callLog: [Register], connections: 1.5}",
        [
            "4:39: steps[0].expect.podResources.r: expected a number of devices, the list of their ids, or a mapping "
            'of ids to lists of NUMA nodes; found ["a", "a"]',
            "4:69: steps[0].expect.podResourcesGet.p: expected resources and their devices, or the text of an error; "
            "found 1",
            '5:33: steps[1].expect.devices.r: expected a number of devices, or the list of their ids; found "some"',
            "5:58: steps[1].expect.podResources.r: expected a number of devices, the list of their ids, or a mapping "
            'of ids to lists of NUMA nodes; found {"a": 0}',
            "6:39: steps[2].expect.containers.main: needs at least one of 'devices', 'podResources'",
            "6:51: steps[2].expect.containers.other.devises: unknown key; did you mean 'devices'?",
            "7:33: steps[3].expect.checkpoint: expected 'absent' or 'corrupt'; found \"gone\"",
            "8:44: steps[4].expect.checkpoint.pods.p: expected containers and their devices by resource, or 'absent'; "
            "found 1",
            "8:64: steps[4].expect.checkpoint.registered.r: expected a number of devices, the list of their ids, or "
            "'absent'; found -1",
            "9:33: steps[5].expect.checkpoint: needs at least one of 'pods', 'registered'",
            "10:57: steps[6].expect.connections: expected a whole number; found 1.5",
        ],
        id="observations in depth",
    ),
    pytest.param(
        "steps:\n- expect: {plugin: a, callLog: [Register]}",
        ["4:11: steps[0].expect: 'callLog' has the calls of the kubelet; Register is the plugin's"],
        id="log of calls",
    ),
    pytest.param(
        "steps:\n- answerRpc: {plugin: a, rpc: Allocate, empty: true, never: true}",
        ["4:14: steps[0].answerRpc: give at most one of 'error', 'empty', 'never' and 'crash'"],
        id="two answers",
    ),
    pytest.param(
        "steps:\n- answerRpc: {plugin: a, rpc: Allocate, empty: true, bytes: 9}\n"
        "- answerRpc: {plugin: a, rpc: Allocate, parts: 2}\n- answerRpc: {plugin: a, rpc: Alocate}",
        [
            "4:14: steps[0].answerRpc: with 'error', 'empty', 'never' or 'crash' there is no answer to change",
            "5:14: steps[1].answerRpc: 'parts' is about the lists of ListAndWatch",
            "6:31: steps[2].answerRpc.rpc: expected 'GetDevicePluginOptions', 'ListAndWatch', "
            "'GetPreferredAllocation', 'Allocate', 'PreStartContainer' or 'Register'; "
            "found \"Alocate\"; did you mean 'Allocate'?",
        ],
        id="answers that cannot be",
    ),
]


@pytest.mark.parametrize(("text", "problems"), WRONG)
def test_every_problem_is_reported_with_its_place(
    text: str, problems: list[str], write_story: Callable[..., Path], known: Known
) -> None:
    expect_problems(write_story(text), known, problems)


@pytest.mark.parametrize("text", ["10s\n", "\u0661s", "1\u0660s", "1_0s", " 1s", "1s "])
def test_duration_is_written_in_plain_digits(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration like"):
        parse_duration(text)


@pytest.mark.parametrize("text", [">=1.3\u0664", ">=1.34\n", ">=\u0661.34"])
def test_condition_is_written_in_plain_digits(text: str) -> None:
    assert not is_condition(text)
