"""``python -m bench.hostile_objects``: what objects of strangers cost the process of `simkubelet up`.

Each of `tests.support.hostile_objects` is sent, and what was taken is deleted, in several rounds. A line has the memory
before and after each round, the longest time without an answer of ``/healthz``, and the attack during which that was.
The first round also loads what evaluates selectors, 17 MB.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from pathlib import Path

from tests.support.hostile_objects import ATTACKS, send
from tests.support.live_cluster import LiveCluster, live_cluster
from tests.support.patience import eventually

GROWTH_AT_MOST = 1.2
ROUNDS = 4
_ANSWER_S = 600.0
# A watch's history holds what has gone for 75 s, and is looked through every 15.
_FORGOTTEN_S = 95.0


def memory_mb(cluster: LiveCluster, field: str) -> float:
    status = Path(f"/proc/{cluster.process.pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) / 1024 if found is not None else 0.0


class Beat:
    """Asks for ``/healthz`` until it is stopped."""

    def __init__(self, server: str) -> None:
        self.attack = ""
        self.longest_s, self.during = 0.0, ""
        self._server = server
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(0.05):
            attack, began = self.attack, time.perf_counter()
            send(self._server, "/healthz", None, _ANSWER_S)
            if (took := time.perf_counter() - began) > self.longest_s:
                self.longest_s, self.during = took, attack

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def remove(cluster: LiveCluster, path: str) -> None:
    send(cluster.server, path, None, _ANSWER_S, "DELETE")
    eventually(lambda: send(cluster.server, path, None, _ANSWER_S)[0] == 404)


def attack(cluster: LiveCluster, beat: Beat) -> int:
    """Send each object and delete what is taken; how many were."""
    taken = 0
    for name, attack in ATTACKS.items():
        beat.attack = name
        status, answer = send(cluster.server, attack.path, attack.body(), _ANSWER_S)
        if status == 201:
            taken += 1
            remove(cluster, f"{attack.path}/{json.loads(answer)['metadata']['name']}")
    return taken


def measure(cluster: LiveCluster) -> dict[str, object]:
    before = memory_mb(cluster, "VmRSS")
    beat, after, taken = Beat(cluster.server), [], 0
    for _ in range(ROUNDS):
        taken = attack(cluster, beat)
        time.sleep(_FORGOTTEN_S)
        after.append(memory_mb(cluster, "VmRSS"))
    beat.stop()
    return {
        "attacks": len(ATTACKS),
        "taken": taken,
        "longest_pause_s": round(beat.longest_s, 2),
        "during": beat.during,
        "before_mb": round(before),
        "peak_mb": round(memory_mb(cluster, "VmHWM")),
        "after_rounds_mb": [round(each) for each in after],
        "after_last_mb_at_most": round(after[0] * GROWTH_AT_MOST),
    }


def main() -> int:
    with live_cluster("--plain --profile t4 --gpus 1") as cluster:
        print(json.dumps({"bench": "hostile_objects", **measure(cluster)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
