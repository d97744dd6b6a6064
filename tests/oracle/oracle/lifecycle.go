package main

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"

	"simkubelet/oracle/wire"
)

// oracle is one node: its device plugin folder, the pods it was told of, and the manager that runs, if one does.
type oracle struct {
	dir      string
	pods     *podStore
	sources  sources
	settings startArguments
	affinity *affinityStore
	admitter *admitter
	manager  *devicemanager.ManagerImpl
}

func newOracle(dir string) *oracle {
	return &oracle{dir: dir, pods: newPodStore(), affinity: newAffinityStore()}
}

// startArguments are the settings of one run of the manager; what a command leaves out stays as it was.
type startArguments struct {
	SourcesReady *bool           `json:"sources_ready"`
	Running      *[]containerRun `json:"running"`
	topologyArguments
}

// containerRun is a container that the runtime knew when the kubelet started.
type containerRun struct {
	PodUID      string `json:"pod_uid"`
	Container   string `json:"container"`
	ContainerID string `json:"container_id"`
	Running     bool   `json:"running"`
}

func (s startArguments) merged(newer startArguments) startArguments {
	if newer.SourcesReady != nil {
		s.SourcesReady = newer.SourcesReady
	}
	if newer.Running != nil {
		s.Running = newer.Running
	}
	s.topologyArguments = s.topologyArguments.merged(newer.topologyArguments)
	return s
}

func (s startArguments) containers() (containermap.ContainerMap, sets.Set[string]) {
	known, alive := containermap.NewContainerMap(), sets.New[string]()
	if s.Running == nil {
		return known, alive
	}
	for _, run := range *s.Running {
		known.Add(run.PodUID, run.Container, run.ContainerID)
		if run.Running {
			alive.Insert(run.ContainerID)
		}
	}
	return known, alive
}

func (o *oracle) start(a startArguments) (wire.Answer, error) {
	if o.manager != nil {
		return nil, fmt.Errorf("a manager runs already: stop it first, or restart")
	}
	o.settings = o.settings.merged(a)
	return nil, o.startManager()
}

func (o *oracle) startManager() error {
	if o.settings.SourcesReady != nil {
		o.sources.ready.Store(*o.settings.SourcesReady)
	}
	topology, err := o.settings.newTopologyManager()
	if err != nil {
		return err
	}
	o.affinity.manager = topology
	manager, err := newManager(filepath.Join(o.dir, "kubelet.sock"), o.settings.nodes(), o.affinity)
	if err != nil {
		return err
	}
	o.admitter = newAdmitter(topology, manager)
	containers, alive := o.settings.containers()
	if err := startManager(manager, o.pods.active, &o.sources, containers, alive); err != nil {
		return err
	}
	o.manager = manager
	return nil
}

func (o *oracle) stop(none) (wire.Answer, error) {
	manager := o.manager
	o.manager = nil
	return nil, stopManager(manager)
}

// abandon ends the manager as a killed kubelet ends: connections break, the socket's file stays, nothing is told.
func (o *oracle) abandon(none) (wire.Answer, error) {
	manager := o.manager
	o.manager = nil
	breakConnections(manager)
	return nil, nil
}

func (o *oracle) restart(a startArguments) (wire.Answer, error) {
	answer := wire.Answer{"stop_us": int64(0)}
	if o.manager != nil {
		start := time.Now()
		if _, err := o.stop(none{}); err != nil {
			return nil, err
		}
		answer["stop_us"] = time.Since(start).Microseconds()
	}
	o.settings = o.settings.merged(a)
	start := time.Now()
	err := o.startManager()
	answer["start_us"] = time.Since(start).Microseconds()
	return answer, err
}

type gateArguments struct {
	Name  string `json:"name"`
	Value bool   `json:"value"`
}

func setGate(a gateArguments) (wire.Answer, error) {
	return nil, utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{a.Name: a.Value})
}

// sources stands for the kubelet's pod sources: whether all of them have been heard.
type sources struct{ ready atomic.Bool }

func (s *sources) AddSource(string) {}

func (s *sources) AllReady() bool { return s.ready.Load() }

type readyArguments struct {
	Value bool `json:"value"`
}

func (o *oracle) setSourcesReady(a readyArguments) (wire.Answer, error) {
	o.sources.ready.Store(a.Value)
	o.settings.SourcesReady = &a.Value
	return nil, nil
}
