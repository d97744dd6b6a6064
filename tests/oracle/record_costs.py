"""Record what the real compiler and interpreter say of the expressions of ``costs.jsonl``: add one, and run this.

    SIMKUBELET_ORACLE_ALLOCATOR=PATH python -m tests.oracle.record_costs

PATH is that of the allocator's oracle of 1.34, as ``tools.build.oracle`` prints it.
"""

from __future__ import annotations

import json
import os

from tests.support.oracle import OracleProgram
from tests.support.random_expressions import select
from tests.support.recorded_costs import RECORDED, recorded_costs


def main() -> None:
    real = OracleProgram(os.environ["SIMKUBELET_ORACLE_ALLOCATOR"])
    lines = [{"expression": each["expression"], **select(real, each["expression"])} for each in recorded_costs()]
    RECORDED.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), encoding="utf-8")
    real.close()


if __name__ == "__main__":
    main()
