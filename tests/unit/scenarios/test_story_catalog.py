from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel

from scenarios.story import stories
from scenarios.story.crosscheck import Known
from scenarios.story.document import DocumentError, load
from scenarios.story.model import STEP_KEYS, Scenario
from scenarios.story.part import Capability, Part
from scenarios.story.schema import json_schema
from simkubelet.model.errors import InputError

NAMES = ["device-unhealthy", "gopher-pending", "kubelet-restart"]
TOPICS = [
    *(
        "amd",
        "bugs",
        "conformance",
        "dra",
        "generic",
        "gopher",
        "gpu-memory",
        "gpushare",
        "iluvatar",
        "kubelet",
        "node",
        "nodes",
        "nvidia",
    ),
    *("plugins", "pods", "tap", "topology", "volcano"),
]
PATHS = stories.builtin()


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_catalog_has_the_stories_in_order() -> None:
    assert list(PATHS)[: len(NAMES)] == NAMES
    in_topics = [name.split("/", maxsplit=1) for name in PATHS if "/" in name]
    bugs = [name.partition("-")[0] for topic, name in in_topics if topic == "bugs"]
    assert bugs == sorted(bugs, key=lambda bug: (bug[0], int(bug[1:])))
    assert sorted({topic for topic, _ in in_topics}) == TOPICS
    assert list(stories.summaries()) == list(PATHS)
    assert stories.summaries()["kubelet-restart"].text == "A kubelet restart takes no device from a running pod"


def test_every_builtin_story_has_tags_that_the_page_explains() -> None:
    page = (Path(__file__).parents[3] / "docs" / "stories.md").read_text()
    table = page.partition("### Tags\n")[2].partition("\n#")[0]
    explained = re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
    tags = {name: summary.tags for name, summary in stories.summaries().items()}

    assert [name for name, given in tags.items() if not given] == []
    assert explained == sorted({tag for given in tags.values() for tag in given})


@pytest.mark.parametrize("name", PATHS)
def test_builtin_story_is_right_for_classes_and_schema(name: str, validator: jsonschema.Draft202012Validator) -> None:
    path = PATHS[name]

    scenario = load(path).scenario

    assert scenario.needed <= frozenset(Capability)
    validator.validate(stories.contents(path))


@pytest.mark.parametrize(
    "step",
    [
        pytest.param({"restartKublet": {}}, id="unknown verb"),
        pytest.param({"heal": {"gpu": 0}, "delete": {"pod": "p"}}, id="two verbs"),
        pytest.param({}, id="no verb"),
        pytest.param({"advance": "5 minutes"}, id="no duration"),
        pytest.param({"expect": {"node": "n", "capacty": {}}}, id="unknown key"),
        pytest.param({"expect": {"node": "n", "capacity": {"r": -1}}}, id="negative"),
        pytest.param({"expect": {"node": "n", "phase": "Running"}}, id="key of another subject"),
        pytest.param({"expect": {"pod": "p", "event": {"message": {"new": "x"}}}}, id="message by no version"),
        pytest.param({"expect": {"pod": "p", "podResources": {"r": -1}}}, id="negative list"),
        pytest.param({"expect": {"pod": "p", "health": {"r": {"d": "ill"}}}}, id="unknown health"),
        pytest.param({"kubernetes": "1.37", "restartKubelet": {}}, id="version without a comparison"),
        pytest.param({"kubernetes": ">=1.37"}, id="condition without a verb"),
        pytest.param({"answerRpc": {"plugin": "a", "rpc": "Alocate"}}, id="unknown call"),
        pytest.param({"listDevices": {"plugin": "a", "devices": [{"health": "Healthy"}]}}, id="device without an id"),
        pytest.param({"kubernetes": "<1.26.5 | >=1.27", "restartKubelet": {}}, id="half an or"),
        pytest.param({"expect": {"node": "n", "lists": {"r": -1}}}, id="negative number of lists"),
        pytest.param({"expect": {"node": "n", "podResources": "absent"}}, id="a node is never absent"),
        pytest.param({"pausePlugin": {}}, id="nobody to pause"),
        pytest.param({"addStaticPod": {"manifest": {"kind": "Pod"}}}, id="manifest that is none"),
        pytest.param({"removeStaticPod": {"pod": "Agent"}}, id="no name of a pod"),
        pytest.param({"changeCheckpoint": {"to": "gone"}}, id="unknown state of a checkpoint"),
        pytest.param({"fail": {"gpu": {"heldB": "p"}, "xid": 79}}, id="unknown selector"),
        pytest.param({"label": {"node": "n", "labels": {"rack": "no blanks"}}}, id="no value of a label"),
        pytest.param({"annotate": {"node": "n", "annotations": {"rack": 7}}}, id="a number is no annotation"),
        pytest.param(
            {"expect": {"pod": "p", "containers": {"c": {"mounts": {"/a": {"readonly": True}}}}}}, id="key of a mount"
        ),
        pytest.param({"expect": {"pod": "p", "deviceNodes": {"/a": ["/b"]}}}, id="no device file"),
        pytest.param({"expect": {"pod": "p", "containers": {"c": {"cdiDevices": "a=b"}}}}, id="no list of CDI devices"),
    ],
)
def test_schema_and_classes_refuse_the_same(
    step: dict[str, Any],
    validator: jsonschema.Draft202012Validator,
    write_story: Callable[..., Path],
    known: Known,
) -> None:
    story = {"name": "story", "description": "x", "steps": [step]}

    assert not validator.is_valid(story)
    with pytest.raises(DocumentError):
        load(write_story(json.dumps(story)), known)


def parts(model: type[BaseModel] = Part) -> Iterator[type[BaseModel]]:
    for child in model.__subclasses__():
        in_stories = [one for one in child.__subclasses__() if one.__module__.startswith("scenarios.story.")]
        if not in_stories and child.__module__.startswith("scenarios.story."):
            yield child
        yield from parts(child)


def test_schema_has_every_key_of_every_class() -> None:
    schema = json_schema()
    definitions = {**schema["$defs"], "Scenario": schema}

    keys = {
        name: set(definition["properties"]) for name, definition in definitions.items() if "properties" in definition
    }
    expected = {part.__name__: {field.alias for field in part.model_fields.values()} for part in parts()}

    assert keys == expected
    assert set(STEP_KEYS) | {"name", "kubernetes", "standsFor"} == keys["Step"]
    takes_null = {name for name, definition in definitions.items() if '"null"' in json.dumps(definition)}
    assert takes_null - {"Scenario"} == {"Annotate", "Label"}


def test_story_about_a_kubelet_is_played_before_and_after_its_fix() -> None:
    bugs = [load(path).scenario for name, path in PATHS.items() if name.startswith("bugs/")]

    kubelets = [bug for bug in bugs if bug.bug is not None and bug.bug.component == "kubelet"]
    assert all(len(bug.versions or ()) > 1 for bug in kubelets)


def test_story_about_a_plugin_names_both_sides() -> None:
    bugs = {name: load(path).scenario for name, path in PATHS.items() if name.startswith("bugs/p")}
    sides = {name: {plugin.name.partition("-")[0] for plugin in bug.plugins} for name, bug in bugs.items()}

    one_side = {name for name, found in sides.items() if not {"before", "after"} <= found}
    # One original each: what heals it, or the kubelet that spares the pods, is the other side.
    assert {name.partition("-")[0] for name in one_side} == {f"bugs/p{number}" for number in (11, 15, 24, 27, 28)}


def test_builtin_names_are_those_of_the_bundled_plugins() -> None:
    from simkubelet._internal import bundle

    builtin = json_schema()["$defs"]["PluginSpec"]["properties"]["builtin"]["anyOf"][0]["enum"]

    assert sorted(builtin) == sorted(bundle.load("plugin", "cli").PLUGINS)


def test_story_on_another_kubernetes_is_the_same_story() -> None:
    story = {
        "name": "s",
        "description": "x",
        "nodes": [{"name": "a"}, {"name": "b", "kubernetes": "1.35"}],
        "steps": [{"restartKubelet": {"node": "a"}}],
    }
    scenario = Scenario.model_validate(story)

    older = scenario.on_kubernetes("1.28")

    assert [node.kubernetes for node in older.nodes] == ["1.28", "1.28"]
    assert [node.kubernetes for node in scenario.nodes] == ["1.34", "1.35"]
    assert older.steps == scenario.steps


def test_stories_are_found_by_name_file_and_folder(write_story: Callable[..., Path], tmp_path: Path) -> None:
    first, second = write_story("steps: []", "a"), write_story("steps: []", "b")
    (tmp_path / "notes.txt").write_text("")
    restart = stories.builtin()["kubelet-restart"]

    assert stories.find(["kubelet-restart", str(second), str(tmp_path)]) == [restart, second, first]
    assert stories.find(["bugs/"]) == [path for name, path in PATHS.items() if name.startswith("bugs/")]
    assert stories.find(["r5-device-vanishes-during-allocate"]) == stories.find(
        ["bugs/r5-device-vanishes-during-allocate"]
    )


def test_own_folder_of_stories_comes_before_a_topic_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node").mkdir()
    assert stories.find(["node"]) == [path for name, path in PATHS.items() if name.startswith("node/")]
    (tmp_path / "node" / "mine.yaml").write_text("")

    assert stories.find(["node"]) == [Path("node/mine.yaml")]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        pytest.param("kubelet-restrat", "no story 'kubelet-restrat'; did you mean 'kubelet-restart'?", id="misspelt"),
        pytest.param("", "a story's name is empty", id="empty"),
        pytest.param("x" * 5000, f"no story '{'x' * 40}…': no file has a name as long", id="long"),
        pytest.param("xyzzy", "no story 'xyzzy'; 'simkubelet list' shows the built-in ones; or", id="unknown"),
        pytest.param("{tmp}", "no story in folder", id="folder without stories"),
    ],
)
def test_what_is_no_story_is_refused(argument: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        stories.find([argument.format(tmp=tmp_path)])

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("One.", "One"), ("One. Two.", "One"), ("XID 7.9 is\n  one. Two", "XID 7.9 is one"), ("", "")],
)
def test_first_sentence(text: str, sentence: str) -> None:
    assert stories.first_sentence(text) == sentence


def test_chosen_stories_are_some_of_each_topic() -> None:
    topics = {name.rpartition("/")[0].partition("/")[0] for name in PATHS}

    assert {name.rpartition("/")[0].partition("/")[0] for name in stories.CHOSEN} == topics
    assert stories.chosen() == [PATHS[name] for name in stories.CHOSEN]
    assert len(set(stories.CHOSEN)) == len(stories.CHOSEN) < len(PATHS) / 4


def test_schema_describes_every_key() -> None:
    schema = json_schema()

    parts = {"Scenario": schema, **schema["$defs"]}
    silent = [
        f"{part}.{key}"
        for part, content in parts.items()
        for key, value in content.get("properties", {}).items()
        if "description" not in value and "$ref" not in value
    ]
    assert silent == []
    assert schema["properties"]["steps"]["description"] == "What happens, in order."
    assert "Attributes:" not in json.dumps(schema)


def test_schema_has_examples_of_verbs_that_it_accepts(validator: jsonschema.Draft202012Validator) -> None:
    steps = json_schema()["$defs"]["Step"]["properties"]
    examples = {key: example for key in STEP_KEYS for example in steps[key].get("examples", ())}

    assert len(examples) > len(STEP_KEYS) * 0.9
    story = {"name": "x", "description": "x", "steps": [{key: example} for key, example in examples.items()]}
    assert [error.message for error in validator.iter_errors(story)] == []
