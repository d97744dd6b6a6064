"""Options take numbers in ASCII digits alone, in all commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakegpu.cli import main as fakegpu_cli
from fakegpu.cli import numbers as fakegpu_numbers
from plugin import cli as plugin_cli
from simkubelet import cli as simkubelet_cli
from simkubelet.apis import numbers

OTHER_DIGITS = ("\u0663", "1\u0660", "\uff11", "1_0", " 1", "1 ", "1\n", "", "0x1", "1e", "nan", "inf", "\u00b2")
TEXTS = st.text(alphabet="0123456789+-.eE_ \n\u0663\uff11", max_size=6)


def numbers_of(command: click.Command, path: str) -> Iterator[tuple[str, click.ParamType]]:
    """The options of a command and of those below it that take numbers."""
    for parameter in command.params:
        if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType):
            yield f"{path} {parameter.name}", parameter.type
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from numbers_of(below, f"{path} {name}")


ALL = [
    *numbers_of(simkubelet_cli.commands, "simkubelet"),
    *numbers_of(fakegpu_cli.cli, "fakegpu"),
    *numbers_of(plugin_cli.plugins, "plugin"),
]


def test_there_are_options_with_numbers() -> None:
    assert len(ALL) > 30


@pytest.mark.parametrize(("option", "type_"), ALL, ids=[option for option, _ in ALL])
def test_option_refuses_other_digits(option: str, type_: click.ParamType) -> None:
    for text in OTHER_DIGITS:
        with pytest.raises(click.BadParameter):
            type_.convert(text, None, None)


@given(text=TEXTS)
def test_whole_number_has_the_form_of_one(text: str) -> None:
    for type_ in (numbers.Int(), numbers.IntRange(), fakegpu_numbers.Int(), fakegpu_numbers.IntRange()):
        if re.fullmatch("[+-]?[0-9]+", text):
            assert type_.convert(text, None, None) == int(text)
        else:
            with pytest.raises(click.BadParameter, match="is not a valid integer"):
                type_.convert(text, None, None)


@given(text=TEXTS)
def test_number_has_the_form_of_one(text: str) -> None:
    for type_ in (numbers.Float(), numbers.FloatRange(), fakegpu_numbers.Float(), fakegpu_numbers.FloatRange()):
        if re.fullmatch("[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,3})?", text):
            assert type_.convert(text, None, None) == float(text)
        else:
            with pytest.raises(click.BadParameter, match="is not a valid float"):
                type_.convert(text, None, None)
