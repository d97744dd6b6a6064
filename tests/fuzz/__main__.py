"""Look for inputs that a target fails at: ``python -m tests.fuzz TARGET --seconds 600``.

libFuzzer, as atheris has it, changes the inputs of the corpus and keeps those that reach other code. An input that
fails is written into ``build/fuzz``.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import atheris

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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", choices=_OBSERVED)
    parser.add_argument("--seconds", type=int, default=600)
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with atheris.instrument_imports(include=list(_OBSERVED[chosen.target])):
        from tests.support.fuzz_targets import CORPUS, SEEDS, TARGETS
    corpus = CORPUS / chosen.target
    for folder in (corpus, FINDINGS):
        folder.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={chosen.seconds}", f"-timeout={_SLOWEST_S}", "-rss_limit_mb=4096", "-max_len=8192"]
    findings = f"-artifact_prefix={FINDINGS / chosen.target}-"
    atheris.Setup(
        [sys.argv[0], *limits, findings, str(corpus), *map(str, SEEDS.get(chosen.target, ()))],
        TARGETS[chosen.target],
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
