"""What of nvml.h the library exports, and that its list of implemented functions is true."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import fakegpu
from fakegpu import Machine

NATIVE = Path(fakegpu.__file__).parent / "native"
NOT_SUPPORTED = 3
# Answers without a look at its arguments, or with them all missing.
SUCCEEDS_WITHOUT_ARGUMENTS = {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, NATIVE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def header() -> str:
    from importlib.metadata import files

    found = [file for file in files("nvidia-nvml-dev") or [] if file.name == "nvml.h"]
    return Path(str(found[0].locate())).read_text()


@pytest.fixture(scope="module")
def machine_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine.create(tmp_path_factory.mktemp("exports") / "node", count=2)
    yield machine
    machine.close()


def prototypes(header: str) -> dict[str, list[str]]:
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.DOTALL)
    found = re.findall(r"DECLDIR\s+(?:char\s*\*\s*)?(nvml\w+)\s*\(([^)]*)\)", text)
    return {name: [part.strip() for part in parameters.split(",")] for name, parameters in found}


def implemented(library: ctypes.CDLL) -> set[str]:
    library.fakegpu_implemented.restype = ctypes.c_char_p
    return set(library.fakegpu_implemented().decode().split())


def test_every_declared_function_is_exported(machine_of_module: Machine, header: str) -> None:
    library = ctypes.CDLL(str(machine_of_module.library))

    declared = load("generate_exports").declared_functions(header)

    assert len(declared) > 430
    assert {name for name in declared if not hasattr(library, name)} == set()


def test_generator_finds_all_that_the_prototypes_name(header: str) -> None:
    assert set(prototypes(header)) <= load("generate_exports").declared_functions(header)


def test_generator_refuses_a_function_that_nvml_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nvml.h").write_text("nvmlReturn_t DECLDIR nvmlShutdown(void);")
    (tmp_path / "state.h").write_text("")
    (tmp_path / "wrong.c").write_text("FG_API nvmlDeviceGetFlavour(nvmlDevice_t device)\n{\n}\n")
    generator = load("generate_exports")

    names = [str(tmp_path / name) for name in ("nvml.h", "state.h", "out.c", "wrong.c")]
    status = generator.main(["--header", names[0], "--state", names[1], "--output", names[2], names[3]])

    assert status == 1
    assert "nvmlDeviceGetFlavour" in capsys.readouterr().err
    assert not (tmp_path / "out.c").exists()


def test_versioned_and_unversioned_names_are_both_there(machine_of_module: Machine) -> None:
    library = ctypes.CDLL(str(machine_of_module.library))

    for name in (
        "nvmlInit",
        "nvmlDeviceGetCount",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetPciInfo",
        "nvmlEventSetWait",
    ):
        assert hasattr(library, name)
        assert hasattr(library, f"{name}_v2")


SWEEP = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
plan = json.load(sys.stdin)
answers = {}
buffers = [ctypes.create_string_buffer(1 << 16) for _ in range(16)]
device = ctypes.c_void_p()

def call(name, arguments):
    return getattr(library, name)(*arguments)

def arguments_of(parameters, handle, pointer):
    built = []
    for position, parameter in enumerate(parameters):
        if parameter == "void":
            continue
        if "*" in parameter or "[" in parameter or "EventSet_t" in parameter:
            built.append(pointer(position))
        elif parameter.startswith("nvmlDevice_t"):
            built.append(handle)
        else:
            built.append(ctypes.c_ulonglong(plan["number"]))
    return built

def sweep(handle, pointer):
    functions = plan["functions"].items()
    return {name: call(name, arguments_of(parameters, handle, pointer)) for name, parameters in functions}

null = lambda position: ctypes.c_void_p()
memory = lambda position: ctypes.cast(buffers[position], ctypes.c_void_p)
answers["uninitialized"] = sweep(ctypes.c_void_p(), null)
assert library.nvmlInit_v2() == 0
assert library.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)) == 0
answers["nulls"] = sweep(ctypes.c_void_p(), null)
answers["handle_and_nulls"] = sweep(device, null)
answers["garbage_handle"] = sweep(ctypes.c_void_p(0xDEADBEEF), memory)
answers["shifted_handle"] = sweep(ctypes.c_void_p(device.value + 8), memory)
answers["all_valid"] = sweep(device, memory)
print(json.dumps(answers))
"""


@pytest.fixture(scope="module", params=[0, 1, 2**31], ids=["zeros", "ones", "huge"])
def answers(request: pytest.FixtureRequest, machine_of_module: Machine, header: str) -> dict[str, dict[str, int]]:
    """Return codes of every function, by the kind of arguments, from a process that survived them all."""
    number: int = request.param
    functions = {name: types for name, types in prototypes(header).items() if name not in SUCCEEDS_WITHOUT_ARGUMENTS}
    if number > 1:
        # A caller that claims more room than it has is a caller's crash, in the real library as well.
        functions = {
            name: types for name, types in functions.items() if "Affinity" not in name and "Performance" not in name
        }
    done = subprocess.run(
        [sys.executable, "-c", SWEEP, str(machine_of_module.library)],
        input=json.dumps({"functions": functions, "number": number}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, dict[str, int]] = json.loads(done.stdout)
    return result


def test_no_argument_crashes_the_library_and_all_return_codes_are_nvml_codes(
    answers: dict[str, dict[str, int]],
) -> None:
    codes = {code for by_function in answers.values() for code in by_function.values()}

    assert codes <= {*range(31), 999}


def test_list_of_implemented_functions_is_true(answers: dict[str, dict[str, int]], machine_of_module: Machine) -> None:
    real = implemented(ctypes.CDLL(str(machine_of_module.library)))

    assert len(real) >= 130
    for name, code in answers["nulls"].items():
        if name in real:
            assert code == 2, f"{name} takes NULL"
        else:
            assert code == NOT_SUPPORTED, f"{name} is no stub, but not in the list"


def test_implemented_functions_refuse_handles_that_are_none(
    answers: dict[str, dict[str, int]], machine_of_module: Machine, header: str
) -> None:
    real = implemented(ctypes.CDLL(str(machine_of_module.library)))
    with_device = {name for name, parameters in prototypes(header).items() if parameters[0].startswith("nvmlDevice_t")}

    for kind in ("garbage_handle", "shifted_handle"):
        wrong = {name for name in with_device & real & answers[kind].keys() if answers[kind][name] != 2}
        assert wrong == set()


def test_everything_but_a_few_says_uninitialized_before_init(answers: dict[str, dict[str, int]]) -> None:
    others = {name for name, code in answers["uninitialized"].items() if code != 1}

    assert others == {"nvmlGetExcludedDeviceCount"}


def test_shutdown_counts_its_inits(machine_of_module: Machine) -> None:
    library = ctypes.CDLL(str(machine_of_module.library))
    count = ctypes.c_uint()

    assert [library.nvmlInit_v2(), library.nvmlInit()] == [0, 0]
    assert library.nvmlShutdown() == 0
    assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    assert library.nvmlShutdown() == 0
    assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 1
    assert library.nvmlShutdown() == 1


def test_error_strings_are_texts(machine_of_module: Machine) -> None:
    library = ctypes.CDLL(str(machine_of_module.library))
    library.nvmlErrorString.restype = ctypes.c_char_p

    assert library.nvmlErrorString(15) == b"GPU is lost"
    assert library.nvmlErrorString(12345) == b"Unknown Error"
