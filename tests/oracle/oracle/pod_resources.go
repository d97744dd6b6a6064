package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"

	"simkubelet/oracle/wire"
)

// podProvider tells the PodResources server which pods there are.
type podProvider struct{ store *podStore }

func (p podProvider) GetActivePods() []*v1.Pod { return p.store.active() }

func (p podProvider) GetPods() []*v1.Pod { return p.store.list(true) }

func (p podProvider) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	for _, pod := range p.store.list(getFindsEndedPods) {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

// deviceProvider tells the PodResources server what the device manager holds.
type deviceProvider struct{ manager *devicemanager.ManagerImpl }

func (p deviceProvider) GetDevices(podUID, container string) []*podresourcesapi.ContainerDevices {
	return listed(p.manager.GetDevices(podUID, container))
}

// listed gives each device one entry for each of its NUMA nodes, as the kubelet's container manager does.
func listed(instances devicemanager.ResourceDeviceInstances) []*podresourcesapi.ContainerDevices {
	var list []*podresourcesapi.ContainerDevices
	for resource, devices := range instances {
		for id, device := range devices {
			if device.GetTopology() == nil {
				list = append(list, &podresourcesapi.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}})
				continue
			}
			for _, node := range device.GetTopology().GetNodes() {
				list = append(list, &podresourcesapi.ContainerDevices{
					ResourceName: resource,
					DeviceIds:    []string{id},
					Topology:     &podresourcesapi.TopologyInfo{Nodes: []*podresourcesapi.NUMANode{{ID: node.GetID()}}},
				})
			}
		}
	}
	return list
}

func (o *oracle) podResourcesServer() podresourcesapi.PodResourcesListerServer {
	return newPodResourcesServer(podresources.PodResourcesProviders{
		Pods:             podProvider{o.pods},
		Devices:          deviceProvider{o.manager},
		Cpus:             noCPUs{},
		Memory:           noMemory{},
		DynamicResources: noDynamicResources{},
	})
}

type podResourcesArguments struct {
	Call      string `json:"call"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// podResources makes one call to the kubelet's PodResources server, v1.
func (o *oracle) podResources(a podResourcesArguments) (wire.Answer, error) {
	ctx, server := context.Background(), o.podResourcesServer()
	switch a.Call {
	case "list":
		response, err := server.List(ctx, &podresourcesapi.ListPodResourcesRequest{})
		if err != nil {
			return nil, err
		}
		return wire.Answer{"pods": podAnswers(response.GetPodResources())}, nil
	case "get":
		request := &podresourcesapi.GetPodResourcesRequest{PodName: a.Name, PodNamespace: a.Namespace}
		response, err := server.Get(ctx, request)
		if err != nil {
			return nil, err
		}
		return wire.Answer{"pod": podAnswers([]*podresourcesapi.PodResources{response.GetPodResources()})[0]}, nil
	case "allocatable":
		response, err := server.GetAllocatableResources(ctx, &podresourcesapi.AllocatableResourcesRequest{})
		if err != nil {
			return nil, err
		}
		return wire.Answer{"devices": listedAnswers(response.GetDevices())}, nil
	}
	return nil, fmt.Errorf("call is %q, not list, get or allocatable", a.Call)
}

type podResourcesAnswer struct {
	Name       string                     `json:"name"`
	Namespace  string                     `json:"namespace"`
	Containers []containerResourcesAnswer `json:"containers"`
}

type containerResourcesAnswer struct {
	Name    string         `json:"name"`
	Devices []listedAnswer `json:"devices"`
}

// listedAnswer is one ContainerDevices message; without topology it has no `numa`.
type listedAnswer struct {
	Resource string   `json:"resource"`
	IDs      []string `json:"ids"`
	NUMA     []int64  `json:"numa,omitempty"`
}

func podAnswers(pods []*podresourcesapi.PodResources) []podResourcesAnswer {
	answers := []podResourcesAnswer{}
	for _, pod := range pods {
		answer := podResourcesAnswer{pod.GetName(), pod.GetNamespace(), []containerResourcesAnswer{}}
		for _, container := range pod.GetContainers() {
			answer.Containers = append(answer.Containers, containerResourcesAnswer{
				container.GetName(), listedAnswers(container.GetDevices()),
			})
		}
		answers = append(answers, answer)
	}
	slices.SortStableFunc(answers, func(a, b podResourcesAnswer) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	return answers
}

func listedAnswers(list []*podresourcesapi.ContainerDevices) []listedAnswer {
	answers := []listedAnswer{}
	for _, entry := range list {
		answer := listedAnswer{Resource: entry.GetResourceName(), IDs: sorted(entry.GetDeviceIds())}
		for _, node := range entry.GetTopology().GetNodes() {
			answer.NUMA = append(answer.NUMA, node.GetID())
		}
		answers = append(answers, answer)
	}
	slices.SortFunc(answers, func(a, b listedAnswer) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), slices.Compare(a.IDs, b.IDs), slices.Compare(a.NUMA, b.NUMA))
	})
	return answers
}
