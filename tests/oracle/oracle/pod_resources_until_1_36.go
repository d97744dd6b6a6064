//go:build !since1_37

package main

import (
	v1 "k8s.io/api/core/v1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func (p deviceProvider) UpdateAllocatedDevices() { p.manager.UpdateAllocatedDevices() }

func (p deviceProvider) GetAllocatableDevices() []*podresourcesapi.ContainerDevices {
	return listed(p.manager.GetAllocatableDevices())
}

// noCPUs is a node whose CPU manager holds nothing.
type noCPUs struct{}

func (noCPUs) GetCPUs(_, _ string) []int64 { return nil }

func (noCPUs) GetAllocatableCPUs() []int64 { return nil }

// noMemory is a node whose memory manager holds nothing.
type noMemory struct{}

func (noMemory) GetMemory(_, _ string) []*podresourcesapi.ContainerMemory { return nil }

func (noMemory) GetAllocatableMemory() []*podresourcesapi.ContainerMemory { return nil }

// noDynamicResources is a node without resource claims.
type noDynamicResources struct{}

func (noDynamicResources) GetDynamicResources(*v1.Pod, *v1.Container) []*podresourcesapi.DynamicResource {
	return nil
}
