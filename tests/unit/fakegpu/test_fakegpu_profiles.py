from __future__ import annotations

from math import ceil
from pathlib import Path

import jsonschema
import pytest
import yaml

from fakegpu import InputError, Machine
from fakegpu.machine.hardware import states_of
from fakegpu.profiles.document import Part, parse_as
from fakegpu.profiles.profile import Profile, load_profile, parse_profile, profile_names, profile_text


def test_profiles_of_the_package() -> None:
    assert profile_names() == (
        "a100-40gb",
        "a100-80gb",
        "a30",
        "b200",
        "gb200",
        "h100-80gb",
        "h100-pcie",
        "h200",
        "l4",
        "l40s",
        "rtx-4090",
        "t4",
        "v100-16gb",
    )


@pytest.mark.parametrize("name", profile_names())
def test_every_figure_names_the_document_it_comes_from(name: str) -> None:
    profile = load_profile(name)

    used = set()
    for key, section in profile.sections():
        named = {section.source: section.figures()} if isinstance(section.source, str) else section.source
        assert {figure for figures in named.values() for figure in figures} == section.figures(), key
        used |= set(named)
    assert used == set(profile.sources)


@pytest.mark.parametrize(
    ("name", "links"),
    [("h100-80gb", 18), ("h200", 18), ("a100-40gb", 12), ("a100-80gb", 12), ("b200", 18), ("gb200", 18)],
)
def test_links_end_in_nvswitches(name: str, links: int) -> None:
    nvlink = load_profile(name).nvlink

    assert nvlink is not None
    assert sum(switch.links for switch in nvlink.switches) == links


@pytest.mark.parametrize("name", profile_names())
def test_machine_keeps_the_profile_it_was_made_from(name: str, tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", name, 1)

    kept = parse_profile((machine.directory / "profile.yaml").read_text(), "profile.yaml")

    assert kept == load_profile(name)


@pytest.mark.parametrize("name", ["h300", "", "T4"])
def test_unknown_profile_names_those_there_are(name: str) -> None:
    with pytest.raises(InputError, match="a100-40gb, a100-80gb, a30"):
        load_profile(name)


def test_profile_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(profile_text("l4").replace("NVIDIA L4", "NVIDIA L4 of mine"))

    machine = Machine.create(tmp_path / "node", f"{tmp_path}/mine.yaml", 2)

    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA L4 of mine"] * 2


@pytest.mark.parametrize("name", ["./missing.yaml", "missing.yml", "../t4"])
def test_missing_file_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"{name.removeprefix('./')}: No such file"):
        load_profile(name)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        pytest.param(
            "totalMib: 15360", "totalMib: many", "memory.totalMib: Input should be a valid integer", id="type"
        ),
        pytest.param("width: 16", "width: 16\n  colour: red", "pcie.colour: Extra inputs", id="unknown key"),
        pytest.param("generation: 3", "generation: 9", "pcie.generation: Input should be less", id="range"),
        pytest.param("events: [xid", "events: [thunder", "identity.events", id="event"),
        pytest.param("limitMinW: 60", "limitMinW: 71", "power: limits must rise", id="power limits"),
        pytest.param("slowdownC: 93", "slowdownC: 80", "thermal: temperatures must rise", id="thresholds"),
        pytest.param("reservedMib: 448", "reservedMib: 16000", "memory: reservedMib 16000 leaves nothing", id="memory"),
        pytest.param(
            "memory: 405, graphicsMax: 645", "memory: 9000, graphicsMax: 645", "clocks: supported", id="clocks"
        ),
        pytest.param("3b:00", "18:00", "topology: two slots have the address 18:00", id="address"),
        pytest.param("source: server", "source: nowhere", "topology.source: no 'nowhere'", id="unknown source"),
        pytest.param("[busWidthBits]}", "[]}", "memory.source: names no document for busWidthBits", id="no source"),
        pytest.param("totalMib: 15360", f"totalMib: {1 << 32}", "memory.totalMib: Input should be less", id="size"),
        pytest.param("idleC: 33", "idleC: -1", "thermal.idleC: Input should be greater", id="below zero"),
        pytest.param("idleW: ", "idleW: 99999", "power.idleW: Input should be less", id="watts"),
        pytest.param("graphicsStep: ", "graphicsStep: .inf # ", "clocks.graphicsStep: Input should be less", id="step"),
        pytest.param("name: Tesla T4", "name: Tesla Tée", "identity.name: String should match", id="more than ASCII"),
        pytest.param("cuda: 13000", "cuda: 4294967296", "driver.cuda: Input should be less", id="cuda"),
        pytest.param("idle: [idleW]", "idle: [idleW, limitW]", "power.source: limitW is no figure", id="two sources"),
    ],
)
def test_wrong_profile_names_file_line_and_key(before: str, after: str, message: str) -> None:
    text = profile_text("t4")
    assert before in text

    with pytest.raises(InputError, match=rf"^mine\.yaml:\d+: {message}") as caught:
        parse_profile(text.replace(before, after, 1), "mine.yaml")

    assert "\n" not in str(caught.value)


def test_line_of_a_mistake_is_where_it_stands() -> None:
    lines = profile_text("t4").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "totalMib" in text)
    lines[line - 1] = "  totalMib: many"

    with pytest.raises(InputError, match=rf"^mine\.yaml:{line}: "):
        parse_profile("\n".join(lines), "mine.yaml")


@pytest.mark.parametrize(
    "text", ["a: [", "a: 2026-13-45", "a: " + "9" * 5000, "[" * 1000, "a: !!bool x", "a: !!int ''", "a: &a [x]\nb: *a"]
)
def test_text_that_is_not_yaml_is_one_line(text: str) -> None:
    with pytest.raises(InputError, match=r"mine.yaml(:\d+)?: (not YAML: |'\*a' is an alias)") as caught:
        parse_profile(text, "mine.yaml")

    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = Profile.model_json_schema(by_alias=True)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(
    "figure",
    [
        *("1:30", "-1:30.5", "017", "0b11", "1_000", "1_0.5", "yes", "No", "ON", "!!int '1:30'"),
        pytest.param("1" + ":59" * 1_000_000, id="long"),
        pytest.param("!!int 1" + ":59" * 1_000_000, id="long int"),
    ],
)
def test_figure_of_yaml_1_1_alone_is_refused(figure: str) -> None:
    text = profile_text("t4").replace("idleC: ", f"idleC: {figure} # ")

    with pytest.raises(
        InputError, match=r"mine.yaml:\d+: '.{2,60}' is another value in YAML 1.1 than in 1.2"
    ) as caught:
        parse_profile(text, "mine.yaml")

    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text", ["0", "-7", "1.5", "1.5e+3", ".5", "0x1F", "true", "False", "'1:30'", '"yes"', "!!str 017", "0o17", "x_1"]
)
def test_value_of_both_yamls_is_read(text: str) -> None:
    class Document(Part):
        value: bool | int | float | str

    assert parse_as(Document, f"value: {text}", "mine.yaml").value == yaml.safe_load(text)


@pytest.mark.parametrize("name", profile_names())
def test_json_schema_accepts_the_profiles_and_refuses_unknown_keys(
    name: str, validator: jsonschema.Draft202012Validator
) -> None:
    content = yaml.safe_load(profile_text(name))

    validator.validate(content)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(content | {"colour": "red"})


@pytest.mark.parametrize(
    ("name", "reserved_mib", "free_mib"),
    [
        ("a100-40gb", 518, 40443),
        ("b200", 728, 182632),
        ("gb200", 742, 188730),
        ("h100-80gb", 480, 81080),
        ("l40s", 609, 45460),
        ("t4", 448, 14913),
    ],
)
def test_reserved_and_free_memory_are_as_nvidia_smi_printed_them(name: str, reserved_mib: int, free_mib: int) -> None:
    memory = next(states_of(load_profile(name), 1, "test")).memory

    free_bytes = memory.total_bytes - memory.reserved_bytes
    assert [ceil(size / (1 << 20)) for size in (memory.reserved_bytes, free_bytes)] == [reserved_mib, free_mib]
