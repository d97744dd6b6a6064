"""The kubelet's own DRA manager and ours with the same commands: a state machine of what can happen to one node.

Where the kubelet takes drivers or claims out of a Go map, what follows from their order is not asked: calls are
compared claim by claim, lists sorted, and a driver fails only where no other is asked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from simkubelet.model.version import DEFAULT, EXTENDED_CLAIMS, FEATURE_GATES, version
from tests.support.dra_node import claim_object
from tests.support.dra_sides import DraSides
from tests.support.kubelet_sides import Answer

ONE, TWO = "one.example.com", "two.example.com"
ENDPOINTS = {"a.sock": ONE, "b.sock": ONE, "c.sock": TWO}
PODS = ("p0", "p1", "p2")
MINOR = os.environ.get("SIMKUBELET_ORACLE_VERSION", DEFAULT)
CONNECTS_AT_REGISTRATION = version(MINOR) >= version("1.34.0")
SERVES_EXTENDED = FEATURE_GATES[EXTENDED_CLAIMS].is_on(version(MINOR), {})
KEEPS_INSTANCES = version(MINOR) >= version("1.33.0")
CLAIMS = ("c0", "c1", "c2")
RESOURCE = "example.com/gpu"

endpoints = st.sampled_from(sorted(ENDPOINTS))
pods = st.sampled_from(PODS)
claims = st.sampled_from(CLAIMS)
services = st.sampled_from(
    [
        *[["v1.DRAPlugin"]] * 3,
        ["v1beta1.DRAPlugin", "v1.DRAPlugin"],
        ["v1.DRAPlugin", "v1beta1.DRAPlugin"],
        ["v9", "v1beta1.DRAPlugin"],
        ["v1alpha3.NodeService", "v1beta1.DRAPlugin"],
        ["v9", 'a "quoted" one'],
        [],
    ]
)
owners = st.sampled_from(["", *PODS])
usable = [(ONE,), (ONE,), (ONE,), (TWO,), (ONE, TWO)]
drivers = st.sampled_from([*usable, *usable, (), ("",), None])
good_kinds = st.sampled_from([*["named"] * 6, *["extended"] * 2, "made", "needless"])
kinds = st.sampled_from([*["named"] * 6, *["made"] * 2, *["extended"] * 2, "needless", "not yet", "neither"])
modes = st.sampled_from(["error", "error", "claim_error", "skip", "unknown"])
devices = st.lists(
    st.fixed_dictionaries(
        {
            "pool": st.sampled_from(["pool", "other"]),
            "device": st.sampled_from(["dev-0", "dev-1"]),
            "requests": st.lists(st.sampled_from(["req", "more"]), max_size=2),
            "cdi": st.lists(st.sampled_from(["v.com/c=0", "v.com/c=<&>"]), max_size=2),
        }
    ),
    max_size=2,
)


class BothManagers(RuleBasedStateMachine):
    """What can happen to one node, its pods and its drivers."""

    sides: DraSides

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, Answer] = {}
        self.claims: dict[str, tuple[str, ...]] = {}
        self.registered: list[str] = []
        self.served: set[str] = set()
        self.modes = {"prepare": "", "unprepare": ""}
        self.manager("start", node="node-1", wiping_ms=0)
        self.driver("set", rpc="prepare")
        self.driver("set", rpc="unprepare")
        self.driver("calls")

    def same(self, whom: str, cmd: str, **fields: Any) -> Answer:
        """Send a command to both, and expect one answer."""
        real, ours = (_in_order(answer) for answer in self.sides.ask(whom, cmd, **fields))
        note(f"{whom}: {cmd} {fields} -> {real}")
        assert ours == real, f"{whom}: {cmd} {fields}: {ours}, and the real one {real}"
        return real

    def manager(self, cmd: str, **fields: Any) -> Answer:
        return self.same("manager", cmd, **fields)

    def driver(self, cmd: str, **fields: Any) -> Answer:
        return self.same("driver", cmd, **fields)

    @initialize(data=st.data(), owner=pods)
    def begin(self, data: st.DataObject, owner: str) -> None:
        for name in data.draw(st.sampled_from([["a.sock", "c.sock"], ["c.sock", "b.sock", "a.sock"], ["a.sock"]])):
            self.register(name, ["v1.DRAPlugin", "v1beta1.DRAPlugin"])
        for name in CLAIMS:
            self.put_claim(name, PODS, owner, data.draw(st.sampled_from(usable)))
        for name in PODS:
            self.pod(name, data.draw(st.lists(st.tuples(good_kinds, claims), min_size=1, max_size=2)))

    # Drivers

    @rule(endpoint=endpoints, services=services)
    def register(self, endpoint: str, services: list[str]) -> None:
        if endpoint not in self.served and endpoint not in self.registered:
            self.driver("serve", endpoint=endpoint, serve=["v1", "v1beta1", "v1alpha3"])
            self.served.add(endpoint)
        driver = ENDPOINTS[endpoint]
        answer = self.manager("register", driver=driver, endpoint=f"DIR/{endpoint}", services=services)
        if answer["ok"]:
            if not KEEPS_INSTANCES:
                self.forget_driver(driver)
            self.registered.append(endpoint)
            if CONNECTS_AT_REGISTRATION:
                self.wait_until_connected(endpoint, True)
        self.manager("plugin", driver=driver)

    @rule(endpoint=endpoints)
    def deregister(self, endpoint: str) -> None:
        self.manager("deregister", driver=ENDPOINTS[endpoint], endpoint=f"DIR/{endpoint}")
        if not KEEPS_INSTANCES:
            self.forget_driver(ENDPOINTS[endpoint])
        elif endpoint in self.registered:
            self.registered.remove(endpoint)
        self.manager("plugin", driver=ENDPOINTS[endpoint])

    def forget_driver(self, driver: str) -> None:
        self.registered = [endpoint for endpoint in self.registered if ENDPOINTS[endpoint] != driver]

    @precondition(lambda self: self.served)
    @rule(data=st.data())
    def instance_ends(self, data: st.DataObject) -> None:
        endpoint = data.draw(st.sampled_from(sorted(self.served)))
        self.driver("stop", endpoint=endpoint)
        self.served.remove(endpoint)
        if endpoint in self.registered:
            self.wait_until_connected(endpoint, False)

    @rule(rpc=st.sampled_from(["prepare", "unprepare"]), mode=modes, code=st.sampled_from(["internal", "not_found"]))
    def driver_answers(self, rpc: str, mode: str, code: str) -> None:
        self.set_mode(rpc, mode, code=code)

    @rule(chosen=devices)
    def driver_has_devices(self, chosen: list[Answer]) -> None:
        self.set_mode("prepare", "", devices={"*": chosen})

    def set_mode(self, rpc: str, mode: str, **more: Any) -> None:
        self.modes[rpc] = mode
        self.driver("set", rpc=rpc, mode=mode, message="broken: 100%", **more)

    def wait_until_connected(self, endpoint: str, is_connected: bool) -> None:
        path = f"DIR/{endpoint}"
        state = {"endpoint": path, "connected": is_connected}
        self.sides.wait(
            "manager",
            "plugin",
            lambda answer: any(state.items() <= one.items() for one in answer.get("plugins", ())),
            driver=ENDPOINTS[endpoint],
        )

    # Objects

    @rule(name=claims, reserved=st.sampled_from([PODS, PODS, PODS[:2], ()]), owner=owners, drivers=drivers)
    def put_claim(self, name: str, reserved: Sequence[str], owner: str, drivers: tuple[str, ...] | None) -> None:
        """A claim comes, or one of another uid takes its place: what is allocated to a claim does not change."""
        uid = f"{name}-{'-'.join(drivers or ())}"
        self.claims[name] = drivers or ()
        claim = claim_object(name, *reserved, uid=uid, owner=owner, drivers=drivers)
        self.manager("put", kind="ResourceClaim", object=claim)

    @precondition(lambda self: len(self.claims) == len(CLAIMS))
    @rule(name=claims)
    def delete_claim(self, name: str) -> None:
        self.manager("delete", kind="ResourceClaim", namespace="default", name=name)
        self.claims.pop(name, None)

    @rule(uid=pods, entries=st.lists(st.tuples(kinds, claims), max_size=3))
    def pod(self, uid: str, entries: list[tuple[str, str]]) -> None:
        """A pod comes, or names other claims than before."""
        self.pods[uid] = _pod(uid, entries)

    # The manager

    @rule(uid=pods)
    def prepare(self, uid: str) -> None:
        if self.is_decided(uid, "prepare"):
            self.manager("prepare", pod=self.pods[uid])
        self.compare()

    @rule(uid=pods)
    def unprepare(self, uid: str) -> None:
        if self.is_decided(uid, "unprepare"):
            self.manager("unprepare", pod=self.pods[uid])
        self.compare()

    @rule()
    def all_pods_start(self) -> None:
        for uid in self.pods:
            self.prepare(uid)

    @rule()
    def drivers_recover_and_all_pods_start(self) -> None:
        self.set_mode("prepare", "")
        self.all_pods_start()

    @rule()
    def all_pods_end(self) -> None:
        for uid in self.pods:
            self.unprepare(uid)

    @rule(active=st.lists(pods, unique=True))
    def reconcile(self, active: list[str]) -> None:
        self.set_mode("unprepare", "")
        if {ENDPOINTS[endpoint] for endpoint in self.connected} == {ONE, TWO}:
            self.manager("reconcile", active=active)
        self.compare()

    @rule(exchanges=st.booleans())
    def restart(self, exchanges: bool) -> None:
        """The next manager starts on its own checkpoint, or both on that of the real one."""
        if exchanges:
            real, _ = self.sides.ask("manager", "checkpoint")
            self.manager("write_checkpoint", text=real["text"])
        self.restart_both()

    def restart_both(self) -> None:
        self.manager("restart")
        self.registered.clear()
        self.compare()

    @property
    def connected(self) -> list[str]:
        return [endpoint for endpoint in self.registered if endpoint in self.served]

    def is_decided(self, uid: str, rpc: str) -> bool:
        """Whether the order of drivers and claims makes no difference; the driver is set to answer well for that."""
        names = [name for _, name in _claims(self.pods[uid])]
        known = {driver for name in CLAIMS for driver in self.drivers_of(name) if name in names}
        if len(names) > 1 and self.modes[rpc] in ("claim_error", "unknown"):
            self.set_mode(rpc, "")
        if len(known) > 1 and self.modes[rpc]:
            self.set_mode(rpc, "")
        if len(known) <= 1:
            return True
        # A driver that is asked for a claim twice answers once, which is an error.
        return known <= {ENDPOINTS[endpoint] for endpoint in self.connected} and len(names) == len({*names})

    def drivers_of(self, name: str) -> set[str]:
        """The drivers of a claim, of the object and of what the manager remembers."""
        _, ours = self.sides.ask("manager", "claim_infos", pod=_pod("p", [("named", name)]), container="c")
        remembered = {driver for info in ours.get("infos") or () for driver in info["DriverState"]}
        return {*self.claims.get(name, ()), *remembered}

    def compare(self) -> None:
        self.driver("calls")
        self.manager("checkpoint")

    @rule()
    def containers_are_looked_at(self) -> None:
        for uid, pod in self.pods.items():
            self.manager("might_need_unprepare", uid=uid)
            if "panic" in self.manager("claim_infos", pod=pod, container="c"):
                self.restart_both()
            for container in ("c", "more"):
                self.manager("get_resources", pod=pod, container=container)

    def teardown(self) -> None:
        self.sides.ask("manager", "stop")
        for endpoint in self.served:
            self.driver("stop", endpoint=endpoint)
        for name in CLAIMS:
            self.sides.ask("manager", "delete", kind="ResourceClaim", namespace="default", name=name)
        for side in self.sides.both:
            side.clear()


def _claims(pod: Answer) -> list[tuple[str, str]]:
    """The entries of a pod that have a claim, with its name; that of its extended resources has no entry."""
    made = {one["name"]: one.get("resourceClaimName") for one in pod["status"].get("resourceClaimStatuses", ())}
    named = [
        (entry["name"], entry.get("resourceClaimName") or made.get(entry["name"]))
        for entry in pod["spec"]["resourceClaims"]
    ]
    if SERVES_EXTENDED and (extended := pod["status"].get("extendedResourceClaimStatus")):
        named.append(("", extended["resourceClaimName"]))
    return [(name, claim) for name, claim in named if claim]


def _pod(uid: str, entries: list[tuple[str, str]]) -> Answer:
    """A pod whose container ``c`` uses all entries, and ``more`` one request of the first.

    Both ask for an extended resource, and ``c`` gets it through the claim of the last entry of that kind.
    """
    listed: list[Answer] = []
    statuses: list[Answer] = []
    extended: Answer = {}
    for number, (kind, claim) in enumerate(entries):
        if kind == "extended":
            mappings = [{"containerName": "c", "resourceName": RESOURCE, "requestName": one} for one in ("req", "more")]
            extended = {"extendedResourceClaimStatus": {"resourceClaimName": claim, "requestMappings": mappings}}
            continue
        name = f"e{number}"
        source = {"named": {"resourceClaimName": claim}, "neither": {}}
        listed.append({"name": name, **source.get(kind, {"resourceClaimTemplateName": "t"})})
        if kind == "made":
            statuses.append({"name": name, "resourceClaimName": claim})
        elif kind == "needless":
            statuses.append({"name": name})
    used = [{"name": entry["name"]} for entry in listed]
    asked = {"limits": {RESOURCE: "2"}, "requests": {RESOURCE: "2"}}
    return {
        "metadata": {"name": f"pod-{uid}", "namespace": "default", "uid": uid},
        "spec": {
            "containers": [
                {"name": "c", "resources": {**asked, "claims": used}},
                {"name": "more", "resources": {**asked, "claims": [{**one, "request": "more"} for one in used[:1]]}},
            ],
            "resourceClaims": listed,
        },
        "status": {"resourceClaimStatuses": statuses, **extended},
    }


def _in_order(answer: Answer) -> Answer:
    """An answer in which what came out of a Go map is sorted, and calls are told claim by claim."""
    answer = dict(answer)
    if version(MINOR) >= version("1.36.0") and "unable to get claim info" in answer.get("error", ""):
        # Of several claims that are missing, that of a map's order.
        answer["error"] = "unable to get claim info"
    if "cdi_devices" in answer:
        answer["cdi_devices"] = sorted(answer["cdi_devices"])
    if "calls" in answer:
        answer["calls"] = sorted(
            (call["rpc"], call["endpoint"], call["service"], claim)
            for call in answer["calls"]
            for claim in call["claims"]
        )
    if "text" in answer:
        document = json.loads(answer["text"])
        data = json.loads(document["Data"])
        listed = data["ClaimInfoStateList"] or ()
        if len(listed) > 1:
            # Another order has another checksum.
            answer["text"] = sorted(map(json.dumps, listed))
    return answer
