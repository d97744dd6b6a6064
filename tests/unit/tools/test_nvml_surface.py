"""The page about NVML's functions: what is read from C, and that the committed page follows from the sources."""

from __future__ import annotations

import json
import re

import pytest

from tools.generate import nvml_surface

STATE = """
struct fg_power {
    uint32_t usage_mw;
    uint32_t limit_mw;
};

struct fg_gpu_state {
    struct fg_power power;
};
"""

LAYOUT = """
struct fg_segment {
    char driver_version[80];
};
"""

SOURCE = """/* Power draw. And more. */
#define FG_OWN_GETTER(function, member) FG_READ(gpu, power, power); *out = power.member

FG_OWN_GETTER(nvmlDeviceGetPowerManagementLimit, limit_mw)

static int helper(const struct fg_power *power)
{
    return power->usage_mw;
}

FG_API nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *mw)
{
    FG_READ(gpu, power, copy);
    return helper(&copy);
}

FG_API nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int mw)
{
    change.state.power.limit_mw = mw;
    return 0;
}

FG_API nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    return fg_answer_text(segment->driver_version, version, length);
}

FG_API nvmlDeviceGetBusType(nvmlDevice_t device, nvmlBusType_t *type)
{
    *type = NVML_BUS_TYPE_PCIE;
    return 0;
}
"""

SINCE = dict.fromkeys(
    (
        "nvmlDeviceGetPowerManagementLimit",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceSetPowerManagementLimit",
        "nvmlSystemGetDriverVersion",
        "nvmlDeviceGetBusType",
        "nvmlDeviceGetBridgeChipInfo",
        "nvmlUnitGetUnitInfo",
    ),
    "12.4",
)


@pytest.fixture(scope="module")
def rows() -> dict[str, list[str]]:
    sources = nvml_surface.Sources({"core/state.h": STATE, "core/layout.h": LAYOUT, "nvml/power.c": SOURCE})
    page = nvml_surface.page(sources, SINCE, {"nvmlUnitGetUnitInfo": "INVALID_ARGUMENT"})
    assert "## Power draw\n" in page
    lines = (line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| nvml"))
    return {name: cells for name, *cells in lines}


@pytest.mark.parametrize(
    ("function", "cells"),
    [
        pytest.param("nvmlDeviceGetPowerManagementLimit", ["modelled", "12.4", "`power.limit_mw`"], id="macro"),
        pytest.param("nvmlDeviceGetPowerUsage", ["modelled", "12.4", "`power.usage_mw`"], id="by a helper"),
        pytest.param("nvmlDeviceSetPowerManagementLimit", ["modelled", "12.4", "sets `power.limit_mw`"], id="setter"),
        pytest.param("nvmlSystemGetDriverVersion", ["modelled", "12.4", "`driver_version`"], id="of the machine"),
        pytest.param("nvmlDeviceGetBusType", ["constant", "12.4"], id="constant"),
        pytest.param("nvmlDeviceGetBridgeChipInfo", ["not supported", "12.4"], id="not implemented"),
        pytest.param("nvmlUnitGetUnitInfo", ["constant", "12.4", "INVALID_ARGUMENT"], id="absent thing"),
    ],
)
def test_row_shows_what_the_source_does(rows: dict[str, list[str]], function: str, cells: list[str]) -> None:
    assert rows[function] == cells


def test_every_function_of_the_list_has_one_row() -> None:
    names = json.loads(nvml_surface.FUNCTIONS.read_text())["since"]

    shown = re.findall(r"^\| (nvml\w+) \|", nvml_surface.PAGE.read_text(), re.MULTILINE)

    assert sorted(shown) == sorted(names)


def test_list_of_functions_is_that_of_the_header() -> None:
    from tests.support.nvml_calls import generator, header_path

    names = json.loads(nvml_surface.FUNCTIONS.read_text())["since"]

    assert set(names) == generator().declared_functions(header_path().read_text())
