from __future__ import annotations

import asyncio

import pytest

from simkubelet.model.config import TopologySettings
from simkubelet.model.errors import AllocationError
from simkubelet.model.pod import Container, ContainerKind, Pod, PodUID
from simkubelet.model.pod_status import Rejection
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import version
from simkubelet.topology.hint import NO_HINT, EndlessEnumerationError, ProviderHints, TopologyHint, Walk, numa_mask
from simkubelet.topology.manager import AffinityStore, TopologyManager

GPU = ResourceName("example.com/gpu")
NIC = ResourceName("example.com/nic")
REJECTED = Rejection("TopologyAffinityError", "Resources cannot be allocated with Topology locality")


def hint(*nodes: int, preferred: bool = True) -> TopologyHint:
    return TopologyHint(numa_mask(nodes), preferred)


class FixedHints:
    """A provider that answers from a table; it records in what order it is asked."""

    def __init__(self, hints: ProviderHints, of_pod: ProviderHints | None = None) -> None:
        self._hints, self._of_pod = hints, of_pod

    def container_hints(self, pod: Pod, container: Container) -> ProviderHints:
        return self._hints

    def pod_hints(self, pod: Pod) -> ProviderHints:
        return self._hints if self._of_pod is None else self._of_pod


class EndlessHints(FixedHints):
    def container_hints(self, pod: Pod, container: Container) -> ProviderHints:
        raise EndlessEnumerationError(Walk.MASKS, 2**36 - 1)


POD = Pod(
    PodUID("u1"),
    "default",
    "p",
    tuple(
        Container(name, kind, {}, {}, {})
        for name, kind in [("i", ContainerKind.INIT), ("a", ContainerKind.APP), ("b", ContainerKind.APP)]
    ),
)


class Admission:
    """One topology manager over fixed hints, and the containers that were given devices."""

    def __init__(self, policy: str, *providers: FixedHints, scope: str = "container", nodes: int = 2) -> None:
        self.affinities = AffinityStore()
        settings = TopologySettings(policy, scope, numa_nodes=range(nodes))
        self.manager = TopologyManager(settings, version("1.34"), {}, providers, self.affinities)
        self.allocated: list[str] = []
        self.fails_at: str | None = None

    async def allocate(self, pod: Pod, container: Container) -> None:
        if container.name == self.fails_at:
            raise AllocationError("no luck")
        self.allocated.append(container.name)

    async def admit(self) -> Rejection | None:
        return await self.manager.admit(POD, self.allocate)

    def hint_of(self, container: str) -> TopologyHint:
        return self.affinities.get_affinity(POD.uid, container)


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize(
    ("policy", "hints", "rejection", "affinity"),
    [
        pytest.param("none", [hint(0)], None, NO_HINT, id="none does not look"),
        pytest.param("best-effort", [hint(0)], None, hint(0), id="best-effort, preferred"),
        pytest.param("best-effort", [], None, hint(0, 1, preferred=False), id="best-effort, impossible"),
        pytest.param("restricted", [hint(0, 1)], None, hint(0, 1), id="restricted, preferred"),
        pytest.param("restricted", [hint(0, preferred=False)], REJECTED, NO_HINT, id="restricted, not preferred"),
        pytest.param("single-numa-node", [hint(1)], None, hint(1), id="single-numa-node, one"),
        pytest.param("single-numa-node", [hint(0, 1)], REJECTED, NO_HINT, id="single-numa-node, two"),
        pytest.param("single-numa-node", None, None, TopologyHint(None, True), id="single-numa-node, no preference"),
        pytest.param("restricted", None, None, hint(0, 1), id="restricted, no preference"),
    ],
)
async def test_policy_decides_with_the_merged_hint(policy, hints, rejection, affinity, scope):
    admission = Admission(policy, FixedHints({GPU: hints}), scope=scope)

    assert await admission.admit() == rejection

    assert admission.hint_of("a") == affinity
    assert admission.allocated == ([] if rejection else ["i", "a", "b"])


async def test_hints_of_all_providers_and_resources_are_merged():
    one = FixedHints({GPU: [hint(0), hint(1)], NIC: [hint(1), hint(0, 1, preferred=False)]})
    admission = Admission("restricted", one, FixedHints({}))

    assert await admission.admit() is None

    assert admission.hint_of("b") == hint(1)


async def test_single_node_of_a_machine_is_no_preference_for_single_numa_node():
    admission = Admission("single-numa-node", FixedHints({GPU: [hint(0)]}), nodes=1)

    assert await admission.admit() is None

    assert admission.hint_of("a") == TopologyHint(None, preferred=True)


async def test_pod_scope_gives_all_containers_the_hint_of_the_pod():
    admission = Admission("restricted", FixedHints({GPU: [hint(0)]}, of_pod={GPU: [hint(1)]}), scope="pod")

    await admission.admit()

    assert [admission.hint_of(name) for name in "iab"] == [hint(1)] * 3


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("scope", ["container", "pod"])
async def test_failed_allocation_rejects_the_pod_and_keeps_what_came_before(policy, scope):
    admission = Admission(policy, FixedHints({GPU: [hint(0)]}), scope=scope)
    admission.fails_at = "a"

    rejection = await admission.admit()

    assert rejection == Rejection("UnexpectedAdmissionError", "Allocate failed due to no luck, which is unexpected")
    assert admission.allocated == ["i"]


async def test_admissions_are_counted():
    admission = Admission("single-numa-node", FixedHints({GPU: [hint(0)]}))

    await admission.admit()
    admission.fails_at = "a"
    await admission.admit()

    counts = admission.manager.counts
    assert (counts.requests, counts.errors) == (2, 1)
    assert (counts.aligned, counts.not_aligned) == ({"container": 4, "pod": 0}, {"container": 0, "pod": 0})


async def test_pods_are_counted_as_aligned_in_pod_scope_and_rejections_as_not_aligned():
    for_pods = Admission("single-numa-node", FixedHints({GPU: [hint(0)]}), scope="pod")
    hopeless = Admission("single-numa-node", FixedHints({GPU: []}))

    await for_pods.admit()
    await hopeless.admit()

    assert for_pods.manager.counts.aligned == {"container": 0, "pod": 1}
    assert hopeless.manager.counts.not_aligned == {"container": 1, "pod": 0}


async def test_admission_without_policy_counts_no_errors():
    admission = Admission("none")
    admission.fails_at = "i"

    await admission.admit()

    assert (admission.manager.counts.requests, admission.manager.counts.errors) == (1, 0)


async def test_admission_that_the_kubelet_never_ends_does_not_return_until_it_is_cancelled():
    admission = Admission("restricted", EndlessHints({}))

    task = asyncio.create_task(admission.admit())
    done, _ = await asyncio.wait([task], timeout=0.01)

    assert not done
    assert admission.manager.stalled.walk is Walk.MASKS
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_closest_nodes_are_preferred_where_the_option_says_so():
    far = {0: (10, 30, 20), 1: (30, 10, 30), 2: (20, 30, 10)}
    providers = [FixedHints({GPU: [hint(0, 1), hint(0, 2)]})]
    chosen = []
    for options in ({}, {"prefer-closest-numa-nodes": "true"}):
        affinities = AffinityStore()
        settings = TopologySettings("restricted", "container", options, range(3), far)
        manager = TopologyManager(settings, version("1.34"), {}, providers, affinities)
        await manager.admit(POD, Admission("none").allocate)
        chosen.append(affinities.get_affinity(POD.uid, "a"))

    assert chosen == [hint(0, 1), hint(0, 2)]
