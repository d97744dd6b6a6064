"""Records what the kubelet's real device manager answers to ``scripts.jsonl``: writes ``sequences.jsonl``.

A script is a sequence without answers. `python tests/oracle/record.py` builds the oracle on the usual Kubernetes
version and plays every script to it; with ``--check`` it plays the recorded sequences and prints the differences, which
is the way to see what another version, or another kubelet, answers differently:

    python tests/oracle/record.py --check --kubernetes 1.36
    python tests/oracle/record.py --check --kubelet "python -m simkubelet.stdio"
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from tests.support import sequences  # noqa: E402 - found through the line above
from tools.build import oracle as build_oracle  # noqa: E402 - found through the line above

SCRIPTS = HERE / "scripts.jsonl"


async def record_all(binaries: build_oracle.Binaries) -> None:
    recorded = [
        await sequences.record(script, binaries.oracle, binaries.stub) for script in sequences.read_sequences(SCRIPTS)
    ]
    sequences.SEQUENCES.write_text("".join(f"{json.dumps(sequence)}\n" for sequence in recorded))


async def check_all(path: Path, kubelet: list[str], stub: Path) -> int:
    """Print every difference and return how many sequences had one."""
    failed = 0
    for sequence in sequences.read_sequences(path):
        differences = await sequences.play(sequence, kubelet, stub)
        failed += bool(differences)
        for found in differences:
            print(found)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description="Record the real device manager's answers, or compare with them.")
    parser.add_argument("--check", action="store_true", help="compare instead of recording")
    parser.add_argument("--kubernetes", default=build_oracle.DEFAULT_MINOR, metavar="MINOR")
    parser.add_argument("--kubelet", metavar="COMMAND", help="compare this kubelet, not the oracle")
    parser.add_argument("--sequences", type=Path, default=sequences.SEQUENCES, metavar="FILE")
    chosen = parser.parse_args()
    try:
        binaries = build_oracle.build(chosen.kubernetes)
    except build_oracle.BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    if not chosen.check:
        asyncio.run(record_all(binaries))
        return 0
    kubelet = shlex.split(chosen.kubelet) if chosen.kubelet else [str(binaries.oracle)]
    return 1 if asyncio.run(check_all(chosen.sequences, kubelet, binaries.stub)) else 0


if __name__ == "__main__":
    sys.exit(main())
