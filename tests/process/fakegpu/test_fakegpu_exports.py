"""What of nvml.h the library exports, and what a function answers that no source implements."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakegpu import Machine
from tests.support.nvml_calls import POSITIONS, Caller, Header, fitting, generator, header_path, read_header

UNINITIALIZED = 1
CODES = {"NVML_ERROR_INVALID_ARGUMENT": 2, "NVML_ERROR_NOT_SUPPORTED": 3, "NVML_ERROR_NOT_FOUND": 6}
OPEN_A_SESSION = {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags"}


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Header:
    return read_header(tmp_path_factory.mktemp("header"))


@pytest.fixture
def library(machine: Machine) -> ctypes.CDLL:
    return ctypes.CDLL(str(machine.library))


@pytest.fixture
def caller(nvml: ctypes.CDLL, header: Header) -> Iterator[Caller]:
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
    caller = Caller(nvml, header, 1)
    caller.handles = {"valid": {"nvmlDevice_t": device.value or 0}}
    return caller


def implemented(library: ctypes.CDLL) -> set[str]:
    library.fakegpu_implemented.restype = ctypes.c_char_p
    return set(library.fakegpu_implemented().decode().split())


def test_every_declared_function_is_exported(library: ctypes.CDLL) -> None:
    declared = generator().declared_functions(header_path().read_text())

    assert len(declared) > 430
    assert {name for name in declared if not hasattr(library, name)} == set()


def test_at_least_250_functions_are_implemented(library: ctypes.CDLL) -> None:
    assert len(implemented(library)) >= 250


def test_versioned_and_unversioned_names_are_both_there(library: ctypes.CDLL) -> None:
    for name in (
        "nvmlInit",
        "nvmlDeviceGetCount",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetPciInfo",
        "nvmlEventSetWait",
    ):
        assert hasattr(library, name)
        assert hasattr(library, f"{name}_v2")


def test_everything_says_uninitialized_before_init(library: ctypes.CDLL, header: Header) -> None:
    caller = Caller(library, header, 1)
    caller.handles = {"valid": {}}
    called = [one for one in header.signatures if one.name not in OPEN_A_SESSION | {"nvmlErrorString"}]

    assert len(called) > 400
    assert [one.name for one in called if caller.call(one, fitting()) != UNINITIALIZED] == []


def test_what_is_not_implemented_says_so_to_right_arguments(
    caller: Caller, header: Header, library: ctypes.CDLL
) -> None:
    generate = generator()
    for signature in header.signatures:
        if signature.name not in implemented(library):
            expected = CODES[generate.answer_of_absence(signature.parameters)]
            some = fitting(numbers=(1,) * POSITIONS)  # a vGPU has no number 0
            assert caller.call(signature, some) == expected, signature.name


def test_functions_over_vgpus_and_units_find_none(caller: Caller, header: Header) -> None:
    known = {signature.name: signature for signature in header.signatures}

    some = fitting(numbers=(1,) * POSITIONS)
    assert caller.call(known["nvmlVgpuInstanceGetUUID"], some) == CODES["NVML_ERROR_NOT_FOUND"]
    assert caller.call(known["nvmlVgpuInstanceGetUUID"], fitting()) == CODES["NVML_ERROR_INVALID_ARGUMENT"]
    assert caller.call(known["nvmlVgpuTypeGetName"], fitting()) == CODES["NVML_ERROR_INVALID_ARGUMENT"]
    assert caller.call(known["nvmlUnitGetUnitInfo"], fitting()) == CODES["NVML_ERROR_INVALID_ARGUMENT"]


@pytest.mark.parametrize(
    ("prototype", "source", "complaint"),
    [
        pytest.param(
            "nvmlReturn_t DECLDIR nvmlShutdown(void);",
            "FG_API nvmlDeviceGetFlavour(nvmlDevice_t device)\n{\n}\n",
            "nvmlDeviceGetFlavour",
            id="function that nvml.h does not have",
        ),
        pytest.param(
            "nvmlReturn_t DECLDIR nvmlInit_v2(void);\n#define nvmlInit nvmlInit_v2\n",
            "",
            "FG_ALIAS: nvmlInit",
            id="other name that nobody implements",
        ),
    ],
)
def test_generator_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prototype: str, source: str, complaint: str
) -> None:
    (tmp_path / "nvml.h").write_text(prototype)
    (tmp_path / "state.h").write_text("")
    (tmp_path / "wrong.c").write_text(source)

    names = [str(tmp_path / name) for name in ("nvml.h", "state.h", "out.c", "wrong.c")]
    status = generator().main(["--header", names[0], "--state", names[1], "--output", names[2], names[3]])

    assert status == 1
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "out.c").exists()


def test_stub_checks_handle_pointers_and_version() -> None:
    generate = generator()
    header = (
        "#define nvmlPdi_v1 NVML_STRUCT_VERSION(Pdi, 1)\n"
        "typedef struct\n{\n    unsigned int version;\n    int value;\n} nvmlPdi_v1_t;\n"
        "typedef nvmlPdi_v1_t nvmlPdi_t;\n"
        "nvmlReturn_t DECLDIR nvmlDeviceGetPdi(nvmlDevice_t device, nvmlPdi_t *pdi, int other);\n"
    )

    text = generate.stub_of(
        "nvmlDeviceGetPdi", generate.prototypes(header)["nvmlDeviceGetPdi"], generate.struct_versions(header)
    )

    assert "FG_ENTER(device, pdi != NULL);" in text
    assert "pdi->version != nvmlPdi_v1" in text
    assert "(void)other;" in text
    assert text.index("FG_ENTER") < text.index("ARGUMENT_VERSION_MISMATCH") < text.index("NVML_ERROR_NOT_SUPPORTED")


def test_stub_lets_callers_ask_for_the_room_that_a_list_takes() -> None:
    generate = generator()
    header = (
        "nvmlReturn_t DECLDIR nvmlDeviceGetActiveVgpus(nvmlDevice_t device, unsigned int *vgpuCount, int *vgpus);\n"
    )

    text = generate.stub_of("nvmlDeviceGetActiveVgpus", generate.prototypes(header)["nvmlDeviceGetActiveVgpus"], {})

    assert "FG_ENTER(device, vgpuCount != NULL);" in text
    assert "(void)vgpus;" in text


def test_shutdown_counts_its_inits(library: ctypes.CDLL) -> None:
    count = ctypes.c_uint()

    assert [library.nvmlInit_v2(), library.nvmlInit()] == [0, 0]
    assert library.nvmlShutdown() == 0
    assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    assert library.nvmlShutdown() == 0
    assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 1
    assert library.nvmlShutdown() == 1


def test_error_strings_are_texts(library: ctypes.CDLL) -> None:
    library.nvmlErrorString.restype = ctypes.c_char_p

    assert library.nvmlErrorString(15) == b"GPU is lost"
    assert library.nvmlErrorString(12345) == b"Unknown Error"
