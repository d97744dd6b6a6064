//go:build !since1_37

package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

func (t topologyArguments) newTopologyManager() (topologymanager.Manager, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	return topologymanager.NewManager(t.nodes(), t.policy(), t.scope(), t.options())
}

// Allocate is the hint provider's, and notes a failure.
func (p *provider) Allocate(pod *v1.Pod, container *v1.Container) error {
	return p.noted(container, p.ManagerImpl.Allocate(pod, container))
}

func admitAttributes(pod *v1.Pod, others []*v1.Pod) *lifecycle.PodAdmitAttributes {
	return &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others}
}

func admitPod(topology topologymanager.Manager, pod *v1.Pod, others []*v1.Pod) lifecycle.PodAdmitResult {
	return topology.Admit(admitAttributes(pod, others))
}

// GetAffinity is asked by the device manager before it chooses devices.
func (s *affinityStore) GetAffinity(pod, container string) topologymanager.TopologyHint {
	if hint, told := s.find(pod, container); told {
		return hint
	}
	return s.manager.GetAffinity(pod, container)
}

func getAffinity(s *affinityStore, pod, container string) topologymanager.TopologyHint {
	return s.GetAffinity(pod, container)
}

func allocate(m *devicemanager.ManagerImpl, pod *v1.Pod, container *v1.Container) error {
	return m.Allocate(pod, container)
}

func topologyHints(
	m *devicemanager.ManagerImpl, pod *v1.Pod, container *v1.Container,
) map[string][]topologymanager.TopologyHint {
	return m.GetTopologyHints(pod, container)
}

func podTopologyHints(m *devicemanager.ManagerImpl, pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return m.GetPodTopologyHints(pod)
}

func getCapacity(m *devicemanager.ManagerImpl) (v1.ResourceList, v1.ResourceList, []string) {
	return m.GetCapacity()
}

func updateAllocatedDevices(m *devicemanager.ManagerImpl) { m.UpdateAllocatedDevices() }

func getAllocatableDevices(m *devicemanager.ManagerImpl) devicemanager.ResourceDeviceInstances {
	return m.GetAllocatableDevices()
}
