"""Stories that reach for files beside the node's folder: what is there stays as it was.

The oracle is a decoy tree in the folder of the run. `simkubelet check` refuses a link that leads out; a step can move
one that does not to where it would, and then no verb goes through it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.decoy import Decoy

LINK = """\
name: link
description: A link out of the node.
nodes:
  - name: node-1
    files: [{{path: /etc/l, link: {link}}}]
steps:
  - removeFolder: {{path: /etc/l/d}}
"""
# In the folder of the run: nodes/sk-…/node-1/root, so four names up from the root of the node is the decoy's folder.
MOVED = """\
name: moved
description: A link of the node is moved to where it leads out of the node's folder here.
nodes:
  - name: node-1
    files:
      - {{path: /a/b/c/d/l, link: ../../../../decoy}}
      - {{path: /a/b/c/d/e/f/l, link: ../../../../../../decoy/d}}
      - {{path: /etc/mine, content: x}}
steps:
  - moveFile: {{path: /a/b/c/d/l, to: /l}}
{steps}"""
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: none}]}}"
MANIFESTS = "/etc/kubernetes/manifests"


@pytest.fixture
def decoy(run: Any) -> Decoy:
    return Decoy(run.scratch / "decoy")


@pytest.mark.parametrize("link", ["../../../../../decoy", "../../home", "a/../../../x"])
def test_check_and_run_refuse_a_link_out_of_the_node(run: Any, decoy: Decoy, link: str) -> None:
    (run.scratch / "link.yaml").write_text(LINK.format(link=link))

    for command in ("check", "run"):
        done = run(f"simkubelet {command} link.yaml")

        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert "link.yaml:5:34: nodes[0].files[0].link: expected a link that does not lead out of the node" in line
    decoy.check()


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(["removeFolder: {path: /l/d}"], id="removeFolder"),
        pytest.param(["createFolder: {path: /l/new}"], id="createFolder"),
        pytest.param(["createFile: {path: /l/new}"], id="createFile"),
        pytest.param(["writeFile: {path: /l/f, content: x}"], id="writeFile"),
        pytest.param(["dateFile: {path: /l/f, age: 1h}"], id="dateFile"),
        pytest.param(["removeFile: {path: /l/f}"], id="removeFile"),
        pytest.param(["moveFile: {path: /l/f, to: /etc/f}"], id="moveFile from"),
        pytest.param(["moveFile: {path: /etc/mine, to: /l/mine}"], id="moveFile to"),
        pytest.param(
            [
                f"removeFolder: {{path: {MANIFESTS}}}",
                f"moveFile: {{path: /a/b/c/d/e/f/l, to: {MANIFESTS}}}",
                f"addStaticPod: {{manifest: {POD}}}",
            ],
            id="addStaticPod",
        ),
    ],
)
def test_no_verb_goes_through_a_link_that_was_moved(run: Any, decoy: Decoy, steps: list[str]) -> None:
    (run.scratch / "moved.yaml").write_text(MOVED.format(steps="".join(f"  - {step}\n" for step in steps)))
    (run.scratch / "nodes").mkdir()
    before = sorted(path.name for path in run.scratch.iterdir())

    done = run("simkubelet run moved.yaml --dir nodes")

    assert done.returncode == 2, done.stdout + done.stderr
    assert "No such file or directory" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    decoy.check()
    assert sorted(path.name for path in run.scratch.iterdir()) == before
