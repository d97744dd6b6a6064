"""Documents of right form with references that lead nowhere: each problem, with its place in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.story.crosscheck import Known
from tests.support.stories import expect_problems

POD = "apply: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: x}]}}"
OK = "expect: {node: node-1, capacity: {r: 1}}"
GPUS = "nodes: [{name: node-1, gpus: {profile: t4, count: 2}}]"
OVER_THE_API = "plugins: [{name: driver, command: [driver], api: true}]"

DANGLING = [
    pytest.param(
        "steps:\n- apply: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {resourceClaims: [{name: gpu}], "
        "containers: [{name: c, image: x, resources: {claims: [{name: gpuu}]}}], dnsPolicy: None}}",
        [
            "4:65: steps[0].apply.spec: spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is "
            "None",
            "4:83: steps[0].apply.spec.resourceClaims[0]: Invalid value: "
            '{"Name":"gpu","ResourceClaimName":null,"ResourceClaimTemplateName":null}: '
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            '4:151: steps[0].apply.spec.containers[0].resources.claims[0]: Not found: "gpuu": '
            "must be one of the names in pod.spec.resourceClaims: gpu",
        ],
        id="what the API server refuses",
    ),
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
        "    manifest: {apiVersion: v1, kind: Pod, metadata: {name: q}, spec: {containers: [{name: c, image: x}]}}\n"
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


@pytest.mark.parametrize(("text", "problems"), DANGLING)
def test_every_problem_is_reported_with_its_place(
    text: str, problems: list[str], write_story: Callable[..., Path], known: Known
) -> None:
    expect_problems(write_story(text), known, problems)
