"""``python -m bench.huge_list [DEVICES...]``: lists beyond the 4 MiB that a real kubelet reads.

The devices are those of gpu-memory with one for each MiB: 655,360 are eight GPUs of 80 GiB. A line has the processor
time from the registration of a plugin until the node has published its list, that of the first and of a later pod with
two of the devices, and resident memory. The plugin is in the same process, so its own list is part of all that.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from tests.support.node import running_node

DEVICES = (65_536, 131_072, 327_680, 655_360)
GPUS = 8
PEAK_MB_AT_MOST = 1024
_LARGEST_BYTES = 256 << 20


async def measure(devices: int) -> None:
    # That the plugin ends, at the end, is no news here.
    logging.disable()
    each = devices // GPUS
    names = [f"GPU-0123456{gpu}-89ab-cdef-0123-456789abcdef-_-{part}" for gpu in range(GPUS) for part in range(each)]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with running_node(Path(folder) / "n", max_message_bytes=_LARGEST_BYTES) as node:
            times = [time.process_time()]
            await node.plugin(*names)
            await node.tick()
            if node.status() != (devices, devices):
                raise RuntimeError(f"{node.status()} devices are published, not {devices}")
            times.append(time.process_time())
            for _ in range(2):
                await node.settled_pod(2)
                times.append(time.process_time())
    listed_s, first_s, later_s = (round(after - before, 2) for before, after in pairwise(times))
    figures = {
        "list_cpu_s": listed_s,
        "first_pod_cpu_s": first_s,
        "later_pod_cpu_s": later_s,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "peak_mb_at_most": PEAK_MB_AT_MOST,
    }
    print(json.dumps({"bench": "huge_list", "devices": devices, **figures}), flush=True)


def main() -> int:
    sizes = sys.argv[1:] or list(map(str, DEVICES))
    if len(sizes) > 1:
        program = [sys.executable, "-m", "bench.huge_list"]
        return max(subprocess.run([*program, size], check=False).returncode for size in sizes)
    asyncio.run(measure(int(sizes[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
