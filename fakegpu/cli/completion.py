"""``fakegpu completion``, and what a shell offers for the words of commands: GPUs, profiles, keys, calls and errors.

Where there is no machine, no GPU is offered.
"""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETE: Final = "_FAKEGPU_COMPLETE"
"""The variable with which a shell asks click."""
_SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@click.pass_context
def completion(context: click.Context, /, shell: str | None) -> None:
    """Print the script with which a shell completes commands, options, GPUs, profiles and NVML functions.

    Without SHELL it is for the shell that $SHELL names.

    \b
    Example, to have it in every new shell:
      echo 'eval "$(fakegpu completion bash)"' >> ~/.bashrc
      fakegpu completion fish > ~/.config/fish/completions/fakegpu.fish
    """
    from click.shell_completion import get_completion_class

    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in _SHELLS:
        raise click.UsageError(f"for which shell? Give one of {', '.join(_SHELLS)}")
    if (kind := get_completion_class(shell)) is not None:
        click.echo(kind(context.find_root().command, {}, "fakegpu", COMPLETE).source())


def check_question(question: str) -> None:
    """Refuse what click takes for the question of a shell and cannot answer.

    Raises:
        InputError: the variables of the question are not as the scripts of `completion` set them.
    """
    from ..errors import InputError

    shell, _, wanted = question.partition("_")
    has_words = {"COMP_WORDS", "COMP_CWORD"} <= os.environ.keys()
    # That of fish is the word itself.
    is_numbered = has_words and (shell == "fish" or os.environ["COMP_CWORD"].lstrip("-").isdecimal())
    if shell not in _SHELLS or not (wanted == "source" or (wanted == "complete" and is_numbered)):
        raise InputError(f"{COMPLETE} is set, which is for scripts of completion alone; unset it")


def gpus(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The GPUs of the machine, by index, and by UUID where one is begun."""
    from ..errors import FakeGpuError
    from ..machine.machine import Machine

    try:
        found = Machine.open(context.params.get("directory")).gpus
    except FakeGpuError:
        return []
    return _offered([*(str(gpu.index) for gpu in found), *(gpu.uuid for gpu in found if incomplete)], incomplete)


def profiles(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The GPU models, and files."""
    from click.shell_completion import CompletionItem

    from ..profiles.profile import profile_names

    return [CompletionItem(incomplete, type="file"), *_offered(profile_names(), incomplete)]


def keys(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The figures of a GPU, each with the sign behind which its value comes."""
    from ..machine.settings import SETTINGS

    return _offered((f"{key}=" for key in SETTINGS), incomplete)


def functions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The NVML functions that can be slow or fail."""
    from ..faults.rules import known_functions

    return _offered(sorted(known_functions()), incomplete)


def errors(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The errors of NVML."""
    from ..faults.rules import known_errors

    return _offered(sorted(known_errors()), incomplete.upper())


def _offered(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
