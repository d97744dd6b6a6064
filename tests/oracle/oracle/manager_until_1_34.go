//go:build !since1_35

package main

import (
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// newManager is the constructor behind NewManagerImpl, which knows the kubelet's own folder only.
//
//go:linkname newManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManager(socket string, nodes []numaNode, store topologymanager.Store) (*devicemanager.ManagerImpl, error)

func startManager(
	m *devicemanager.ManagerImpl, active func() []*v1.Pod, s *sources, known containermap.ContainerMap, alive sets.Set[string],
) error {
	return m.Start(active, s, known, alive)
}

func stopManager(m *devicemanager.ManagerImpl) error { return m.Stop() }

func addHintProvider(topology topologymanager.Manager, p *provider) { topology.AddHintProvider(p) }

func runOptions(
	m *devicemanager.ManagerImpl, pod *v1.Pod, container *v1.Container,
) (*devicemanager.DeviceRunContainerOptions, error) {
	return m.GetDeviceRunContainerOptions(pod, container)
}
