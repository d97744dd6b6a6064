"""The simulated world with a cluster of its own: objects, scheduler and API server are in this process, too."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from simkubelet.cluster import Store, check_selectors
from simkubelet.model.errors import HostError

from ...story.model import Scenario
from ...story.part import Capability
from .cluster import SimCluster
from .world import SimulatedWorld


class SimBackend(SimulatedWorld):
    """The simulated world of one story; see `SimulatedWorld`."""

    def __init__(
        self, scenario: Scenario, directory: Path | None, keep: bool, plugin_commands: Mapping[str, tuple[str, ...]]
    ) -> None:
        super().__init__(scenario, directory, keep, plugin_commands)
        uses_api = any(spec.uses_api for spec in scenario.plugins)
        first, tools = scenario.nodes[0], (self._clock, self._observe, self._group)
        self._cluster: SimCluster = SimCluster(
            first.kubernetes, first.feature_gates, scenario.runtime_config, uses_api, scenario.has_claims, *tools
        )

    @cached_property
    def remedies(self) -> Mapping[Capability, str]:
        """What this machine lacks for the nodes of this story, and for its cluster; see `Backend`."""
        found = dict(super().remedies)
        if Capability.DEVICE_SELECTORS in self._scenario.needed:
            try:
                check_selectors()
            except HostError as error:
                found[Capability.DEVICE_SELECTORS] = str(error)
        return found

    @property
    def store(self) -> Store:
        """The objects of the cluster."""
        return self._cluster.api
