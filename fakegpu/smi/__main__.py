"""``python -m fakegpu.smi``: the command line of our nvidia-smi, with the real one's options for the views there are.

Source: options and exit statuses: the manual page nvidia-smi(1), version 535.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NoReturn

import pynvml

from ..output import OutputError, one_line, print_styled, standard_streams
from . import mig, query, report, table, topology
from .reading import NotFoundError, select

_BAD_ARGUMENT: Final = 2
_NOT_FOUND: Final = 6
_INTERRUPTED: Final = 130
_STATUS: Final = {
    pynvml.NVML_ERROR_INVALID_ARGUMENT: 2,
    pynvml.NVML_ERROR_NOT_SUPPORTED: 3,
    pynvml.NVML_ERROR_NO_PERMISSION: 4,
    pynvml.NVML_ERROR_NOT_FOUND: 6,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: 9,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: 12,
    pynvml.NVML_ERROR_GPU_IS_LOST: 15,
    pynvml.NVML_ERROR_IN_USE: 19,
}
_OTHER: Final = 255


class _Parser(ArgumentParser):
    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        # Python 3.14 colours the help otherwise, into a pipe too where FORCE_COLOR is set.
        self.color = False

    def error(self, message: str) -> NoReturn:
        """One line, as every command of this project complains."""
        print(one_line(f"error: {message} (see `{self.prog} --help`)"), file=sys.stderr)
        sys.exit(_BAD_ARGUMENT)


def main(arguments: Sequence[str] | None = None, program: str = "nvidia-smi") -> int:
    """Run one command line.

    Args:
        arguments: without the program's name; those of the process if None.
        program: what help and complaints call it.

    Returns:
        The exit status, one of those of nvidia-smi(1).
    """
    with standard_streams():
        return _run(list(sys.argv[1:] if arguments is None else arguments), program)


def _run(words: Sequence[str], program: str) -> int:
    try:
        asked = _parse(words, program)
        pynvml.nvmlInit()
        try:
            # The matrix has a style of its own, and no names.
            _print(_view(asked), print_styled if asked.view == "topo" else sys.stdout.write)
        finally:
            pynvml.nvmlShutdown()
    except SystemExit as end:
        return int(end.code or 0)
    except pynvml.NVMLError as error:
        return _complain(f"NVML: {error}", _STATUS.get(error.value, _OTHER))
    except UnicodeDecodeError as error:
        return _complain(f"NVML: a text of the GPUs has other bytes than ASCII: {error.object!r}", _OTHER)
    except (NotFoundError, query.UnknownPropertyError) as error:
        return _complain(f"no GPU, property, part or profile '{error}'", _BAD_ARGUMENT)
    except mig.NoMigError as error:
        print(error)
        return _NOT_FOUND
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OutputError as error:
        for line in error.args:
            _complain(line, error.exit_status)
        return error.exit_status
    return 0


def _parse(words: Sequence[str], program: str) -> Namespace:
    if words and words[0] in {"topo", "mig"}:
        parser = _topology_parser(program) if words[0] == "topo" else _mig_parser(program)
        return parser.parse_args(words[1:], Namespace(view=words[0]))
    return _main_parser(program).parse_args(words, Namespace(view="gpus"))


def _main_parser(program: str) -> ArgumentParser:
    parser = _Parser(program, "GPUs as NVML shows them.")
    parser.epilog = "Other views: `topo -m`, `mig -lgip`, `mig -lgi`, `mig -cgi PROFILES [-C]`, `mig -dgi`."
    _add_gpu_choice(parser)
    parser.add_argument("-L", "--list-gpus", action="store_true", help="list the GPUs, one a line")
    parser.add_argument("-q", "--query", action="store_true", help="show everything about each GPU")
    parser.add_argument("-d", "--display", metavar="PARTS", help=f"with -q: only {', '.join(report.DISPLAYS)}")
    parser.add_argument("--query-gpu", metavar="PROPERTIES", help="the named properties, one GPU a line")
    parser.add_argument("--format", metavar="csv[,noheader][,nounits]", help="with --query-gpu")
    return parser


def _topology_parser(program: str) -> ArgumentParser:
    parser = _Parser(f"{program} topo", "How GPUs lie to each other.")
    _add_gpu_choice(parser)
    parser.add_argument("-m", "--matrix", action="store_true", required=True, help="as a matrix")
    return parser


def _mig_parser(program: str) -> ArgumentParser:
    parser = _Parser(f"{program} mig", "GPUs in MIG mode and their instances.")
    _add_gpu_choice(parser)
    actions = parser.add_mutually_exclusive_group(required=True)
    actions.add_argument("-lgip", "--list-gpu-instance-profiles", action="store_true", dest="lgip")
    actions.add_argument("-lgi", "--list-gpu-instances", action="store_true", dest="lgi")
    actions.add_argument("-cgi", "--create-gpu-instance", metavar="PROFILES", dest="cgi", help="ids or names[:start]")
    actions.add_argument("-dgi", "--destroy-gpu-instance", action="store_true", dest="dgi")
    parser.add_argument("-C", "--default-compute-instance", action="store_true", help="with -cgi: one for each, too")
    parser.add_argument("-gi", "--gpu-instance-id", metavar="IDS", dest="gi", help="with -dgi: these only")
    return parser


def _add_gpu_choice(parser: ArgumentParser) -> None:
    parser.add_argument("-i", "--id", metavar="GPUS", help="indices, UUIDs, serial numbers or PCI addresses")


def _view(asked: Namespace) -> Iterable[str]:
    gpus = select(asked.id)
    if asked.view == "topo":
        return topology.lines(gpus)
    if asked.view == "mig":
        if asked.lgip:
            return mig.profile_lines(gpus)
        if asked.lgi:
            return mig.instance_lines(gpus)
        if asked.cgi is not None:
            return mig.create(gpus, asked.cgi, asked.default_compute_instance)
        return mig.destroy(gpus, None if asked.gi is None else _numbers(asked.gi))
    if asked.query_gpu is not None:
        return query.lines(gpus, asked.query_gpu, asked.format)
    if asked.list_gpus:
        return table.list_lines(gpus)
    if asked.query:
        return report.lines(gpus, _displays(asked.display))
    return table.lines(gpus)


def _numbers(text: str) -> list[int]:
    if not re.fullmatch("[0-9]{1,9}(,[0-9]{1,9})*", text):
        raise NotFoundError(text)
    return [int(part) for part in text.split(",")]


def _displays(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip().upper() for name in text.split(",")]
    for name in names:
        if name not in report.DISPLAYS:
            raise NotFoundError(name)
    return names


def _print(lines: Iterable[str], write: Callable[[str], object]) -> None:
    for line in _flushed(lines):
        write(f"{line}\n")
    sys.stdout.flush()


def _flushed(lines: Iterable[str]) -> Iterator[str]:
    # What was done before a refusal is printed before it.
    try:
        yield from lines
    finally:
        sys.stdout.flush()


def _complain(message: str, status: int) -> int:
    print(one_line(f"error: {message}"), file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
