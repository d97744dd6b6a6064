from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from scenarios.play.job import Options, prepare
from scenarios.story import stories
from scenarios.story.crosscheck import Known
from scenarios.story.document import DocumentError, load
from scenarios.story.schema import json_schema
from simkubelet.model.errors import InputError

WriteStory = Callable[..., Path]
STORY = """\
parameters: {resource: example.com/gpu, count: 2, tapped: false}
plugins:
- name: mine
  command: [sh, -c, "echo $${HOME} ${resource}x${count}"]
  tap: ${tapped}
steps:
- expect:
    node: node-1
    capacity:
      ${resource}: ${count}
"""


@pytest.mark.parametrize(
    ("settings", "resource", "count", "tapped"),
    [
        pytest.param({}, "example.com/gpu", 2, False, id="defaults"),
        pytest.param({"resource": "r", "count": "8", "tapped": "true"}, "r", 8, True, id="text of a command line"),
        pytest.param({"count": 8, "resource": "7"}, "7", 8, False, id="typed"),
    ],
)
def test_parameter_takes_its_place_in_keys_texts_and_values(
    settings: Mapping[str, Any], resource: str, count: int, tapped: bool, write_story: WriteStory, known: Known
) -> None:
    scenario = load(write_story(STORY), known, settings).scenario

    (step,), (plugin,) = scenario.steps, scenario.plugins
    assert step.expect is not None
    assert step.expect.model_dump(include={"capacity"}) == {"capacity": {resource: count}}
    assert plugin.command == ("sh", "-c", f"echo ${{HOME}} {resource}x{count}")
    assert plugin.tap is tapped
    assert scenario.parameters == {"resource": resource, "count": count, "tapped": tapped}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param(
            STORY.replace("${count}\n", "${cont}\n").replace("${resource}:", "${resourc}:"),
            [
                "12:7: steps[0].expect.capacity[${resourc}]: no parameter 'resourc'; did you mean 'resource'?",
                "12:19: steps[0].expect.capacity[${resourc}]: no parameter 'cont'; did you mean 'count'?",
            ],
            id="unknown name",
        ),
        pytest.param(
            STORY.replace("${count}\n", "${resource}\n"),
            [
                "12:20: steps[0].expect.capacity[example.com/gpu]: expected a whole number of devices or 'absent'; "
                'found "example.com/gpu"'
            ],
            id="wrong type",
        ),
        pytest.param(
            STORY + "      example.com/gpu: 1\n",
            ["13:7: steps[0].expect.capacity[example.com/gpu]: key 'example.com/gpu' given twice"],
            id="key that becomes another",
        ),
        pytest.param(
            STORY.replace("tapped: false", "tapped: false, 2nd: 1, list: [a]"),
            [
                '3:66: parameters[2nd]: expected text of the form ^[A-Za-z][-A-Za-z0-9_]*$; found "2nd"',
                '3:80: parameters.list: expected text, a whole number, or true or false; found ["a"]',
            ],
            id="no parameter",
        ),
    ],
)
def test_problem_is_at_the_place_in_the_file(
    text: str, problems: list[str], write_story: WriteStory, known: Known
) -> None:
    path = write_story(text)

    with pytest.raises(DocumentError) as caught:
        load(path, known)

    assert list(caught.value.lines) == [f"{path}:{problem}" for problem in problems]


def test_failure_points_at_the_line_of_a_parameter(write_story: WriteStory, known: Known) -> None:
    path = write_story(STORY)

    story = load(path, known, {"resource": "r"})

    assert story.location("steps", 0, "expect", "capacity", "r") == f"{path}:12"


def test_story_without_parameters_keeps_the_text_of_shells(write_story: WriteStory, known: Known) -> None:
    path = write_story("plugins:\n- {name: p, command: [sh, -c, '${X} $${Y}']}\nsteps:\n- restartKubelet: {}")

    assert load(path, known).scenario.plugins[0].command == ("sh", "-c", "${X} $${Y}")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"count": "two"}, "--set count=two: parameter 'count' is a whole number; found 'two'", id="type"),
        pytest.param({"tapped": "1"}, "--set tapped=1: parameter 'tapped' is true or false; found '1'", id="boolean"),
        pytest.param(
            {"cuont": "2"},
            "--set: no parameter 'cuont'; did you mean 'count'?; a story of this run must declare it",
            id="name",
        ),
    ],
)
def test_setting_that_fits_no_parameter_is_refused(
    settings: Mapping[str, str], message: str, write_story: WriteStory
) -> None:
    with pytest.raises(InputError) as caught:
        prepare([write_story(STORY)], Options(settings=settings))

    assert str(caught.value) == message


def test_setting_need_not_fit_every_story(write_story: WriteStory) -> None:
    other = write_story("steps:\n- restartKubelet: {}", "other")

    jobs = prepare([write_story(STORY), other], Options(settings={"count": "3"}))

    assert [job.story.scenario.parameters.get("count") for job in jobs] == [3, None]


def test_schema_takes_a_parameter_in_place_of_any_value() -> None:
    story = {"name": "s", "description": "x", **yaml.safe_load(STORY)}
    validator = jsonschema.Draft202012Validator(json_schema())

    validator.validate(story)

    assert not validator.is_valid({**story, "parameters": {"count": "${count}", "list": [1]}})


def test_restart_of_the_kubelet_judges_any_plugin() -> None:
    settings = {"resource": "example.com/seat", "count": "3"}

    scenario = load(stories.builtin()["kubelet-restart"], settings=settings).scenario

    assert "nvidia.com/gpu" not in str(scenario.steps)
    assert "example.com/seat" in str(scenario.steps)
