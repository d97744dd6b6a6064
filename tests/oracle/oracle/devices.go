package main

import (
	"slices"
	"strings"

	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"

	"simkubelet/oracle/wire"
)

// deviceAnswer is one device; what the manager does not know of it is left out.
type deviceAnswer struct {
	ID     string  `json:"id"`
	Health string  `json:"health,omitempty"`
	NUMA   []int64 `json:"numa,omitempty"`
}

func deviceAnswers(instances devicemanager.ResourceDeviceInstances) map[string][]deviceAnswer {
	answers := map[string][]deviceAnswer{}
	for resource, devices := range instances {
		list := make([]deviceAnswer, 0, len(devices))
		for id, device := range devices {
			found := deviceAnswer{ID: id, Health: device.Health}
			for _, node := range device.GetTopology().GetNodes() {
				found.NUMA = append(found.NUMA, node.GetID())
			}
			slices.Sort(found.NUMA)
			list = append(list, found)
		}
		slices.SortFunc(list, func(a, b deviceAnswer) int { return strings.Compare(a.ID, b.ID) })
		answers[resource] = list
	}
	return answers
}

func (o *oracle) allocatableDevices(none) (wire.Answer, error) {
	return wire.Answer{"devices": deviceAnswers(getAllocatableDevices(o.manager))}, nil
}

func (o *oracle) containerDevices(a containerName) (wire.Answer, error) {
	return wire.Answer{"devices": deviceAnswers(o.manager.GetDevices(a.Pod, a.Container))}, nil
}
