"""The table of the extension points of kube-scheduler's plugins, and how their source is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import simkubelet
from simkubelet.cluster.scheduler.refusals import Plugin
from simkubelet.model.version import Version
from tools.check.scheduler_plugins import extension_points
from tools.generate.extension_points import PAGE, SCHEDULER, Entry, entries, page

REFUSING = {"PreEnqueue", "Filter"}
SOURCE = {
    "pkg/scheduler/framework/interface.go": """
type ScoreExtensions interface {
	NormalizeScore(ctx context.Context) *Status
}

type FilterPlugin interface {
	Plugin
	Filter(ctx context.Context) *Status
}

type ScorePlugin interface {
	Plugin
	Score(ctx context.Context) (int64, *Status)
	ScoreExtensions() ScoreExtensions
}
""",
    "pkg/scheduler/framework/plugins/names/names.go": """
const (
	NodeName = "NodeName"
	ImageLocality = "ImageLocality"
	GangScheduling = "GangScheduling"
	DynamicResources = "DynamicResources"
)
""",
    "pkg/scheduler/framework/plugins/nodename/node_name.go": """
const Name = names.NodeName

func (pl *NodeName) Name() string {
	return Name
}

func (pl *NodeName) Filter(ctx context.Context) *Status {
	return nil
}

func (pl *other) Score(ctx context.Context) (int64, *Status) {
	return 0, nil
}
""",
    "pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go": """
const Name = names.DynamicResources

func (pl *DynamicResources) Name() string {
	return Name
}

func (pl *DynamicResources) Score(ctx context.Context) (int64, *Status) {
	return 0, nil
}

func (pl *DynamicResources) ScoreExtensions() ScoreExtensions {
	return pl
}

func (pl *DynamicResources) NormalizeScore(ctx context.Context) *Status {
	return nil
}
""",
    "pkg/scheduler/apis/config/v1/default_plugins.go": """
func getDefaultPlugins() *v1.Plugins {
	plugins := &v1.Plugins{
		MultiPoint: v1.PluginSet{
			Enabled: []v1.Plugin{
				{Name: names.NodeName},
			},
		},
	}
	return plugins
}

func applyFeatureGates(config *v1.Plugins) {
	if utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		applyDynamicResources(config)
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.GangScheduling) {
		config.MultiPoint.Enabled = append(config.MultiPoint.Enabled, v1.Plugin{Name: names.GangScheduling})
	}
}

func applyDynamicResources(config *v1.Plugins) {
	for i := range config.MultiPoint.Enabled {
		if config.MultiPoint.Enabled[i].Name == names.NodeName {
			extended = append(extended, v1.Plugin{Name: names.DynamicResources, Weight: ptr.To[int32](2)})
		}
	}
}
""",
    "pkg/features/kube_features.go": """
var defaultVersionedKubernetesFeatureGates = map[featuregate.Feature]featuregate.VersionedSpecs{
	DynamicResourceAllocation: {
		{Version: version.MustParse("1.26"), Default: false, PreRelease: featuregate.Alpha},
		{Version: version.MustParse("1.34"), Default: true, PreRelease: featuregate.GA},
	},

	GangScheduling: {Default: false, PreRelease: featuregate.Alpha},
}
""",
}


class OneRelease:
    """A release whose only module is `SOURCE`."""

    def archive(self, module: str, release: Version) -> OneRelease | None:
        return self if module == "kubernetes" else None

    def paths(self) -> tuple[str, ...]:
        return tuple(SOURCE)

    def text(self, path: str) -> str:
        return SOURCE.get(path, "")


def test_plugins_that_are_on_have_the_points_of_their_methods() -> None:
    assert extension_points(OneRelease(), Version(35, 0)) == {
        "NodeName": {"Filter"},
        "DynamicResources": {"Score", "NormalizeScore"},
    }


def test_page_has_the_table_of_the_list() -> None:
    assert page() == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: f"{entry.plugin}-{entry.points[0]}")
def test_point_is_in_a_module_or_its_absence_is_explained(entry: Entry) -> None:
    folder = Path(simkubelet.__file__).parent / SCHEDULER

    assert bool(entry.here) is not bool(entry.differs)
    assert [module for module in entry.here if not (folder / f"{module}.py").is_file()] == []


def test_no_point_of_a_minor_is_listed_twice() -> None:
    listed = Counter(
        (entry.plugin, point, minor) for entry in entries() for point in entry.points for minor in entry.minors
    )

    assert [one for one, count in listed.items() if count > 1] == []


def test_plugins_that_refuse_pods_are_those_that_the_scheduler_knows() -> None:
    refusing = {entry.plugin for entry in entries() if entry.here and REFUSING & {*entry.points}}

    assert refusing == {*Plugin}
