from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fakegpu import InputError, Machine
from fakegpu.profile import load_profile, parse_profile, profile_names, profile_text


def test_profiles_of_the_package() -> None:
    assert profile_names() == ("a100-40gb", "h100-80gb", "t4")


@pytest.mark.parametrize("name", profile_names())
def test_profile_is_whole_and_names_its_sources(name: str) -> None:
    profile = load_profile(name)

    assert len(profile.source) >= 3
    assert profile.power.limit_min_w <= profile.power.limit_w <= profile.power.limit_max_w
    assert profile.thermal.gpu_max_c <= profile.thermal.slowdown_c <= profile.thermal.shutdown_c
    assert profile.clocks.maximum.memory in profile.clocks.supported_memory
    assert len({slot.address for slot in profile.topology.slots}) == len(profile.topology.slots)


@pytest.mark.parametrize(("name", "links"), [("h100-80gb", 18), ("a100-40gb", 12)])
def test_links_end_in_nvswitches(name: str, links: int) -> None:
    nvlink = load_profile(name).nvlink

    assert nvlink is not None
    assert sum(switch.links for switch in nvlink.switches) == links


@pytest.mark.parametrize("name", profile_names())
def test_machine_keeps_the_profile_it_was_made_from(name: str, tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", name, 1)

    kept = parse_profile((machine.directory / "profile.yaml").read_text(), "profile.yaml")

    assert kept == load_profile(name)


@pytest.mark.parametrize("name", ["h200", "", "../t4", "t4.yaml"])
def test_unknown_profile_names_those_there_are(name: str) -> None:
    with pytest.raises(InputError, match="a100-40gb, h100-80gb, t4"):
        load_profile(name)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        pytest.param(
            ("memory", "totalMib"), "many", "memory.totalMib: Input should be a valid integer", id="wrong type"
        ),
        pytest.param(("memory", "colour"), "red", "memory.colour: Extra inputs are not permitted", id="unknown key"),
        pytest.param(("pcie", "generation"), 9, "pcie.generation", id="out of range"),
        pytest.param(("identity", "events"), ["thunder"], "identity.events", id="unknown event"),
    ],
)
def test_wrong_profile_names_file_and_key(path: tuple[str, str], value: object, message: str) -> None:
    content = yaml.safe_load(profile_text("t4"))
    content[path[0]][path[1]] = value

    with pytest.raises(InputError, match=f"mine.yaml: {message}"):
        parse_profile(yaml.safe_dump(content), "mine.yaml")


def test_text_that_is_no_yaml_is_one_line() -> None:
    with pytest.raises(InputError, match=r"mine.yaml: not YAML: .*line 1") as caught:
        parse_profile("a: [", "mine.yaml")

    assert "\n" not in str(caught.value)
