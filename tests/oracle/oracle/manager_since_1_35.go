//go:build since1_35

package main

import (
	"context"
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// newLoggingManager is the constructor behind NewManagerImpl, which knows the kubelet's own folder only.
//
//go:linkname newLoggingManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newLoggingManager(
	logger klog.Logger, socket string, nodes []numaNode, store topologymanager.Store,
) (*devicemanager.ManagerImpl, error)

func newManager(socket string, nodes []numaNode, store topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return newLoggingManager(klog.Background(), socket, nodes, store)
}

func startManager(
	m *devicemanager.ManagerImpl, active func() []*v1.Pod, s *sources, known containermap.ContainerMap, alive sets.Set[string],
) error {
	return m.Start(klog.Background(), active, s, known, alive)
}

func stopManager(m *devicemanager.ManagerImpl) error { return m.Stop(klog.Background()) }

func addHintProvider(topology topologymanager.Manager, p *provider) {
	topology.AddHintProvider(klog.Background(), p)
}

func runOptions(
	m *devicemanager.ManagerImpl, pod *v1.Pod, container *v1.Container,
) (*devicemanager.DeviceRunContainerOptions, error) {
	return m.GetDeviceRunContainerOptions(context.Background(), pod, container)
}
