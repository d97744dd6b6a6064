"""A cluster of two nodes, each with two plugins: nothing of one node shows on the other."""

from __future__ import annotations

from typing import Any

STORY = """\
name: two-nodes
description: Each node has its own kubelet, files and plugins.
nodes:
  - name: left
    files: [/etc/gophers/l1, /etc/gophers/l2]
    gpus: {profile: t4, count: 2}
  - name: right
    files: [/etc/gophers/r1]
    gpus: {profile: t4, count: 1}
plugins:
  - name: gopher
    builtin: gopher
  - name: nvidia
    builtin: nvidia
steps:
  - expect: {node: left, capacity: {lixueduan.com/gopher: 2, nvidia.com/gpu: 2}, within: 30s}
  - expect: {node: right, capacity: {lixueduan.com/gopher: 1, nvidia.com/gpu: 1}, within: 30s}
  - apply:
      apiVersion: v1
      kind: Pod
      metadata: {name: wide}
      spec:
        containers:
          - name: main
            image: none
            resources: {limits: {lixueduan.com/gopher: 2, nvidia.com/gpu: 1}}
  - expect: {pod: wide, phase: Running, devices: {lixueduan.com/gopher: 2, nvidia.com/gpu: 1}}
  - restartKubelet: {node: right}
  - expect: {plugin: gopher, node: right, restarts: 1, registrations: 2}
  - expect: {plugin: nvidia, node: right, restarts: 0, registrations: 2}
  - expect: {plugin: gopher, node: left, restarts: 0, registrations: 1}
  - expect: {plugin: nvidia, node: left, restarts: 0, registrations: 1}
  - fail: {node: left, gpu: {heldBy: wide}, xid: 79}
  - expect: {node: left, allocatable: {nvidia.com/gpu: 1}}
  - expect: {node: right, allocatable: {nvidia.com/gpu: 1}, holds: 100ms}
"""


def test_nodes_have_separate_plugins_devices_and_faults(run: Any) -> None:
    (run.scratch / "two-nodes.yaml").write_text(STORY)

    done = run("simkubelet run two-nodes.yaml")

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert run.leftovers() == []


def test_node_must_be_named_where_there_are_two(run: Any) -> None:
    (run.scratch / "two-nodes.yaml").write_text(STORY.replace("plugin: gopher, node: right", "plugin: gopher"))

    done = run("simkubelet check two-nodes.yaml")

    assert done.returncode == 2
    assert "two-nodes.yaml:29:" in done.stderr
    assert "which node? add 'node: ' and one of left, right" in done.stderr
