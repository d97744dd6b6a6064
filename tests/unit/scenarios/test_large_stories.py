"""A large story is checked in a time that grows as the story does, or refused in one line that names the bound."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scenarios.story import stories
from scenarios.story.crosscheck import Known
from scenarios.story.document import DocumentError, load

HEAD = "name: story\ndescription: D.\n"
POD = "{{apiVersion: v1, kind: Pod, metadata: {{name: p{0}}}, spec: {{containers: [{{name: main, image: i}}]}}}}"
FEW = 800


def entries(key: str, entry: Callable[[int], str]) -> Callable[[int], str]:
    return lambda count: f"{key}:\n" + "".join(f"- {entry(number)}\n" for number in range(count))


def steps(entry: Callable[[int], str]) -> Callable[[int], str]:
    return entries("steps", entry)


def containers(count: int) -> str:
    listed = ", ".join(f"{{name: c{number}, image: i}}" for number in range(count))
    return f"steps:\n- apply: {{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{listed}]}}}}\n"


def nodes_in_use(count: int) -> str:
    return entries("nodes", "name: n{}".format)(count) + steps("restartKubelet: {{node: n{}}}".format)(count)


def nodes_mistaken(count: int) -> str:
    return entries("nodes", "name: n{}".format)(count) + steps("restartKubelet: {{node: m{}}}".format)(count)


@pytest.fixture
def no_collections() -> Iterator[None]:
    """The time of a check is its own, not that of collections of what other tests have left."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(steps(lambda number: f"apply: {POD.format(number)}"), id="pods"),
        pytest.param(
            steps(lambda n: f"expect: {{pod: q{n}, phase: Running}}" if n % 2 else f"apply: {POD.format(n)}"),
            id="unknown pods",
        ),
        pytest.param(steps("frobnicate{}: {{}}".format), id="unknown verbs"),
        pytest.param(nodes_in_use, id="nodes"),
        pytest.param(nodes_mistaken, id="unknown nodes"),
        pytest.param(containers, id="containers"),
    ],
)
def test_time_of_a_check_grows_as_the_story(text: Callable[[int], str], tmp_path: Path, known: Known) -> None:
    file = tmp_path / "story.yaml"

    def seconds(count: int) -> float:
        file.write_text(HEAD + text(count))
        began = time.process_time()
        try:
            load(file, known)
        except DocumentError as error:
            said.append(str(error))
        return time.process_time() - began

    said: list[str] = []
    seconds(10)
    # What is linear takes four times as long, what is quadratic sixteen times.
    assert seconds(4 * FEW) < 8 * min(seconds(FEW), seconds(FEW))
    assert max(map(len, said), default=0) < 200_000


def test_of_many_problems_the_first_are_reported(tmp_path: Path, known: Known) -> None:
    file = tmp_path / "story.yaml"
    file.write_text(HEAD + steps("frobnicate{}: {{}}".format)(500))

    with pytest.raises(DocumentError) as caught:
        load(file, known)

    assert len(caught.value.lines) == 101
    assert caught.value.lines[0] == f"{file}:4:3: steps[0].frobnicate0: unknown key"
    assert caught.value.lines[-1].endswith(" more problems")


@pytest.mark.parametrize(
    ("size", "reason"),
    [(1 << 33, "cannot be read: it is larger than 10 MiB"), (1 << 20, "are not allowed")],
)
def test_file_that_is_too_large_is_refused_in_one_line(size: int, reason: str, tmp_path: Path, known: Known) -> None:
    file = tmp_path / "story.yaml"
    file.touch()
    os.truncate(file, size)

    with pytest.raises(DocumentError) as caught:
        load(file, known)

    (line,) = caught.value.lines
    assert line.startswith(f"{file}:")
    assert reason in line
    assert stories.contents(file) is None


@pytest.mark.parametrize("text", ["tags: [" + "a," * 300_000 + "]", "tags:\n" + "- a\n" * 300_000])
def test_story_of_too_many_values_is_refused_with_the_place(text: str, tmp_path: Path, known: Known) -> None:
    file = tmp_path / "story.yaml"
    file.write_text(HEAD + text)

    with pytest.raises(DocumentError, match=r"story.yaml:\d+:\d+: more than 200000 values; write it flatter"):
        load(file, known)


def test_device_without_an_end_is_refused(known: Known) -> None:
    with pytest.raises(DocumentError, match="larger than 10 MiB"):
        load(Path("/dev/zero"), known)


def test_parameter_that_multiplies_a_text_is_refused(tmp_path: Path, known: Known) -> None:
    file = tmp_path / "story.yaml"
    texts = "".join(f"- {{name: '{'${p}' * 1000}', restartKubelet: {{}}}}\n" for _ in range(20))
    file.write_text(f"{HEAD}parameters: {{p: {'x' * 10_000}}}\nsteps:\n{texts}")

    with pytest.raises(DocumentError, match="the parameters make the story too large"):
        load(file, known)
