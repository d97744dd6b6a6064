"""Python's view of the segment: what becomes of C, and that the committed one follows from today's headers."""

from __future__ import annotations

import ctypes
import inspect
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest

from tools.generate import layout

STATE = """/* The state. */
#include <stdint.h>

#define FG_FANS_MAX 4u /* of one board */

/* Fans. They turn: see FG_FANS_MAX. */
struct fg_fans {
    uint32_t count;
    int32_t curve[2][FG_FANS_MAX]; /* rising */
    char label[8];
};

static inline int ignored(void)
{
    return 1;
}

"""

LAYOUT = """/* Kinds. */
enum fg_fan_kind {
    FG_FAN_AXIAL = 1, /* the usual one */
    FG_FAN_RADIAL,
};

/* Times */
#define FG_EVER UINT64_MAX
#define FG_FIRST (UINT64_C(1) << 63)
#define FG_TAIL (64u - sizeof(struct fg_fans))
#define FG_WORDS(topic) _Static_assert(sizeof(struct topic) % 8 == 0, "words")

struct fg_gpu {
    struct fg_fans fans[2];
    uint8_t tail[FG_TAIL];
};

struct fg_segment {
    uint64_t magic;
    struct fg_gpu gpus[];
};
"""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("generated") / "generated.py"
    path.write_text(layout.module([STATE, LAYOUT]), encoding="utf-8")
    spec = spec_from_file_location("generated", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_struct_becomes_a_ctypes_structure(generated: ModuleType) -> None:
    fans = generated.Fans
    assert [name for name, _ in fans._fields_] == ["count", "curve", "label"]
    assert [getattr(fans, name).offset for name, _ in fans._fields_] == [0, 4, 36]
    assert fans._fields_[1][1] is ctypes.c_int32 * 4 * 2
    assert inspect.getdoc(fans) == "``fg_fans``: Fans.\n\nThey turn: see FANS_MAX."


def test_constants_have_the_values_of_c(generated: ModuleType) -> None:
    assert (generated.FANS_MAX, generated.EVER, generated.FIRST, generated.TAIL) == (4, (1 << 64) - 1, 1 << 63, 20)
    assert not hasattr(generated, "WORDS")


def test_enumerators_count_on(generated: ModuleType) -> None:
    assert {kind.name: kind.value for kind in generated.FanKind} == {"AXIAL": 1, "RADIAL": 2}


def test_array_without_length_is_left_out(generated: ModuleType) -> None:
    assert [name for name, _ in generated.Header._fields_] == ["magic"]
    assert generated.STRUCTS["fg_segment"] is generated.Header


def test_comments_are_kept() -> None:
    text = layout.module([STATE, LAYOUT])

    assert "FANS_MAX: Final = 4  # of one board\n" in text
    assert '("curve", _i32 * FANS_MAX * 2),  # rising\n' in text
    assert "\n# Times\nEVER: Final" in text
    assert "    AXIAL = 1  # the usual one\n" in text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("struct fg_fans {\n    uint32_t count, most;\n};\n", id="two members in a line"),
        pytest.param("struct fg_fans {\n    uint32_t *count;\n};\n", id="pointer"),
        pytest.param("enum fg_kind {\n    FG_ONE = FG_TWO,\n};\n", id="enumerator"),
    ],
)
def test_line_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not one"):
        layout.module([text])


def test_committed_module_is_fresh() -> None:
    headers = [header.read_text(encoding="utf-8") for header in layout.HEADERS]

    assert layout.MODULE.read_text(encoding="utf-8") == layout.module(headers)
