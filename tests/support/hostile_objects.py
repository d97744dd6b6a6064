"""Requests to the API server of `simkubelet up` that ended it, or let it grow or stand still, at some time.

Each is one object of a stranger. The server may take or refuse it; it answers, goes on, and other pods run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

PODS: Final = "/api/v1/namespaces/default/pods"
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_DEEP: Final = 100_000


@dataclass(frozen=True)
class Attack:
    """A request of a stranger, made when it is sent: some are megabytes.

    Attributes:
        path: of a collection.
        body: makes the request's body.
    """

    path: str
    body: Callable[[], bytes]


def container(**fields: object) -> dict[str, object]:
    return {"name": "main", "image": "none", **fields}


def pod(name: str, *containers: Mapping[str, object], **spec: object) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"containers": list(containers) or [container()], "terminationGracePeriodSeconds": 0, **spec},
    }


def _doubling(count: int) -> list[dict[str, str]]:
    first = {"name": "E0", "value": "x" * 16}
    return [first, *({"name": f"E{n}", "value": f"$(E{n - 1})$(E{n - 1})"} for n in range(1, count))]


def claim(name: str, *expressions: str) -> dict[str, object]:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "selectors": selectors}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def _long_selectors() -> dict[str, object]:
    """A claim of 1.4 MB: 140 expressions of 10 KB, each another one."""
    selectors = [{"cel": {"expression": f"{list(range(n, n + 1_690))} != []"}} for n in range(1_000, 1_140)]
    requests = [
        {"name": f"r{n}", "exactly": {"deviceClassName": "gpu.example.com", "selectors": selectors[n : n + 20]}}
        for n in range(0, 140, 20)
    ]
    return {**claim("many"), "spec": {"devices": {"requests": requests}}}


def _nested(name: str, before: str, after: str, depth: int = _DEEP) -> bytes:
    return (
        b'{"metadata":{"name":"%s"},"data":' % name.encode() + before.encode() * depth + after.encode() * depth + b"}"
    )


_THREE_ALL: Final = "[1,2,3].all(a, " * 3 + "true" + ")" * 3
_LIST: Final = f"[{','.join('1' * 1000)}]"
_MANY_ALL: Final = f"{_LIST}.all(a, {_LIST}.all(b, {_LIST}.all(c, a + b + c > 0)))"
_REPLACED: Final = "'aaaaaaaaaa'" + ".replace('a', 'aaaaaaaaaa')" * 27 + " == 'a'"

ATTACKS: Final[Mapping[str, Attack]] = {
    "variables that double": Attack(PODS, lambda: _json(pod("e", container(env=_doubling(40))))),
    "arguments that double": Attack(
        PODS, lambda: _json(pod("a", container(env=_doubling(17), command=["true"], args=["$(E16)" * 1000] * 100)))
    ),
    "five thousand containers": Attack(
        PODS, lambda: _json(pod("c", *({"name": f"c{n}", "image": "x"} for n in range(5000))))
    ),
    "ten thousand tolerations": Attack(
        PODS, lambda: _json(pod("t", tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(10_000)]))
    ),
    "ten thousand volumes": Attack(
        PODS, lambda: _json(pod("v", volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(10_000)]))
    ),
    "fifty thousand resources": Attack(
        PODS,
        lambda: _json(pod("r", container(resources={"limits": {f"example.com/r{n}": "1" for n in range(50_000)}}))),
    ),
    "a long annotation": Attack(
        PODS, lambda: _json({**pod("l"), "metadata": {"name": "l", "annotations": {"a": "x" * 2_000_000}}})
    ),
    "selectors in selectors": Attack(CLAIMS, lambda: _json(claim("all", _THREE_ALL))),
    "long lists in selectors": Attack(CLAIMS, lambda: _json(claim("long", _MANY_ALL))),
    "replacements of replacements": Attack(CLAIMS, lambda: _json(claim("replaced", _REPLACED))),
    "hundreds of long selectors": Attack(CLAIMS, lambda: _json(_long_selectors())),
    "parentheses in a selector": Attack(CLAIMS, lambda: _json(claim("nested", "(" * 4000 + "true" + ")" * 4000))),
    "lists in lists": Attack(CONFIG_MAPS, lambda: _nested("lists", "[", "]")),
    "objects in objects": Attack(CONFIG_MAPS, lambda: _nested("objects", '{"a":', "}").replace(b":}", b":1}")),
    "a number of a million digits": Attack(
        PODS, lambda: _json(pod("n")).replace(b'"terminationGracePeriodSeconds": 0', b'"priority": ' + b"9" * 1_000_000)
    ),
    "a huge exponent": Attack(
        PODS, lambda: _json(pod("x", container(resources={"limits": {"example.com/x": "1e1000000000"}})))
    ),
    "half a character": Attack(
        PODS, lambda: b'{"metadata":{"name":"\\ud800"},"spec":{"containers":[{"name":"\\udfff"}]}}'
    ),
    "a body beyond the limit": Attack(
        CONFIG_MAPS, lambda: _json({"metadata": {"name": "b"}, "data": {"a": "x" * 8_000_000}})
    ),
}
"""What was tried -> the request."""


_SIXTY: Final = f"[{','.join('1' * 60)}]"
_FORTY: Final = f"[{','.join('1' * 40)}]"
_COSTLY: Final = f"{_SIXTY}.all(a, {_SIXTY}.all(b, {_FORTY}.all(c, device.driver != 'x%d')))"
"""An expression that costs 880,000 for each device."""


def costly_claim(pod_name: str, devices: int = 128) -> list[Attack]:
    """A claim whose devices cost all that the try of a pod may cost, and its pod, after the class and the devices."""
    driver, group = "gpu.example.com", "/apis/resource.k8s.io/v1"
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    gpus = [{"name": f"gpu-{number}"} for number in range(devices)]
    spec = {"driver": driver, "nodeName": "node-1", "pool": pool, "devices": gpus}
    selectors = [_COSTLY % number for number in range(30)]
    user = pod(pod_name, resourceClaims=[{"name": "gpu", "resourceClaimName": "costly"}])
    return [
        Attack(f"{group}/deviceclasses", lambda: _json({"metadata": {"name": driver}, "spec": {}})),
        Attack(f"{group}/resourceslices", lambda: _json({"metadata": {"name": "costly"}, "spec": spec})),
        Attack(CLAIMS, lambda: _json(claim("costly", *selectors))),
        Attack(PODS, lambda: _json(user)),
    ]


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def send(server: str, path: str, body: bytes | None, timeout_s: float, method: str | None = None) -> tuple[int, bytes]:
    """The status and the body of a server's answer; one that ends the connection without an answer is an OSError."""
    headers = {"Content-Type": "application/json"}
    request = Request(f"{server}{path}", body, headers, method=method)  # noqa: S310
    try:
        with urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
            return answer.status, answer.read()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read()
