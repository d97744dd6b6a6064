"""``python -m bench.hostile_objects``: what objects of strangers cost the process of `simkubelet up`.

Each of `tests.support.hostile_objects` is sent, and what was taken is deleted, in several rounds. A line has the memory
before and after each round, the longest time without an answer of ``/healthz``, and the attack during which that was.
The memory before is that of a cluster that was used in an ordinary way: it ran a pod, took a claim with a selector, and
was asked for lists. ``new_mb`` is that of a cluster that was not used: what evaluates selectors is loaded when
the first one comes, 17 MB. A second line has how long ``/healthz`` takes while a pod
with the worst selectors is tried, and how long the cluster takes to end in the middle of that.
"""

from __future__ import annotations

import json
import re
import signal
import statistics
import sys
import threading
import time
from pathlib import Path

from tests.support.hostile_objects import ATTACKS, CLAIMS, PODS, claim, costly_claim, pod, send
from tests.support.live_cluster import LiveCluster, live_cluster
from tests.support.patience import eventually

GROWTH_AT_MOST = 1.2
ROUNDS = 4
_ANSWER_S = 600.0
# A watch's history holds what has gone for 75 s, and is looked through every 15.
# Then what is unused is found and given back within 60.
_RETURNED_S = 155.0


def memory_mb(cluster: LiveCluster, field: str) -> float:
    status = Path(f"/proc/{cluster.process.pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) / 1024 if found is not None else 0.0


class Beat:
    """Asks for ``/healthz`` until it is stopped."""

    def __init__(self, server: str) -> None:
        self.attack = ""
        self.longest_s, self.during = 0.0, ""
        self.answers_s: list[float] = []
        self._server = server
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(0.05):
            attack, began = self.attack, time.perf_counter()
            send(self._server, "/healthz", None, _ANSWER_S)
            self.answers_s.append(time.perf_counter() - began)
            if self.answers_s[-1] > self.longest_s:
                self.longest_s, self.during = self.answers_s[-1], attack

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


def use(cluster: LiveCluster) -> None:
    """Use a cluster in an ordinary way, and wait until it has returned the memory for that."""
    for path, body in ((PODS, pod("used")), (CLAIMS, claim("used", "device.driver == 'gpu.example.com'"))):
        send(cluster.server, path, json.dumps(body).encode(), _ANSWER_S)
    eventually(lambda: b'"phase":"Running"' in send(cluster.server, f"{PODS}/used", None, _ANSWER_S)[1])
    for path in (PODS, CLAIMS):
        send(cluster.server, path, None, _ANSWER_S)
        remove(cluster, f"{path}/used")
    time.sleep(_RETURNED_S)


def measure(cluster: LiveCluster) -> dict[str, object]:
    new = memory_mb(cluster, "VmRSS")
    use(cluster)
    before = memory_mb(cluster, "VmRSS")
    beat, after, taken = Beat(cluster.server), [], 0
    for _ in range(ROUNDS):
        taken = attack(cluster, beat)
        time.sleep(_RETURNED_S)
        after.append(memory_mb(cluster, "VmRSS"))
    beat.stop()
    return {
        "attacks": len(ATTACKS),
        "taken": taken,
        "longest_pause_s": round(beat.longest_s, 2),
        "during": beat.during,
        "new_mb": round(new),
        "before_mb": round(before),
        "peak_mb": round(memory_mb(cluster, "VmHWM")),
        "after_rounds_mb": [round(each) for each in after],
        "after_mb_at_most": round(before * GROWTH_AT_MOST),
    }


def measure_selectors(cluster: LiveCluster) -> dict[str, object]:
    """Ask for ``/healthz`` during the try of a pod, and end the cluster during that of another one."""

    def is_tried() -> bool:
        return b"PodScheduled" in send(cluster.server, f"{PODS}/costly", None, _ANSWER_S)[1]

    for each in costly_claim("costly"):
        send(cluster.server, each.path, each.body(), _ANSWER_S)
    *_, again = costly_claim("again")
    beat, began = Beat(cluster.server), time.perf_counter()
    while not is_tried():
        time.sleep(0.1)
    took_s = time.perf_counter() - began
    beat.stop()
    send(cluster.server, again.path, again.body(), _ANSWER_S)
    time.sleep(2)
    ended = time.perf_counter()
    cluster.process.send_signal(signal.SIGTERM)
    cluster.process.wait()
    parts = statistics.quantiles(beat.answers_s, n=100)
    return {
        "try_s": round(took_s, 1),
        "healthz_ms": {"p50": round(parts[49] * 1000), "p99": round(parts[98] * 1000)},
        "longest_ms": round(beat.longest_s * 1000),
        "end_s": round(time.perf_counter() - ended, 2),
    }


def main() -> int:
    with live_cluster("--plain --profile t4 --gpus 1") as cluster:
        print(json.dumps({"bench": "hostile_objects", **measure(cluster)}), flush=True)
    with live_cluster("--plain --profile t4 --gpus 1") as cluster:
        print(json.dumps({"bench": "hostile_objects", "selectors": measure_selectors(cluster)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
