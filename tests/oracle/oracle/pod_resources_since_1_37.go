//go:build since1_37

package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func (p deviceProvider) UpdateAllocatedDevices(logger klog.Logger) {
	p.manager.UpdateAllocatedDevices(logger)
}

func (p deviceProvider) GetAllocatableDevices(logger klog.Logger) []*podresourcesapi.ContainerDevices {
	return listed(p.manager.GetAllocatableDevices(logger))
}

// noCPUs is a node whose CPU manager holds nothing.
type noCPUs struct{}

func (noCPUs) GetCPUs(*v1.Pod, *v1.Container) []int64 { return nil }

func (noCPUs) GetPodCPUs(string) []int64 { return nil }

func (noCPUs) GetAllocatableCPUs() []int64 { return nil }

// noMemory is a node whose memory manager holds nothing.
type noMemory struct{}

func (noMemory) GetMemory(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesapi.ContainerMemory {
	return nil
}

func (noMemory) GetPodMemory(klog.Logger, string) []*podresourcesapi.ContainerMemory { return nil }

func (noMemory) GetAllocatableMemory(klog.Logger) []*podresourcesapi.ContainerMemory { return nil }

// noDynamicResources is a node without resource claims.
type noDynamicResources struct{}

func (noDynamicResources) GetDynamicResources(
	klog.Logger, *v1.Pod, *v1.Container,
) []*podresourcesapi.DynamicResource {
	return nil
}
