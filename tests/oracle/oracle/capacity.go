package main

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"simkubelet/oracle/wire"
)

// pollEvery is how often wait_capacity looks.
const pollEvery = 200 * time.Microsecond

func counts(list v1.ResourceList) map[string]int64 {
	numbers := map[string]int64{}
	for name, value := range list {
		numbers[string(name)] = value.Value()
	}
	return numbers
}

func (o *oracle) capacity(none) (wire.Answer, error) {
	capacity, allocatable, deleted := getCapacity(o.manager)
	slices.Sort(deleted)
	return wire.Answer{
		"capacity":    counts(capacity),
		"allocatable": counts(allocatable),
		"deleted":     append([]string{}, deleted...),
	}, nil
}

type waitArguments struct {
	Resource    string `json:"resource"`
	Capacity    *int64 `json:"capacity"`
	Allocatable *int64 `json:"allocatable"`
	TimeoutMS   int    `json:"timeout_ms"`
}

func (a waitArguments) met(capacity, allocatable v1.ResourceList) bool {
	return matches(capacity, a.Resource, a.Capacity) && matches(allocatable, a.Resource, a.Allocatable)
}

func matches(list v1.ResourceList, resource string, wanted *int64) bool {
	if wanted == nil {
		return true
	}
	value, known := list[v1.ResourceName(resource)]
	return known && value.Value() == *wanted
}

// waitCapacity tells in `seen_t` when the wanted numbers were first read.
func (o *oracle) waitCapacity(a waitArguments) (wire.Answer, error) {
	deadline := time.Now().Add(time.Duration(a.TimeoutMS) * time.Millisecond)
	var removed []string
	for {
		capacity, allocatable, deleted := getCapacity(o.manager)
		seen := wire.Now()
		removed = append(removed, deleted...)
		met := a.met(capacity, allocatable)
		if !met && time.Now().Before(deadline) {
			time.Sleep(pollEvery)
			continue
		}
		slices.Sort(removed)
		answer := wire.Answer{
			"capacity":    counts(capacity),
			"allocatable": counts(allocatable),
			"deleted":     append([]string{}, removed...),
			"seen_t":      seen,
		}
		if !met {
			return answer, fmt.Errorf("not seen within %d ms", a.TimeoutMS)
		}
		return answer, nil
	}
}

func (o *oracle) updateAllocated(none) (wire.Answer, error) {
	updateAllocatedDevices(o.manager)
	return nil, nil
}

type nodeArguments struct {
	Pod             string           `json:"pod"`
	NodeAllocatable map[string]int64 `json:"node_allocatable"`
}

func (o *oracle) updatePluginResources(a nodeArguments) (wire.Answer, error) {
	pod, err := o.pods.find(a.Pod)
	if err != nil {
		return nil, err
	}
	node := schedulerframework.NewNodeInfo()
	node.Allocatable = &schedulerframework.Resource{ScalarResources: map[v1.ResourceName]int64{}}
	for name, count := range a.NodeAllocatable {
		node.Allocatable.ScalarResources[v1.ResourceName(name)] = count
	}
	if err := o.manager.UpdatePluginResources(node, admitAttributes(pod, nil)); err != nil {
		return nil, err
	}
	allocatable := map[string]int64{}
	for name, count := range node.Allocatable.ScalarResources {
		allocatable[string(name)] = count
	}
	return wire.Answer{"node_allocatable": allocatable}, nil
}

func (o *oracle) shouldReset(none) (wire.Answer, error) {
	return wire.Answer{"value": o.manager.ShouldResetExtendedResourceCapacity()}, nil
}
