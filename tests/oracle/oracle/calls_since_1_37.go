//go:build since1_37

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

func (t topologyArguments) newTopologyManager() (topologymanager.Manager, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	return topologymanager.NewManager(klog.Background(), t.nodes(), t.policy(), t.scope(), t.options())
}

// Allocate is the hint provider's, and notes a failure.
func (p *provider) Allocate(
	ctx context.Context, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation,
) error {
	return p.noted(container, p.ManagerImpl.Allocate(ctx, pod, container, operation))
}

func admitAttributes(pod *v1.Pod, others []*v1.Pod) *lifecycle.PodAdmitAttributes {
	return &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others, Operation: lifecycle.AddOperation}
}

func admitPod(topology topologymanager.Manager, pod *v1.Pod, others []*v1.Pod) lifecycle.PodAdmitResult {
	return topology.Admit(context.Background(), admitAttributes(pod, others))
}

// GetAffinity is asked by the device manager before it chooses devices.
func (s *affinityStore) GetAffinity(logger klog.Logger, pod, container string) topologymanager.TopologyHint {
	if hint, told := s.find(pod, container); told {
		return hint
	}
	return s.manager.GetAffinity(logger, pod, container)
}

func getAffinity(s *affinityStore, pod, container string) topologymanager.TopologyHint {
	return s.GetAffinity(klog.Background(), pod, container)
}

func allocate(m *devicemanager.ManagerImpl, pod *v1.Pod, container *v1.Container) error {
	return m.Allocate(context.Background(), pod, container, lifecycle.AddOperation)
}

func topologyHints(
	m *devicemanager.ManagerImpl, pod *v1.Pod, container *v1.Container,
) map[string][]topologymanager.TopologyHint {
	return m.GetTopologyHints(klog.Background(), pod, container, lifecycle.AddOperation)
}

func podTopologyHints(m *devicemanager.ManagerImpl, pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return m.GetPodTopologyHints(klog.Background(), pod, lifecycle.AddOperation)
}

func getCapacity(m *devicemanager.ManagerImpl) (v1.ResourceList, v1.ResourceList, []string) {
	return m.GetCapacity(klog.Background())
}

func updateAllocatedDevices(m *devicemanager.ManagerImpl) {
	m.UpdateAllocatedDevices(klog.Background())
}

func getAllocatableDevices(m *devicemanager.ManagerImpl) devicemanager.ResourceDeviceInstances {
	return m.GetAllocatableDevices(klog.Background())
}

func updateAllocatedStatus(m *devicemanager.ManagerImpl, pod *v1.Pod, status *v1.PodStatus) {
	m.UpdateAllocatedResourcesStatus(klog.Background(), pod, status)
}
