"""Look for inputs that a target fails at: ``python -m tests.fuzz TARGET --seconds 600``.

libFuzzer changes the inputs of the corpus and keeps those that reach other code: as atheris has it for the readers, and
linked with the fake libnvidia-ml.so.1 for ``nvml``. schemathesis makes the requests of ``api-server``, which have no
corpus. What fails is written into ``build/fuzz``.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import CodeType, FunctionType

_WIRE = ("hpack", "simkubelet.apis.grpcwire")
_OBSERVED = {
    "story": ("scenarios.story.document", "scenarios.story.parameters", "scenarios.story.crosscheck"),
    "documents": ("simkubelet.cluster.api.decoding.documents", "yaml.composer", "yaml.constructor"),
    "manifest": ("simkubelet.pods.static_pods", "simkubelet.model.pod"),
    "messages": ("simkubelet.golang.message", "simkubelet.devices.device_list"),
    "objects": ("simkubelet.cluster.api.decoding",),
    "cdi": ("simkubelet.cdi",),
    "checkpoint": ("simkubelet.devices.checkpoint",),
    "grpc-server": _WIRE,
    "grpc-client": _WIRE,
}
"""Target -> the modules whose branches guide the search; each takes seconds to prepare."""
_SLOWEST_S = 20
FINDINGS = Path("build", "fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", choices=[*_OBSERVED, "nvml", "api-server"])
    parser.add_argument("--seconds", type=int, default=600)
    chosen = parser.parse_args()
    if chosen.target == "api-server":
        FINDINGS.mkdir(parents=True, exist_ok=True)
        from tests.fuzz import api_server

        return api_server.search(FINDINGS, chosen.seconds)
    corpus = Path("tests", "fuzz", "corpus", chosen.target)
    for folder in (corpus, FINDINGS):
        folder.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={chosen.seconds}", f"-timeout={_SLOWEST_S}", "-rss_limit_mb=4096"]
    if chosen.target == "nvml":
        return _search_library(corpus, limits)
    return _search_reader(chosen.target, corpus, limits)


def _search_library(corpus: Path, limits: list[str]) -> int:
    from tests.fuzz import nvml_fuzzer
    from tools.build.apt import AptError

    try:
        return nvml_fuzzer.search(corpus, FINDINGS, limits)
    except AptError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3


def _search_reader(target: str, corpus: Path, limits: list[str]) -> int:
    import atheris

    logging.disable(logging.CRITICAL)
    # Of a module that the finder of an editable install loads, atheris sees no branch; they are in this folder as well.
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_editable_")]
    with atheris.instrument_imports(include=list(_OBSERVED[target])):
        from tests.support.fuzz_targets import SEEDS, TARGETS
    if blind := [name for name in _OBSERVED[target] if not any(map(_has_branches, _code(name)))]:
        print(f"error: atheris sees no branch of {', '.join(blind)}", file=sys.stderr)
        return 3
    findings = f"-artifact_prefix={FINDINGS / target}-"
    atheris.Setup(
        [sys.argv[0], *limits, "-max_len=8192", findings, str(corpus), *map(str, SEEDS.get(target, ()))],
        TARGETS[target],
    )
    atheris.Fuzz()
    return 0


def _code(package: str) -> Iterator[CodeType]:
    """Code of a module, or of those of a package."""
    for name, module in list(sys.modules.items()):
        if f"{name}.".startswith(f"{package}."):
            types = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == name]
            for value in chain(vars(module).values(), *(vars(one).values() for one in types)):
                if isinstance(value, FunctionType):
                    yield value.__code__


def _has_branches(code: CodeType) -> bool:
    """Whether atheris has put its calls into it."""
    return "_trace_branch" in code.co_names


if __name__ == "__main__":
    sys.exit(main())
