"""What is read out of a story's file, and files that cannot be read at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.story.crosscheck import Known
from scenarios.story.document import Document, DocumentError, load, read_yaml

OK = "expect: {node: node-1, capacity: {r: 1}}"


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
        pytest.param(b"[" * 600, "1:201: exceeded max depth", id="nested too deeply"),
        pytest.param(b"[" * 999 + b"]" * 999, "1:201: exceeded max depth", id="nested too deeply, and closed"),
        pytest.param(b"- " * 100_000, "1:401: exceeded max depth", id="so deep that libyaml would overflow the stack"),
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
    monkeypatch.delattr("yaml.CSafeLoader")

    assert read_yaml(text) == fast
    assert bool(fast.problems) == bool(broken)


@pytest.mark.parametrize(
    ("path", "link"),
    [
        ("/etc/l", "../../home/user"),
        ("/etc/l", "a/../../.."),
        ("/l", ".."),
        ("/etc/l", "/../home"),
        ("/etc/kubernetes/manifests/l", "../../../../x"),
    ],
)
def test_link_out_of_the_node_is_refused(path: str, link: str, tmp_path: Path, known: Known) -> None:
    story = tmp_path / "story.yaml"
    nodes = f"nodes:\n- name: node-1\n  files:\n  - {{path: {path}, link: {link}}}\n"
    story.write_text(f"name: story\ndescription: A short one.\n{nodes}steps:\n- rebootNode: {{}}\n")

    with pytest.raises(DocumentError) as caught:
        load(story, known)

    (line,) = caught.value.lines
    where = f"{story}:6:{20 + len(path)}: nodes[0].files[0].link"
    wanted = "expected a link that does not lead out of the node: fewer '..', or an absolute path"
    assert line == f'{where}: {wanted}; found "{link}"'


@pytest.mark.parametrize(
    ("path", "link"), [("/etc/l", ".."), ("/etc/l", "../home/user"), ("/etc/a/b", "../../x"), ("/l", "/home/user")]
)
def test_link_of_the_node_is_taken(path: str, link: str, read_story: Callable[[str], Document]) -> None:
    document = read_story(
        f"nodes:\n- {{name: node-1, files: [{{path: {path}, link: {link}}}]}}\nsteps:\n- rebootNode: {{}}\n"
    )

    assert document.scenario.nodes[0].links == {path: link}


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
