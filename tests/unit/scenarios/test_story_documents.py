from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.story import document as documents
from scenarios.story.crosscheck import Known
from scenarios.story.document import Document, DocumentError, load, read_yaml

POD = "apply: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"
OK = "expect: {node: node-1, capacity: {r: 1}}"
GPUS = "nodes: [{name: node-1, gpus: {profile: t4, count: 2}}]"

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
            "5:3: plugins[1]: with 'registers: found' there is no Register call for a tap",
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
    pytest.param("steps: &s [*s]", ["3:8: steps[0]: an alias that contains itself"], id="endless alias"),
    pytest.param("steps:\n  - a\n - b", ["5:2: while parsing a block"], id="indentation"),
    pytest.param("steps: [", ["3:9: while parsing a flow"], id="open bracket"),
    pytest.param("steps: !!python/object:os.system x", ["3:8: could not determine a constructor"], id="foreign tag"),
    pytest.param("steps: 2001-99-99", ["1:1: month must be in 1..12"], id="impossible date"),
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
        ["4:50: steps[0].create.kind: expected 'DeviceClass', 'ResourceSlice', 'ResourceClaim' or 'ResourceClaimT"],
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

# Documents of right form with references that lead nowhere.
OVER_THE_API = "plugins: [{name: driver, command: [driver], api: true}]"
DANGLING = [
    pytest.param(
        "plugins: [{name: a, builtin: gopher}]\nsteps:\n- stopPlugin: {plugin: b}\n- endStream: {plugin: a}\n"
        "- rebootNode: {plugins: [a, c], pods: [q]}\n- expect: {plugin: a, calls: {Allocate: 1}}",
        [
            "5:24: steps[0].stopPlugin.plugin: no plugin 'b'; there are: a",
            "6:14: steps[1].endStream: plugin 'a' has no tap; add 'tap: true' to it",
            "7:29: steps[2].rebootNode.plugins[1]: no plugin 'c'; there are: a",
            "7:40: steps[2].rebootNode.pods[0]: no step before this one applies a pod 'q'",
            "8:11: steps[3].expect: the calls of plugin 'a' are not recorded; add 'tap: true' to it",
        ],
        id="plugins of verbs",
    ),
    pytest.param(
        "plugins: [{name: a, builtin: stub}, {name: b, builtin: gopher, tap: true}]\nsteps:\n"
        "- answerRpc: {plugin: a, rpc: Register, error: x}\n- answerRpc: {plugin: a, rpc: ListAndWatch, parts: 2}\n"
        "- answerRpc: {plugin: b, rpc: Register, twice: true}\n- endStream: {plugin: b}\n"
        "- expect: {plugin: b, calls: {Register: 1}, refusal: ''}\n- listDevices: {plugin: b, devices: []}",
        [
            "5:14: steps[0].answerRpc: that takes a tap, which plugin 'a' does not have; add 'tap: true' to it",
            "6:14: steps[1].answerRpc: that takes a tap, which plugin 'a' does not have; add 'tap: true' to it",
            "10:16: steps[5].listDevices: plugin 'b' is no 'builtin: stub'; only the stub takes this verb",
        ],
        id="calls of plugins",
    ),
    pytest.param(
        "plugins: [{name: a, builtin: stub, tap: true}]\nsteps:\n- answerRpc: {plugin: a, rpc: Allocate, crash: true}",
        [
            "5:48: steps[0].answerRpc.crash: only a stub can crash, and plugin 'a' has a tap in front of it",
        ],
        id="crash behind a tap",
    ),
    pytest.param(
        "plugins: [{name: a, builtin: gopher}, {name: b, builtin: stub}]\nsteps:\n"
        "- expect: {plugin: a, callLog: []}\n- expect: {plugin: b, callLog: [], connections: 1}\n"
        f"- {POD}\n- expect: {{pod: p, containers: {{man: {{devices: {{r: 1}}}}, c: {{devices: {{r: 1}}}}}}}}\n"
        "- expect: {node: node-1, checkpoint: {pods: {p: absent, q: absent}}}",
        [
            "5:11: steps[0].expect: the calls of plugin 'a' are not recorded; add 'tap: true' to it",
            "6:49: steps[1].expect.connections: the connections of plugin 'b' are not known; add 'tap: true' to it",
            "8:38: steps[3].expect.containers.man: pod 'p' has no container 'man'; it has c",
            "9:60: steps[4].expect.checkpoint.pods.q: no step before this one applies a pod 'q'",
        ],
        id="observations in depth",
    ),
    pytest.param(
        "plugins: [{name: a, builtin: gopher, tap: true}]\nsteps:\n- removeFolder: {path: /var/lib/kubelet}\n"
        "- removeFolder: {path: /etc/gophers}",
        ["5:24: steps[0].removeFolder.path: the tap of plugin 'a' would not find the folder again; take 'tap: true'"],
        id="folder of a tap",
    ),
    pytest.param(
        'versions: ["1.26.4", "1.99"]\nsteps:\n- kubernetes: ">=1.3"\n  exitContainer: {pod: p}',
        [
            "3:22: versions[1]: no Kubernetes '1.99' here; supported are 1.26 to 1.35",
            "5:15: steps[0].kubernetes: no Kubernetes '1.3' here; supported are 1.26 to 1.35",
            "6:24: steps[0].exitContainer.pod: no step before this one applies a pod 'p'",
        ],
        id="versions and conditions",
    ),
    pytest.param(
        'kubernetes: ">=1.28, <1.99"\nversions: ["1.26", "1.34"]\nsteps:\n- rebootNode: {}',
        [
            "3:13: kubernetes: no Kubernetes '1.99' here; supported are 1.26 to 1.35",
            "4:12: versions[0]: the story is about Kubernetes >=1.28, <1.99 only, not 1.26",
        ],
        id="versions that the story is not about",
    ),
    pytest.param(
        "steps:\n- apply:\n    apiVersion: v1\n    kind: Pod\n    metadata: {name: p, labels: {n: 1}}\n    spec:\n"
        "      containers:\n      - name: c\n        resource:\n          limits: {example.com/gpu: 1}\n"
        "        env: [{name: A, value: 5, xyzzy: 1}]\n        command: sleep 1\n"
        "- addStaticPod:\n    manifest: {apiVersion: v1, kind: Pod, metadata: {name: q, creationTimestamp: soon}, "
        'spec: {hostNetwork: "yes", containers: [{name: c, resources: {requests: {cpu: much}}}]}}',
        [
            "7:37: steps[0].apply.metadata.labels.n: expected text; found 1; put it in quotes",
            "11:9: steps[0].apply.spec.containers[0].resource: unknown key; did you mean 'resources'?",
            "13:32: steps[0].apply.spec.containers[0].env[0].value: expected text; found 5; put it in quotes",
            "13:35: steps[0].apply.spec.containers[0].env[0].xyzzy: unknown key",
            '14:18: steps[0].apply.spec.containers[0].command: expected a list; found "sleep 1"',
            "16:82: steps[1].addStaticPod.manifest.metadata.creationTimestamp: parsing time",
            '16:109: steps[1].addStaticPod.manifest.spec.hostNetwork: expected true or false; found "yes"',
            "16:167: steps[1].addStaticPod.manifest.spec.containers[0].resources.requests.cpu: quantities must match",
        ],
        id="fields that no pod has, and values of other types",
    ),
    pytest.param(
        "nodes: [{name: a}, {name: b}]\nsteps:\n- removeStaticPod: {pod: q, node: a}\n- addStaticPod:\n"
        "    manifest: {apiVersion: v1, kind: Pod, metadata: {name: q}, spec: {containers: [{name: c}]}}\n"
        "- pausePlugin: {plugin: p, node: a}\n- expect: {pod: q, phase: Running}",
        [
            "5:26: steps[0].removeStaticPod.pod: no step before this one adds a static pod 'q' to the node",
            "7:5: steps[1].addStaticPod: which node? add 'node: ' and one of a, b",
            "8:25: steps[2].pausePlugin.plugin: no plugin 'p'; there are: none",
            "9:17: steps[3].expect.pod: no step before this one applies a pod 'q'",
        ],
        id="static pods and plugins",
    ),
    pytest.param(
        "steps:\n- expect: {pod: q, phase: Running}",
        ["4:17: steps[0].expect.pod: no step before this one applies a pod 'q'"],
        id="pod never applied",
    ),
    pytest.param(
        f"steps:\n- delete: {{pod: p}}\n- {POD}",
        ["4:17: steps[0].delete.pod: no step before this one applies a pod 'p'"],
        id="pod applied too late",
    ),
    pytest.param(
        f"steps:\n- {POD}\n- expect: {{pod: p, sharesNoDeviceWith: [p, pp]}}",
        ["5:44: steps[1].expect.sharesNoDeviceWith[1]: no step before this one applies a pod 'pp'; did you mean 'p'?"],
        id="other pod",
    ),
    pytest.param(
        f"{GPUS}\nsteps:\n- fail: {{gpu: {{heldBy: q}}, xid: 79}}",
        ["5:24: steps[0].fail.gpu.heldBy: no step before this one applies a pod 'q'"],
        id="holder of a GPU",
    ),
    pytest.param(
        "steps:\n- removeFile: {directory: /d, heldBy: q}",
        ["4:39: steps[0].removeFile.heldBy: no step before this one applies a pod 'q'"],
        id="holder of a file",
    ),
    pytest.param(
        "steps:\n- expect: {node: node-2, capacity: {r: 1}}\n- expect: {plugin: x, restarts: 1}",
        [
            "4:18: steps[0].expect.node: no node 'node-2'; did you mean 'node-1'?",
            "5:20: steps[1].expect.plugin: no plugin 'x'; there are: none",
        ],
        id="node and plugin",
    ),
    pytest.param(
        "nodes: [{name: a}, {name: b}, {name: a}]\nsteps:\n- restartKubelet: {}\n- restartKubelet: {node: c}",
        [
            "3:38: nodes[2].name: 'a' is taken; names are unique",
            "5:19: steps[0].restartKubelet: which node? add 'node: ' and one of a, b",
            "6:26: steps[1].restartKubelet.node: no node 'c'; there are: a, b",
        ],
        id="several nodes",
    ),
    pytest.param(
        f"{GPUS}\nsteps:\n- fail: {{gpu: 2, xid: 79}}\n- heal: {{gpu: 1}}",
        ["5:15: steps[0].fail.gpu: no GPU 2; node 'node-1' has 2, counted from 0"],
        id="GPU out of range",
    ),
    pytest.param(
        f"steps:\n- failDevice: {{device: 0}}\n- {OK}",
        ["4:24: steps[0].failDevice.device: node 'node-1' has no such devices; give it some with 'amd' or 'iluvatar'"],
        id="no AMD GPU or Iluvatar chip",
    ),
    pytest.param(
        "nodes: [{name: n, iluvatar: {count: 1}}]\nsteps:\n- healDevice: {device: {heldBy: p}}",
        ["5:33: steps[0].healDevice.device.heldBy: no step before this one applies a pod 'p'"],
        id="device of no pod",
    ),
    pytest.param(
        "steps:\n- heal: {gpu: 0}",
        ["4:15: steps[0].heal.gpu: node 'node-1' has no GPUs; give it some with 'gpus'"],
        id="node without GPUs",
    ),
    pytest.param(
        "nodes: [{name: n, gpus: {profile: t4, count: 1, mig: [[], []]}}]\n"
        "steps:\n- partitionGpu: {gpu: 1, mig: []}\n- failNvml: {call: nvmlInit, error: UNKNOWN, gpu: 2}",
        [
            "3:54: nodes[0].gpus.mig: divides 2 GPUs; node 'n' has 1",
            "5:23: steps[0].partitionGpu.gpu: no GPU 1; node 'n' has 1, counted from 0",
            "6:51: steps[1].failNvml.gpu: no GPU 2; node 'n' has 1, counted from 0",
        ],
        id="more divided GPUs than there are",
    ),
    pytest.param(
        "steps:\n- failNvml: {call: nvmlInit, error: UNKNOWN}\n- healNvml: {}",
        [
            "4:13: steps[0].failNvml: node 'node-1' has no GPUs; give it some with 'gpus'",
            "5:13: steps[1].healNvml: node 'node-1' has no GPUs; give it some with 'gpus'",
        ],
        id="library of a node without GPUs",
    ),
    pytest.param(
        f'nodes: [{{name: n, kubernetes: "1.99", gpus: {{profile: h100, count: 1}}}}]\nsteps:\n- {POD}',
        [
            "3:31: nodes[0].kubernetes: no Kubernetes '1.99' here; supported are 1.26 to 1.35",
            "3:55: nodes[0].gpus.profile: no GPU profile 'h100'; did you mean 'h100-80gb'?",
        ],
        id="version and profile",
    ),
    pytest.param(
        f"nodes: [{{name: n, featureGates: {{ResourceHealthState: true}}}}]\nsteps:\n- {POD}",
        [
            "3:55: nodes[0].featureGates.ResourceHealthState: no feature gate 'ResourceHealthState'; did you mean "
            "'ResourceHealthStatus'?"
        ],
        id="feature gate",
    ),
    pytest.param(
        f"runtimeConfig: {{batch/v1: true, api/beta: true, v1: false}}\n{OVER_THE_API}\nsteps:\n- {POD}",
        [
            "3:27: runtimeConfig[batch/v1]: the group version batch/v1 is not simulated; there are apps/v1, ",
            "3:53: runtimeConfig.v1: runtime-config invalid key v1 (Kubernetes 1.34)",
        ],
        id="versions of groups",
    ),
    pytest.param(
        f"versions: ['1.28', '1.34']\nruntimeConfig:\n  resource.k8s.io/v1: false\n{OVER_THE_API}\nsteps:\n- {POD}",
        [
            "5:23: runtimeConfig[resource.k8s.io/v1]: group version resource.k8s.io/v1 that has not been registered "
            "(Kubernetes 1.28)"
        ],
        id="version of a group that one of the releases does not have",
    ),
    pytest.param(
        f"runtimeConfig: {{api/all: false}}\n{OVER_THE_API}\nsteps:\n- {POD}",
        ["3:26: runtimeConfig[api/all]: invalid key with only api/all=false (Kubernetes 1.34)"],
        id="no version at all",
    ),
    pytest.param(
        f"runtimeConfig: {{api/beta: true}}\nsteps:\n- {POD}",
        ["3:16: runtimeConfig: no plugin of the story asks the API server; add 'api: true' to one that does"],
        id="versions of groups for nobody",
    ),
    pytest.param(
        f"runtimeConfig: {{api/beta: yes please}}\n{OVER_THE_API}\nsteps:\n- {POD}",
        ['3:27: runtimeConfig[api/beta]: expected true or false; found "yes please"'],
        id="version of a group that is neither on nor off",
    ),
]


@pytest.mark.parametrize(("text", "problems"), [*WRONG, *DANGLING])
def test_every_problem_is_reported_with_its_place(
    text: str, problems: list[str], write_story: Callable[..., Path], known: Known
) -> None:
    path = write_story(text)

    with pytest.raises(DocumentError) as caught:
        load(path, known)

    assert caught.value.exit_status == 2
    for line, problem in zip(caught.value.lines, problems, strict=True):
        assert line.startswith(f"{path}:{problem}")


def test_name_must_be_that_of_the_file(write_story: Callable[..., Path], known: Known) -> None:
    path = write_story(f"name: other\ndescription: x\nsteps:\n- {OK}")

    with pytest.raises(DocumentError) as caught:
        load(path, known)

    assert caught.value.lines == (f"{path}:1:7: name: 'other' is not the file's name, 'story'; rename one of them",)


def test_name_of_a_story_for_pytest_is_that_before_both_endings(write_story: Callable[..., Path]) -> None:
    path = write_story("name: seats\ndescription: A story.\nsteps: [{restartKubelet: {}}]\n", "seats.story")

    assert load(path).scenario.name == "seats"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "1:1: the file is empty; a story needs", id="empty"),
        pytest.param(b"\xff\xfe\x00", "1:1: ", id="not UTF-8"),
        pytest.param(b"a: \x00", "1:1: ", id="control character"),
        pytest.param(b"[" * 600, "1:1: nested too deeply", id="nested too deeply"),
        pytest.param(b"[" * 999 + b"]" * 999, "1:1: nested too deeply", id="nested too deeply, and closed"),
        pytest.param(b"- " * 100_000, "1:1: nested too deeply", id="so deep that libyaml would overflow the stack"),
        pytest.param(b"just text", '1:1: expected a mapping; found "just text"', id="scalar"),
    ],
)
def test_file_that_is_not_a_story_is_refused(content: bytes, problem: str, tmp_path: Path, known: Known) -> None:
    path = tmp_path / "story.yaml"
    path.write_bytes(content)

    with pytest.raises(DocumentError) as caught:
        load(path, known)

    assert len(caught.value.lines) == 1
    assert caught.value.lines[0].startswith(f"{path}:{problem}")


STYLES = r"""# A comment, and text of all planes: äß€😀
text: &here [plain, 'single ''quoted''.', "double \x41 \
  quoted", 0x1F, 1e3, ~, yes, 2026-11-23]
again: {alias: *here, ? complex : "🚀", nested: [[], {}]}
folded: >-
  one
  line

literal: |+
  two
  lines

merged: {<<: {a: 1}, b: 2}
"""


@pytest.mark.parametrize("broken", ["", "- broken\n"], ids=["right", "broken"])
def test_libyaml_and_pyyaml_read_the_same(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (STYLES + broken).encode()
    fast = read_yaml(text)
    monkeypatch.setattr(documents, "_FASTEST", None)

    assert read_yaml(text) == fast
    assert bool(fast.problems) == bool(broken)


def test_missing_file_and_folder_are_refused(tmp_path: Path, known: Known) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(DocumentError, match="cannot be read: "):
            load(path, known)


def test_location_of_a_part_is_its_line(read_story: Callable[[str], Document]) -> None:
    document = read_story("steps:\n- expect:\n    node: node-1\n    capacity:\n      nvidia.com/gpu: 1\n")

    assert document.location("steps", 0, "expect", "capacity", "nvidia.com/gpu").endswith("story.yaml:7")
    assert document.location("steps", 0, "expect", "allocatable").endswith("story.yaml:5")
    assert document.location("plugins").endswith("story.yaml:1")


def test_manifest_is_kept_word_for_word(read_story: Callable[[str], Document]) -> None:
    document = read_story(
        """\
        steps:
        - apply:
            apiVersion: v1
            kind: Pod
            metadata: {name: p, labels: {app: x}, annotations: {a.b/c: "1"}}
            spec:
              restartPolicy: Never
              initContainers: [{name: i, image: x}]
              containers:
              - {name: c, image: x, resources: {limits: {nvidia.com/gpu: 2, cpu: "1"}, requests: {memory: 1Gi}}}
        """
    )

    action = document.scenario.steps[0].apply

    assert action is not None
    assert action.pod == "p"
    assert action.manifest == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"app": "x"}, "annotations": {"a.b/c": "1"}},
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "i", "image": "x"}],
            "containers": [
                {
                    "name": "c",
                    "image": "x",
                    "resources": {"limits": {"nvidia.com/gpu": 2, "cpu": "1"}, "requests": {"memory": "1Gi"}},
                }
            ],
        },
    }


def test_anchors_and_merge_keys_are_understood(read_story: Callable[[str], Document]) -> None:
    document = read_story(
        """\
        steps:
        - expect: &e {node: node-1, capacity: {r: 1}}
        - expect: {<<: *e, within: 1s, capacity: {r: 2}}
        """
    )

    first, second = (step.expect for step in document.scenario.steps)

    assert first is not None
    assert second is not None
    assert (second.subject, second.within, second.expected) == ("node-1", 1.0, {"capacity"})
